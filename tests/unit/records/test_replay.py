"""Replay: a record holds while nothing that the call read was touched, and not a moment longer."""

from __future__ import annotations

import os
import time

import pytest

from nvccache import config, environment
from nvccache.files import keys, presence, signatures
from nvccache.records import replay
from nvccache.records.call_result import CallResult
from nvccache.records.input_records import LIBRARIES, InputRecord
from nvccache.store import store
from nvccache.store.store import Store

ARGUMENTS = ["-c", "a.cu", "-o", "out/a.o", "-MD", "-MF", "out/a.d"]
KEY = replay.key_of("/usr/bin/nvcc", ARGUMENTS, "/work", {})
DIGEST = keys.digest_bytes(b"object")
ENVIRON = {"ASKED": "1", "GROUP_A": "2", "PATH": "/usr/bin:/bin", "OTHER": "3"}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working directory, with the files of a call; all of them have been there for a while."""
    monkeypatch.chdir(tmp_path)
    for name in ("late/a.h", "early/other.h", "listed/b.h", "listed/tool", "parts/one", "a.cu", "caches"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "listed" / "tool").chmod(0o755)
    (tmp_path / "listed" / "folder").mkdir()
    (tmp_path / "listed" / "loop").symlink_to("loop")
    (tmp_path / "listed" / "same").symlink_to("../early")
    (tmp_path / "nvcc").symlink_to("a.cu")
    return tmp_path


def input_record_of_call() -> InputRecord:
    """`early` and `late` have signatures that last, `listed` has not."""
    made = InputRecord()
    made.files, made.kinds = ["a.cu", "late/a.h"], "ss"
    made.digests = [keys.digest_file(path) for path in made.files]
    made.signatures = [signatures.of(path) for path in made.files]
    made.directories = ["early", "late", "listed"]
    made.directory_signatures = [signatures.of("early"), signatures.of("late"), signatures.UNKNOWN]
    made.names = [["-a.h"], ["+a.h"], ["!loop", "+b.h", "-a.h", "-sub", "dfolder", "xtool"]]
    made.links = [("nvcc", os.path.realpath("nvcc"))]
    made.plain = ["late"]
    made.listings = [("parts", presence.digest_of_listing("parts"))]
    made.identities = [("early", "early"), ("listed/folder", "listed/folder"), ("listed/same", "early")]
    made.variables = [(name, environment.digest_of(name, ENVIRON)) for name in ("ASKED", "UNSET", "GROUP_*")]
    made.sought, made.search_path = ["nvcc"], ENVIRON["PATH"]
    made.machine = [("native", "", "this one"), (LIBRARIES, "caches:libm.so.6", "x")]
    made.cache_signatures = [signatures.of("caches")]
    return made


def answer_of_call() -> CallResult:
    given = CallResult()
    given.products = [("out/a.o", DIGEST, True)]
    given.dependency_file, given.rule = "out/a.d", b"out/a.o : a.cu \\\n    late/a.h\n"
    given.stdout, given.stderr = b"out\0\n", b"\xff warning\n"
    given.seconds_saved = 12.5
    return given


def find(cache: Store, processor: str = "this one", environ=ENVIRON) -> CallResult | None:
    answers = {"native": processor, LIBRARIES: "x"}
    return replay.find(KEY, ARGUMENTS, environ, cache, lambda topic, _: answers[topic])


def add(cache: Store, made: InputRecord, given: CallResult, arguments=ARGUMENTS) -> bool:
    return replay.add(KEY, made, given, arguments, ENVIRON, cache)


@pytest.fixture
def recorded(place, cache) -> Store:
    assert add(cache, input_record_of_call(), answer_of_call())
    return cache


def test_what_was_recorded_is_found(recorded):
    found = find(recorded)
    for name in CallResult.__slots__:
        assert getattr(found, name) == getattr(answer_of_call(), name)


def test_an_answer_without_a_dependency_file_has_none(place, cache):
    given = answer_of_call()
    given.dependency_file, given.rule = "", None
    line = ARGUMENTS[:4]
    assert add(cache, input_record_of_call(), given, line)
    assert replay.find(KEY, line, ENVIRON, cache, lambda: "this one").rule is None


def test_an_answer_has_the_dependency_file_that_is_asked_for_and_no_other(place, cache):
    given = answer_of_call()
    assert not add(cache, input_record_of_call(), given, ARGUMENTS[:4])
    given.dependency_file, given.rule = "", None
    assert not add(cache, input_record_of_call(), given)


def test_an_empty_dependency_file_is_one(place, cache):
    given = answer_of_call()
    given.rule = b""
    assert add(cache, input_record_of_call(), given)
    assert find(cache).rule == b""


def test_an_unknown_call_has_no_answer(place, cache):
    assert find(cache) is None


def _touch(place):
    os.utime("late/a.h")


def _rewrite(place):
    (place / "late" / "a.h").write_text("LATE/A.H")


def _rewrite_under_the_old_date(place):
    status = os.stat("late/a.h")
    (place / "late" / "a.h").write_text("LATE/A.H")
    os.utime("late/a.h", ns=(status.st_atime_ns, status.st_mtime_ns))


def _replace(place):
    (place / "copy").write_text("late/a.h")
    os.rename("copy", "late/a.h")


def _link_elsewhere(place):
    (place / "copy").write_text("a.cu")
    os.unlink("nvcc")
    os.symlink("copy", "nvcc")


def _write(name: str) -> None:
    with open(name, "w", encoding="ascii"):
        pass


def _become_link(directory: str, other: str) -> None:
    """The same directory under another name, so that nothing else shows."""
    os.rename(directory, other)
    os.symlink(os.path.basename(other), directory)
    if other == "nowhere":
        os.rmdir(other)


CHANGES = {
    "touched": _touch,
    "rewritten": _rewrite,
    "rewritten under the old date": _rewrite_under_the_old_date,
    "replaced": _replace,
    "gone": lambda place: os.unlink("late/a.h"),
    "a directory instead": lambda place: (os.unlink("a.cu"), os.mkdir("a.cu")),
    "a FIFO instead": lambda place: (os.unlink("a.cu"), os.mkfifo("a.cu")),
    "a link moved": _link_elsewhere,
    "a link gone": lambda place: os.unlink("nvcc"),
    "a file appears in a directory with a signature": lambda place: (place / "early" / "z.h").write_text(""),
    "a directory with a signature is gone": lambda place: os.rename("early", "elsewhere"),
    "an absent name appears": lambda place: (place / "listed" / "a.h").write_text(""),
    "an absent name appears as a directory": lambda place: os.mkdir("listed/sub"),
    "an absent name appears as a link": lambda place: os.symlink("../a.cu", "listed/a.h"),
    "a present name vanishes": lambda place: os.unlink("listed/b.h"),
    "the directory of a present name vanishes": lambda place: os.rename("listed", "elsewhere"),
    "a directory becomes a file": lambda place: (os.rmdir("listed/folder"), _write("listed/folder")),
    "a directory becomes a link to nothing": lambda place: _become_link("listed/folder", "nowhere"),
    "a program can be executed no longer": lambda place: os.chmod("listed/tool", 0o644),
    "a file can be executed": lambda place: os.chmod("listed/b.h", 0o755),
    "what could not be reached can be": lambda place: (os.unlink("listed/loop"), _write("listed/loop")),
    "a plain directory becomes a link": lambda place: _become_link("late", "moved"),
    "a directory becomes another one": lambda place: (
        os.rmdir("listed/folder"),
        os.symlink("../early", "listed/folder"),
    ),
    "a directory is another one no longer": lambda place: (os.unlink("listed/same"), os.mkdir("listed/same")),
    "a name appears in a directory that was listed": lambda place: _write("parts/two"),
    "a name vanishes from a directory that was listed": lambda place: os.unlink("parts/one"),
    "a directory that was listed is gone": lambda place: os.rename("parts", "elsewhere"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_record_does_not_hold_when_anything_is_not_as_it_was(recorded, place, change):
    time.sleep(0.02)  # the clock that stamps files ticks every few milliseconds
    CHANGES[change](place)
    assert find(recorded) is None
    assert os.path.exists(recorded.path(store.REPLAY, KEY)), "it may hold again"


def test_what_nobody_asked_for_makes_no_difference(recorded, place):
    (place / "listed" / "z.h").write_text("")
    (place / "z.h").write_text("")
    assert find(recorded)


def test_another_processor_makes_a_difference_only_where_it_counts(recorded, place, monkeypatch):
    monkeypatch.setattr(signatures, "of_boot", lambda: "another start")
    assert find(recorded, "another") is None
    made = input_record_of_call()
    made.machine, made.cache_signatures = [], []
    assert add(recorded, made, answer_of_call())
    assert find(recorded, "another")


@pytest.mark.parametrize("boot", ["another start", ""])
def test_the_machine_is_looked_at_once_it_has_been_started_anew(recorded, monkeypatch, boot):
    """In between, or where nothing tells, a processor cannot have become another one."""
    assert find(recorded, "not asked for")
    monkeypatch.setattr(signatures, "of_boot", lambda: boot)
    assert find(recorded)
    assert find(recorded, "another") is None


def test_the_machine_is_looked_at_where_nothing_tells_its_start(place, cache, monkeypatch):
    monkeypatch.setattr(signatures, "of_boot", lambda: "")
    assert add(cache, input_record_of_call(), answer_of_call())
    assert find(cache)
    assert find(cache, "another") is None


def test_what_the_loader_keeps_of_directories_makes_a_difference_once_written(recorded, place):
    (place / "caches").write_text("caches")
    assert find(recorded) is None


def test_what_the_loader_keeps_of_directories_must_not_be_too_new(place, cache):
    for known in ([], [signatures.UNKNOWN]):
        made = input_record_of_call()
        made.cache_signatures = known
        assert not add(cache, made, answer_of_call())


@pytest.mark.parametrize(
    "changed",
    [
        {"ASKED": "2"},
        {"ASKED": ""},
        {"UNSET": ""},
        {"GROUP_A": "3"},
        {"GROUP_B": "2"},
        {"PATH": "/bin:/usr/bin"},
    ],
    ids=str,
)
def test_a_variable_that_was_asked_for_makes_a_difference(recorded, changed):
    assert find(recorded, environ={**ENVIRON, **changed}) is None
    without = {name: value for name, value in ENVIRON.items() if name not in changed}
    assert bool(find(recorded, environ=without)) == ("UNSET" in changed or "GROUP_B" in changed)
    assert find(recorded)


@pytest.mark.parametrize("changed", [{"OTHER": "4"}, {"NEW": "1"}, {"GROUP": "x"}], ids=str)
def test_a_variable_that_nobody_asked_for_makes_no_difference(recorded, changed):
    assert find(recorded, environ={**ENVIRON, **changed})


def test_path_counts_only_where_something_was_looked_for_on_it(place, cache):
    made = input_record_of_call()
    made.sought, made.search_path = [], ""
    assert add(cache, made, answer_of_call())
    assert find(cache, environ={**ENVIRON, "PATH": "/elsewhere"})


def test_the_plain_directory_is_noticed_where_its_signature_is_not(place, cache):
    made = input_record_of_call()
    for name in ("directories", "directory_signatures", "names"):
        delattr(made, name)
        setattr(made, name, [])
    made.files, made.kinds = ["a.cu"], "s"
    made.digests, made.signatures = made.digests[:1], made.signatures[:1]
    assert add(cache, made, answer_of_call())
    assert find(cache)
    _become_link("late", "moved")
    assert find(cache) is None


def test_a_date_of_what_nobody_reads_is_not_recorded(place, cache):
    made = input_record_of_call()
    made.dates = [("a.cu", presence.date_and_size("a.cu"))]
    assert add(cache, made, answer_of_call())
    made.dates.append(("named.cu", ""))
    assert not add(cache, made, answer_of_call())


def test_a_file_that_may_still_change_unseen_is_not_recorded(place, cache):
    for index in range(2):
        made = input_record_of_call()
        made.signatures[index] = signatures.UNKNOWN
        assert not add(cache, made, answer_of_call())
    assert find(cache) is None


def test_an_answer_with_a_file_that_the_call_does_not_name_is_not_recorded(place, cache):
    given = answer_of_call()
    given.products.append(("/elsewhere/b.o", DIGEST, False))
    assert not add(cache, input_record_of_call(), given)
    assert find(cache) is None


def test_a_readonly_cache_takes_no_record_and_still_answers(recorded):
    readonly = Store(recorded.root, is_readonly=True)
    other = replay.key_of("other", ARGUMENTS, "/work", {})
    replay.add(other, input_record_of_call(), answer_of_call(), ARGUMENTS, ENVIRON, readonly)
    assert replay.find(other, ARGUMENTS, ENVIRON, recorded, lambda: "") is None
    assert find(readonly)


def key(nvcc="/usr/bin/nvcc", arguments=("-c", "a.cu"), cwd="/work", environ=None, base_dir="") -> str:
    return replay.key_of(nvcc, arguments, cwd, environ or {}, base_dir)


def test_a_call_has_one_key():
    assert key() == key()
    assert key(environ={"A": "1", "PATH": "/bin"}) == key(environ={"PATH": "/bin", "B": "2"})


@pytest.mark.parametrize(
    "call",
    [
        {"nvcc": "/opt/bin/nvcc"},
        {"nvcc": "nvcc"},
        {"arguments": ("-c", "b.cu")},
        {"arguments": ("-ca.cu",)},
        {"arguments": ("a.cu", "-c")},
        {"arguments": ("-c", "a.cu", "")},
        {"arguments": ("-c", "", "a.cu")},
        {"cwd": "/elsewhere/x"},
        {"environ": {"PWD": "/link"}},
        {"base_dir": "/work"},
        {"nvcc": "/usr/bin/nvcc2:-c"},
    ],
)
def test_each_part_of_a_call_is_in_its_key(call):
    assert key(**call) != key()


def test_where_words_end_is_in_the_key():
    assert key(arguments=("-I", "-O2")) != key(arguments=("-I-O2",))


def test_directories_do_not_stand_in_for_one_another():
    keys_of_places = {
        key(cwd="/a", environ={"PWD": "/b"}),
        key(cwd="/b", environ={"PWD": "/a"}),
        key(cwd="/a", base_dir="/b"),
        key(cwd="/b", base_dir="/a"),
        key(cwd="/a", environ={"PWD": "/b"}, base_dir="/a"),
    }
    assert len(keys_of_places) == 5


@pytest.mark.parametrize("name", sorted(environment.OF_ARGUMENTS))
def test_each_variable_whose_words_are_arguments_is_in_the_key(name):
    values = [{}, {name: ""}, {name: "1"}, {name: "2"}]
    assert len({key(environ=environ) for environ in values}) == len(values)


def test_a_variable_does_not_stand_in_for_another():
    one, other = sorted(environment.OF_ARGUMENTS)
    assert key(environ={one: "-O2"}) != key(environ={other: "-O2"})


@pytest.mark.parametrize("name", ["HOME", "LANG", "PATH", "TMPDIR", "CPATH", "LD_LIBRARY_PATH", "MAKEFLAGS"])
def test_other_variables_are_not_in_the_key(name):
    """A record says which of them were asked for."""
    assert key(environ={name: "1"}) == key()


@pytest.mark.parametrize("name", sorted(variable for variable, _ in config.SETTINGS.values()))
def test_our_own_settings_are_not_in_the_key(name):
    assert key(environ={name: "1"}) == key()


def test_words_that_are_no_text_have_a_key():
    assert key(arguments=("\udcff",), environ={"NVCC_APPEND_FLAGS": "\udc80"}) != key(arguments=("\udcfe",))
