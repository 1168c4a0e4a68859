"""Restoring products: files end up as nvcc's tools leave them, and never partial."""

from __future__ import annotations

import errno
import os
import select
import signal
import stat
from pathlib import Path

import pytest

import unprivileged
from nvccache.files import keys
from nvccache.records import products
from nvccache.records.products import Product
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
def test_a_new_product_has_the_mode_that_the_umask_gives(destination, umask, is_replaced):
    if is_replaced:
        destination.write_bytes(OLD)
        destination.chmod(0o444)
    previous = os.umask(umask)
    try:
        write(destination, unlink_first=True)
    finally:
        os.umask(previous)
    assert stat.S_IMODE(destination.stat().st_mode) == 0o666 & ~umask
    assert destination.read_bytes() == CONTENT
    assert os.listdir(destination.parent) == ["a.o"]


@pytest.mark.parametrize("old", [OLD, OLD * 10000, b""])
def test_an_existing_file_is_written_into_and_keeps_its_mode(destination, tmp_path, old):
    destination.write_bytes(old)
    destination.chmod(0o640)
    os.link(destination, tmp_path / "other name")
    with open(destination, "rb") as reader:
        write(destination)
        assert reader.read() == CONTENT
    assert (tmp_path / "other name").read_bytes() == CONTENT
    assert stat.S_IMODE(destination.stat().st_mode) == 0o640


@pytest.mark.usefixtures("a_file_system")
def test_an_existing_object_is_replaced_as_the_assembler_does(destination, tmp_path):
    destination.write_bytes(OLD)
    os.link(destination, tmp_path / "other name")
    with open(destination, "rb") as reader:
        write(destination, unlink_first=True)
        assert reader.read() == OLD
    assert destination.read_bytes() == CONTENT
    assert (tmp_path / "other name").read_bytes() == OLD


@pytest.mark.parametrize("target", [OLD, None])
def test_a_symbolic_link_is_written_through(destination, target):
    if target:
        (destination.parent / "target").write_bytes(target)
    destination.symlink_to("target")
    write(destination)
    assert (destination.parent / "target").read_bytes() == CONTENT
    assert destination.is_symlink()


@pytest.mark.usefixtures("a_file_system")
def test_a_symbolic_link_in_the_place_of_an_object_is_replaced(destination, tmp_path):
    (tmp_path / "target").write_bytes(OLD)
    destination.symlink_to(tmp_path / "target")
    write(destination, unlink_first=True)
    assert (tmp_path / "target").read_bytes() == OLD
    assert not destination.is_symlink() and destination.read_bytes() == CONTENT


def test_an_object_with_nothing_in_it_is_written_into_as_the_assembler_does(destination, tmp_path):
    destination.write_bytes(b"")
    os.link(destination, tmp_path / "other name")
    write(destination, unlink_first=True)
    assert (tmp_path / "other name").read_bytes() == CONTENT


def test_what_may_not_be_unlinked_is_written_into_as_the_assembler_does(destination):
    """Seen with gas: in a directory that cannot be written to, and in another user's sticky one."""
    destination.write_bytes(OLD)
    for mode in (0o555, 0o1777):
        with unprivileged.copy_with_modes(destination.parent, mode, 0o666) as copy:
            path = Path(copy) / "a.o"
            inode = path.stat().st_ino
            write(path, unlink_first=True)
            assert path.stat().st_ino == inode and path.read_bytes() == CONTENT
            assert os.listdir(copy) == ["a.o"]
            with pytest.raises(PermissionError) if mode == 0o555 else pytest.MonkeyPatch.context():
                write(Path(copy) / "new.o", unlink_first=True)


def test_what_may_not_be_written_is_left_alone(destination):
    destination.write_bytes(OLD)
    with unprivileged.read_only(destination.parent) as copy:
        for unlink_first in (False, True):
            with pytest.raises(PermissionError):
                write(f"{copy}/a.o", unlink_first=unlink_first)
        assert Path(copy, "a.o").read_bytes() == OLD


@pytest.mark.usefixtures("a_file_system")
@pytest.mark.parametrize("unlink_first", [False, True])
@pytest.mark.parametrize("name", ["directory", "missing/a.o", "pipe", "null", "", "a.o/", "x" * 300])
def test_what_cannot_be_written_or_is_no_file_raises(destination, monkeypatch, name, unlink_first):
    monkeypatch.chdir(destination.parent)
    os.mkdir("directory")
    os.mkfifo("pipe")
    os.symlink("/dev/null", "null")
    before = sorted(os.listdir())
    with pytest.raises(OSError):
        write(name, unlink_first=unlink_first)
    assert sorted(os.listdir()) == before


def test_a_pipes_reader_waits_for_nvcc(destination):
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


def test_what_is_done_to_a_product_does_not_reach_the_store(tmp_path, destination):
    cache, digest = Store(str(tmp_path / "cache")), keys.digest_bytes(CONTENT)
    cache.add_blob(digest, CONTENT, compress=False)
    products.write_all([Product(str(destination), CONTENT, cache.path(BLOB, digest))])
    assert destination.stat().st_ino != Path(cache.path(BLOB, digest)).stat().st_ino
    destination.write_bytes(b"overwritten")
    assert cache.read_blob(digest) == CONTENT


@pytest.mark.parametrize("state", ["missing", "of another size", "a directory"])
def test_a_blob_that_cannot_be_cloned_is_copied(tmp_path, destination, monkeypatch, state):
    monkeypatch.setattr("fcntl.ioctl", lambda target, request, source: os.pwrite(target, b"cloned", 0))
    blob = tmp_path / "blob"
    if state == "of another size":
        blob.write_bytes(b"x")
    elif state == "a directory":
        blob.mkdir()
    products.write_all([Product(str(destination), LARGE, str(blob))])
    assert destination.read_bytes() == LARGE


@pytest.mark.parametrize(("content", "is_cloned"), [(LARGE, True), (CONTENT, False)])
def test_where_the_file_system_can_clone_the_blocks_of_a_large_product_are_shared(
    tmp_path, destination, monkeypatch, content, is_cloned
):
    requests = []

    def clone(target: int, request: int, source: int) -> None:
        requests.append(request)
        os.pwrite(target, os.pread(source, 1 << 30, 0), 0)

    blob = tmp_path / "blob"
    blob.write_bytes(content + b"what a large blob ends with")
    monkeypatch.setattr("fcntl.ioctl", clone)
    products.write_all([Product(str(destination), content, str(blob))])
    assert requests == [0x40049409] * is_cloned  # FICLONE
    assert destination.read_bytes() == content


def test_a_damaged_blob_is_not_cloned_in_the_place_of_what_was_just_made(tmp_path, destination, monkeypatch):
    blob = tmp_path / "blob"
    blob.write_bytes(b"?" * len(LARGE))
    monkeypatch.setattr("fcntl.ioctl", lambda target, request, source: os.pwrite(target, b"cloned", 0))
    products.write_all([Product(str(destination), LARGE, str(blob))])
    assert destination.read_bytes() == LARGE


def test_products_are_as_old_as_their_order_says(destination):
    """Otherwise make rebuilds an object that it believes to depend on its depfile."""
    rule = destination.with_suffix(".d")
    for _ in range(2):
        products.write_all([Product(str(rule), b"a.o:"), Product(str(destination), CONTENT, "", True)])
        assert rule.stat().st_mtime_ns <= destination.stat().st_mtime_ns


def test_two_products_of_one_name(destination):
    for unlink_first in (False, True):
        for _ in range(2):
            products.write_all(
                [Product(str(destination), OLD), Product(str(destination), CONTENT, "", unlink_first)]
            )
            assert destination.read_bytes() == CONTENT
        destination.unlink()


STEPS = ["open", "write", "posix_fallocate", "link", "unlink", "ftruncate", "utime"]
BEFORE = {
    "nothing": lambda path: None,
    "an old one": lambda path: path.write_bytes(OLD),
    "an empty one": lambda path: path.write_bytes(b""),
    "a link": lambda path: (path.with_name("target").write_bytes(OLD), path.symlink_to("target")),
    "a link to nothing": lambda path: path.symlink_to("target"),
}


@pytest.mark.usefixtures("a_file_system")
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("unlink_first", [False, True])
def test_whatever_fails_no_part_of_a_product_is_left(destination, monkeypatch, before, unlink_first):
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
    assert failures >= 2


@pytest.mark.usefixtures("a_file_system")
def test_where_there_is_no_room_nothing_of_several_products_is_given(destination, monkeypatch):
    paths = [destination.with_name(name) for name in ("a.d", "a.o", "b.o")]
    paths[0].write_bytes(OLD)
    os.utime(paths[0], (1, 1))
    for number in range(2):
        with monkeypatch.context() as patch:
            fail(patch, "write", number)
            with pytest.raises(OSError):
                products.write_all([Product(str(path), CONTENT, "", path.suffix == ".o") for path in paths])
        assert [path.name for path in destination.parent.iterdir()] == ["a.d"]
        assert (paths[0].read_bytes(), paths[0].stat().st_mtime) == (OLD, 1)


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


@pytest.mark.by_default("False-nothing-15", "True-an old one-15", "False-an old one-9", "False-an old one-2")
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("before", ["nothing", "an old one"])
@pytest.mark.parametrize("unlink_first", [False, True])
def test_a_signal_at_any_step_leaves_no_part_of_a_product(destination, signum, before, unlink_first):
    """SIGKILL may leave a torn file that is written in place."""
    for step in ("open", "write", "link", "unlink", "ftruncate"):
        BEFORE[before](destination)
        pid = os.fork()
        if pid == 0:
            die_in(step, signum, destination, unlink_first)
        status = os.waitpid(pid, 0)[1]
        assert status in (0, signum), step
        assert set(os.listdir(destination.parent)) <= {"a.o"}, step
        if signum != signal.SIGKILL or unlink_first or before == "nothing":
            assert seen(destination)[1] in (None, OLD, CONTENT)
        for path in destination.parent.iterdir():
            path.unlink()


def die_in(step: str, signum: int, destination: Path, unlink_first: bool) -> None:
    """In a child process: get a signal during each call of a step, as a direct hit might."""
    try:
        signal.signal(signum, signal.SIG_DFL) if signum != signal.SIGKILL else None
        original = getattr(os, step)

        def dying(*arguments, **named):
            if step == "write":
                done = original(arguments[0], arguments[1][:100])
            else:
                done = original(*arguments, **named)
            os.kill(os.getpid(), signum)
            return done

        setattr(products.os, step, dying)
        write(destination, unlink_first=unlink_first)
    finally:
        os._exit(0)
