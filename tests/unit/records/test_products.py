"""Restoring products: files end up as nvcc's tools leave them, never partial, and all or none."""

from __future__ import annotations

import errno
import os
import select
import signal
import stat
from pathlib import Path

import pytest

from nvccache.files import keys
from nvccache.records import products
from nvccache.records.output_names import STANDARD_OUTPUT
from nvccache.records.products import LOST, RESTORED, UNWRITABLE, Answer, Product, restore
from nvccache.records.record import Result
from nvccache.store.store import BLOB, Store

CONTENT = b"\x7fELF" + bytes(range(256)) * 40
LARGE = CONTENT * 120  # worth to be cloned
OLD = b"what was there before"


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work" / "a.o"


@pytest.fixture(params=["without a name", "with a name"])
def a_file_system(request, monkeypatch) -> None:
    """One that has files without a name, and one that has none."""
    if request.param == "with a name":
        refuse_nameless(monkeypatch)


def refuse_nameless(monkeypatch) -> None:
    original = os.open

    def refuse(path, flags, *arguments, **named):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "no such files here")
        return original(path, flags, *arguments, **named)

    monkeypatch.setattr(products.os, "open", refuse)


def write(destination: Path | str, *, unlink_first: bool = False, content: bytes = CONTENT) -> None:
    products.write_all([Product(str(destination), content, "", unlink_first)])


@pytest.mark.usefixtures("a_file_system")
@pytest.mark.parametrize("umask", [0o002, 0o022, 0o077])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_new_product_has_the_mode_that_the_umask_gives(destination, monkeypatch, umask, is_replaced):
    monkeypatch.chdir(destination.parent)
    if is_replaced:
        destination.write_bytes(OLD)
        destination.chmod(0o444)
    previous = os.umask(umask)
    try:
        write(destination.name, unlink_first=True)
    finally:
        os.umask(previous)
    assert stat.S_IMODE(destination.stat().st_mode) == 0o666 & ~umask
    assert destination.read_bytes() == CONTENT
    assert os.listdir(destination.parent) == ["a.o"]


def link(path: Path) -> None:
    path.symlink_to("target")


def second_name(path: Path) -> None:
    os.link(path.with_name("target"), path)


@pytest.mark.usefixtures("a_file_system")
@pytest.mark.parametrize(
    ("lie_there", "old", "unlink_first", "is_replaced"),
    [
        (second_name, OLD, False, False),
        (second_name, OLD * 10000, False, False),
        (second_name, OLD, True, True),
        (second_name, b"x", True, True),
        (second_name, b"", True, False),  # as the assembler does
        (link, OLD, False, False),
        (link, OLD, True, True),
    ],
)
def test_existing_outputs_are_overwritten_or_replaced_as_by_nvccs_tools(
    destination, lie_there, old, unlink_first, is_replaced
):
    target = destination.with_name("target")
    target.write_bytes(old)
    target.chmod(0o640)
    lie_there(destination)
    write(destination, unlink_first=unlink_first)
    assert destination.read_bytes() == CONTENT
    assert target.read_bytes() == (old if is_replaced else CONTENT)
    assert destination.is_symlink() == (lie_there is link and not is_replaced)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


@pytest.mark.usefixtures("a_file_system")
@pytest.mark.parametrize("unlink_first", [False, True])
@pytest.mark.parametrize("name", ["directory", "missing/a.o", "pipe", "null", "dangling", ""])
def test_writing_a_product_to_an_unwritable_or_special_file_raises(
    destination, monkeypatch, name, unlink_first
):
    monkeypatch.chdir(destination.parent)
    os.mkdir("directory")
    os.mkfifo("pipe")
    os.symlink("/dev/null", "null")
    os.symlink("nowhere", "dangling")
    before = sorted(os.listdir())
    with pytest.raises(OSError):
        write(name, unlink_first=unlink_first)
    assert sorted(os.listdir()) == before


def test_a_pipe_as_the_output_is_not_opened_so_its_reader_waits_for_nvcc(destination):
    """Were the pipe opened and closed, the reader would see its end."""
    os.mkfifo(destination)
    reader = os.open(destination, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(OSError):
            write(destination)
        poll = select.poll()
        poll.register(reader)
        assert poll.poll(0) == []
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    ("blob", "cloned"),
    [
        (LARGE + b"what a large blob ends with", None),
        (b"x", None),
        (b"?" * len(LARGE), b"damaged"),
        (None, None),
    ],
    ids=["as it should be", "of another size", "damaged", "missing"],
)
def test_a_large_product_shares_the_blocks_of_its_blob_where_they_are_the_same(
    tmp_path, destination, monkeypatch, blob, cloned
):
    """If the file system can; it is written otherwise."""
    requests = []

    def clone(target: int, request: int, source: int) -> None:
        requests.append(request)
        os.pwrite(target, cloned or os.pread(source, 1 << 30, 0), 0)

    if blob is not None:
        (tmp_path / "blob").write_bytes(blob)

    def write_all(descriptor: int, content: bytes) -> None:
        requests.append("copied")
        copy(descriptor, content)

    copy = products.untrusted.write_all
    monkeypatch.setattr("fcntl.ioctl", clone)
    monkeypatch.setattr(products.untrusted, "write_all", write_all)
    products.write_all([Product(str(destination), LARGE, str(tmp_path / "blob"))])
    assert destination.read_bytes() == LARGE
    is_cloned = blob is not None and blob.startswith(LARGE)
    assert requests.count("copied") == (not is_cloned)
    requests = [request for request in requests if request != "copied"]
    assert requests == [0x40049409] * (blob is not None)  # FICLONE
    monkeypatch.setattr(products, "_clone", lambda *_: pytest.fail("a small one is not cloned"))
    write(destination)


STEPS = ["open", "write", "link", "ftruncate"]
BEFORE = {
    "nothing": lambda path: None,
    "an old one": lambda path: path.write_bytes(OLD),
    "an empty one": lambda path: path.write_bytes(b""),
    "a link": lambda path: (path.with_name("target").write_bytes(OLD), path.symlink_to("target")),
}


@pytest.mark.usefixtures("a_file_system")
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("unlink_first", [False, True])
def test_a_failed_write_leaves_no_partial_product(destination, monkeypatch, before, unlink_first):
    """Each call of each step fails in turn: what is left is the old file, the whole product, or nothing."""
    failures = 0
    for step in STEPS:
        for number in range(4):
            before(destination)
            was_there = seen(destination)
            with monkeypatch.context() as patch:
                is_over = fail(patch, step, number)
                try:
                    write(destination, unlink_first=unlink_first)
                except OSError:
                    failures += 1
                    assert seen(destination) in (was_there, ("absent", None)), (step, number)
                else:
                    assert destination.read_bytes() == CONTENT, (step, number)
                assert not set(os.listdir(destination.parent)) - {"a.o", "target"}
            for path in destination.parent.iterdir():
                path.unlink()
            if not is_over():
                break
    assert failures


def seen(path: Path) -> tuple[str, bytes | None]:
    if not os.path.lexists(path) or (path.is_symlink() and not path.exists()):
        return "absent", None
    return "there", path.read_bytes()


def fail(patch: pytest.MonkeyPatch, step: str, number: int):
    """Make one call of a step fail with a full disk, a write after a part. Returns whether it happened."""
    original = getattr(os, step)
    calls = 0

    def failing(*arguments, **named):
        nonlocal calls
        calls += 1
        if calls - 1 < number:
            return original(*arguments, **named)
        if calls - 1 == number and step == "write":
            return original(arguments[0], arguments[1][:100])
        if calls - 1 == number or step == "write":
            raise OSError(errno.ENOSPC, "no room")
        return original(*arguments, **named)

    patch.setattr(products.os, step, failing)
    return lambda: calls > number


@pytest.mark.parametrize("before", ["nothing", "an old one"])
@pytest.mark.parametrize("unlink_first", [False, True])
def test_a_kill_at_any_step_leaves_no_part_of_a_product(destination, before, unlink_first):
    """But of a file that is written in place."""
    for step in ("open", "write", "link", "unlink", "ftruncate"):
        BEFORE[before](destination)
        pid = os.fork()
        if pid == 0:
            die_in(step, destination, unlink_first)
        assert os.waitpid(pid, 0)[1] in (0, signal.SIGKILL), step
        assert set(os.listdir(destination.parent)) <= {"a.o"}, step
        if unlink_first or before == "nothing":
            assert seen(destination)[1] in (None, OLD, CONTENT)
        for path in destination.parent.iterdir():
            path.unlink()


def die_in(step: str, destination: Path, unlink_first: bool) -> None:
    """In a child process: be killed in a call of a step, after a part of a write."""
    original = getattr(os, step)

    def dying(*arguments, **named):
        original(*((arguments[0], arguments[1][:100]) if step == "write" else arguments), **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(products.os, step, dying)
    try:
        write(destination, unlink_first=unlink_first)
    finally:
        os._exit(0)


# Whole answers: all files that nvcc would have written, or none.

OBJECT, PTX = b"\x7fELF object", b"// ptx\n"
RULE = b"a.o : a.cu\n"
BOTH = (("a.o", OBJECT, True), ("a.ptx", PTX, False))


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Store:
    """A store with two products; the working directory is empty."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    cache = Store(str(tmp_path / "cache"))
    cache.add_blob(keys.digest_bytes(OBJECT), OBJECT, compress=False)
    cache.add_blob(keys.digest_bytes(PTX), PTX, compress=True)
    return cache


def answer(*made: tuple[str, bytes, bool], dependency_file: str = "") -> Answer:
    given = Answer(Result())
    given.products = [(path, keys.digest_bytes(content), first) for path, content, first in made]
    given.dependency_file, given.rule = dependency_file, RULE if dependency_file else None
    return given


def files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path().iterdir()}


def test_a_hit_writes_copies_of_all_outputs_and_marks_their_blobs_as_used(cache):
    path = cache.path(BLOB, keys.digest_bytes(OBJECT))
    os.utime(path, (1, 1))
    assert restore(answer(*BOTH, dependency_file="a.d"), cache) == RESTORED
    assert files() == {"a.o": OBJECT, "a.ptx": PTX, "a.d": RULE}
    assert os.stat(path).st_mtime > 1, "it counts as used"
    with open("a.o", "ab") as stream:
        stream.write(b"more")
    assert cache.read_blob(keys.digest_bytes(OBJECT)) == OBJECT, "it is no link into the cache"


@pytest.mark.parametrize("damage", [None, lambda whole: whole[:-1], lambda whole: whole[:-1] + b"\0"])
@pytest.mark.parametrize("content", [OBJECT, PTX])
def test_a_hit_whose_object_is_lost_or_damaged_changes_no_files(cache, content, damage):
    path = Path(cache.path(BLOB, keys.digest_bytes(content)))
    path = path if path.exists() else path.with_name(path.name + ".zst")
    if damage:
        path.write_bytes(damage(path.read_bytes()))
    else:
        path.unlink()
    Path("a.o").write_bytes(b"old")
    assert restore(answer(*BOTH, dependency_file="a.d"), cache) == LOST
    assert files() == {"a.o": b"old"}
    assert not path.exists()


@pytest.mark.parametrize("path", ["missing/a.o", "taken", "nul\0"])
def test_an_unwritable_output_is_left_for_nvcc_to_report(cache, path):
    os.mkdir("taken")
    for product, dependency_file in ((path, "a.d"), ("a.o", path)):
        assert restore(answer((product, OBJECT, True), dependency_file=dependency_file), cache) == UNWRITABLE
        assert set(os.listdir()) <= {"taken", "a.d"}


def test_query_output_is_returned_as_standard_output(cache):
    given = answer((STANDARD_OUTPUT, OBJECT, False))
    assert restore(given, cache) == RESTORED
    assert given.result.stdout == OBJECT
    assert files() == {}
