"""Replay: a record holds until any input of the call is touched.

Python writes the records, and the compiled launcher reads them.
"""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nvccache import environment
from nvccache.files import keys, presence, signatures
from nvccache.records import facts
from nvccache.records.products import Answer
from nvccache.records.record import Result
from nvccache.store import event_line, events, store
from nvccache.store.store import Store
from recorded_call import (
    ARGUMENTS,
    DIGEST,
    OBJECT,
    answer_of_call,
    holds,
    input_record_of_call,
    launcher,
    nvcc,
    place,
    places,
    recorded,
    stored,
)
from replays import LEFT_TO_PYTHON


def test_what_was_recorded_is_given(recorded):
    found = recorded.ask(ARGUMENTS)
    given = answer_of_call()
    assert (found.is_answer, found.stdout, found.stderr) == (True, given.result.stdout, given.result.stderr)
    assert Path("out/a.o").read_bytes() == OBJECT
    assert Path("out/a.d").read_bytes() == given.rule
    assert sorted(os.listdir("out")) == ["a.d", "a.o", "keep"]


def test_the_event_is_as_python_would_have_it(recorded, place, cache):
    recorded.ask(ARGUMENTS)
    *_, event = events.read(cache.root)
    assert (event.outcome, event.directory, event.product) == (
        "direct_hit",
        str(place),
        str(place / "out/a.o"),
    )
    assert (event.sources, event.tool_saved, event.cause, event.reason) == (["a.cu"], 12.5, "", "")
    assert 0 < event.seconds < 5 and abs(event.started - time.time()) < 60
    assert [(stage.kind, stage.seconds, stage.is_hit) for stage in event.stages] == [("cicc", 1.5, True)]


# `call` and `ask` replace themselves by the launcher, and by a Python that prints the build.
SHELLS = {
    "typed": 'setsid -w sh -c "./call; ./ask; true"',
    "below another": """setsid -w sh -c "sh -c './call; ./ask; true'; true" """,
    "below two": """setsid -w sh -c "sh -c \\"sh -c './call; ./ask; true'; true\\"; true" """,
    "a session of its own": "setsid -w ./call; setsid -w ./ask",
}


@pytest.mark.parametrize("shells", SHELLS)
def test_the_build_is_as_python_finds_it(recorded, place, cache, shells):
    program = "from nvccache.machine.builds import build_of_call as build; print(build())"
    variables = ["env", "-i", *(f"{name}={value}" for name, value in recorded.environ.items())]
    call = [*variables, *recorded.front, *ARGUMENTS]
    for name, argv in (("call", call), ("ask", [sys.executable, "-c", program])):
        (place / name).write_text(f"#!/bin/sh\nexec {shlex.join(argv)}\n")
        (place / name).chmod(0o755)
    done = subprocess.run(["sh", "-c", SHELLS[shells]], env=recorded.environ, capture_output=True, check=True)
    _, event = events.read(cache.root)
    assert event.build == done.stdout.split(b"\n")[-2].decode()
    assert bool(event.build) == ("below" in shells)


def test_an_answer_without_a_dependency_file_has_none(launcher, nvcc):
    given = answer_of_call()
    given.dependency_file, given.rule = "", None
    assert launcher.record(nvcc, ARGUMENTS[:4], input_record_of_call(), given)
    assert launcher.ask(ARGUMENTS[:4]).is_answer
    assert not os.path.exists("out/a.d")


@pytest.mark.parametrize(
    "arguments", [["-c", "a.cu", "-odir", "out"], ["-unheard-of", "-o", "out/a.o", "-c", "a.cu"]], ids=str
)
def test_outputs_that_only_a_parse_can_name_are_replayed(launcher, nvcc, arguments):
    given = answer_of_call()
    given.dependency_file, given.rule = "", None
    assert launcher.record(nvcc, arguments, input_record_of_call(), given)
    assert launcher.ask(arguments).is_answer
    assert Path("out/a.o").read_bytes() == OBJECT


def test_more_files_than_a_product_and_a_depfile_are_left_to_python(launcher, nvcc):
    given = answer_of_call()
    given.products += [("out/b.o", digest, unlink) for _, digest, unlink in given.products]
    assert not launcher.record(nvcc, ARGUMENTS, input_record_of_call(), given)


def test_an_empty_dependency_file_is_one(launcher, nvcc):
    given = answer_of_call()
    given.rule = b""
    assert launcher.record(nvcc, ARGUMENTS, input_record_of_call(), given)
    assert holds(launcher)
    assert Path("out/a.d").read_bytes() == b""


def test_an_unknown_call_has_no_answer(recorded):
    assert not recorded.ask([*ARGUMENTS, "-g"]).is_answer


__all__ = ["launcher", "nvcc", "place", "places", "recorded", "stored"]  # fixtures


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
    """The same directory behind a link, so that nothing else changes."""
    os.rename(directory, other)
    os.symlink(os.path.basename(other), directory)
    if other == "nowhere":
        os.rmdir(other)


def _write_settings(place) -> None:
    (place / "home/nvccache").mkdir(parents=True)
    (place / "home/nvccache/config.toml").write_text("")


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
    "an absent name leads to itself": lambda place: os.symlink("a.h", "listed/a.h"),
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
    "the compiler is another one": lambda place: (place / "compiler/nvcc").write_text("compiler/NVCC"),
    "the compiler is gone": lambda place: os.unlink("compiler/nvcc"),
    "the compiler is led to": lambda place: _become_link("compiler", "moved"),
    "settings": _write_settings,
    "the product is a link": lambda place: os.symlink("keep", "out/a.o"),
    "the product has another name": lambda place: os.link("out/keep", "out/a.o"),
    "the product is a directory": lambda place: os.mkdir("out/a.o"),
    "the product is a FIFO": lambda place: os.mkfifo("out/a.o"),
    "the dependency file is a FIFO": lambda place: os.mkfifo("out/a.d"),
    "the dependency file leads nowhere": lambda place: os.symlink("nowhere", "out/a.d"),
    "no directory for the product": lambda place: os.rename("out", "elsewhere"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_record_does_not_hold_when_anything_is_not_as_it_was(recorded, place, nvcc, change):
    """`out` has one file that always stays."""
    recorded.environ["XDG_CONFIG_HOME"] = str(place / "home")
    assert recorded.record(nvcc, ARGUMENTS, input_record_of_call(), answer_of_call())
    (record,) = recorded.records()
    time.sleep(0.02)  # the clock that stamps files ticks every few milliseconds
    CHANGES[change](place)
    assert not recorded.ask(ARGUMENTS).is_answer
    assert record.exists(), "it may hold again"
    for directory in ("out", "elsewhere"):
        kept = place / directory / "keep"
        assert not kept.exists() or kept.read_text() == "out/keep"


def test_what_was_not_looked_up_makes_no_difference(recorded, place):
    (place / "listed" / "z.h").write_text("")
    (place / "z.h").write_text("")
    assert holds(recorded)


def test_a_record_that_held_no_longer_holds_again(recorded, place):
    os.rename("listed/b.h", "b.h")
    assert not holds(recorded)
    os.rename("b.h", "listed/b.h")
    assert holds(recorded)


def answer_to(topic):
    current = facts.answer(topic, "", os.environ, Store("unused"))
    assert current
    return current


@pytest.mark.parametrize("topic", ["host", "caller"])
def test_what_a_process_was_given_counts_where_it_was_asked_for(launcher, nvcc, topic):
    made = input_record_of_call()
    launcher.become = {"stdin": None}  # the same as ours
    made.machine.append((topic, "", answer_to(topic)))
    assert launcher.record(nvcc, ARGUMENTS, made, answer_of_call())
    assert holds(launcher)
    made.machine[-1] = (topic, "", keys.digest_bytes(b"another"))
    assert not launcher.record(nvcc, ARGUMENTS, made, answer_of_call())


GIVEN = {
    "umask": {"umask": 0o077},
    "a limit": {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))},
    "the priority": {"preexec_fn": lambda: os.nice(1)},
    "standard input": {"stdin": subprocess.PIPE},
    "processors": {"preexec_fn": lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])},
}


@pytest.mark.parametrize("what", GIVEN)
def test_whatever_else_a_process_is_given_is_noticed(launcher, nvcc, what):
    if what == "processors" and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("there is but one")
    launcher.become = {"stdin": None}
    made = input_record_of_call()
    made.machine.append(("caller", "", answer_to("caller")))
    assert launcher.record(nvcc, ARGUMENTS, made, answer_of_call())
    assert holds(launcher)
    launcher.become |= GIVEN[what]
    assert not holds(launcher)


def test_the_machine_must_not_have_been_rebooted(launcher, nvcc, monkeypatch):
    monkeypatch.setattr(signatures, "of_boot", lambda: "another start")
    assert launcher.record(nvcc, ARGUMENTS, input_record_of_call(), answer_of_call())
    assert not holds(launcher)
    made = input_record_of_call()
    made.machine, made.cache_signatures = [], []
    assert launcher.record(nvcc, ARGUMENTS, made, answer_of_call())
    assert holds(launcher)


def test_where_nothing_tells_its_start_the_machine_is_pythons_to_ask(launcher, nvcc, monkeypatch):
    monkeypatch.setattr(signatures, "of_boot", lambda: "")
    assert not launcher.record(nvcc, ARGUMENTS, input_record_of_call(), answer_of_call())


def test_what_the_loader_keeps_of_directories_makes_a_difference_once_written(recorded, place):
    (place / "caches").write_text("caches")
    assert not holds(recorded)


def test_what_the_loader_keeps_of_directories_must_not_be_too_new(launcher, nvcc):
    for known in ([], [signatures.UNKNOWN]):
        made = input_record_of_call()
        made.cache_signatures = known
        assert not launcher.record(nvcc, ARGUMENTS, made, answer_of_call())


@pytest.mark.parametrize(
    "changed",
    [
        {"ASKED": "2"},
        {"ASKED": ""},
        {"ASKED": "11"},
        {"ASKED": None},
        {"UNSET": ""},
        {"GROUP_A": "3"},
        {"GROUP_A": None},
        {"GROUP_B": "2"},
        {"GROUP_": "2"},
        {"PATH": "/bin:/usr/bin"},
        {"PATH": None},
        {"NVCCACHE_STRICT": "1"},
        {"NVCCACHE_NO_SUCH_SETTING": ""},
        {"_NVCCACHE_X": "1"},
        {"_NVCCACHE_TRIED": "/x/nvcc"},
        {"XDG_CONFIG_HOME": "/elsewhere"},
        {"XDG_CACHE_HOME": "/elsewhere"},
        {"HOME": "/elsewhere"},
        {"PWD": "/elsewhere"},
        {"NVCC_APPEND_FLAGS": "-g"},
        {"NVCC_PREPEND_FLAGS": ""},
        {"TMPDIR": "/dev/null/none"},
        {"TMPDIR": ""},
    ],
    ids=str,
)
def test_a_variable_that_was_asked_for_makes_a_difference(recorded, changed):
    assert not holds(recorded, **changed)
    assert holds(recorded)


@pytest.mark.parametrize(
    "changed",
    [{"OTHER": "4"}, {"NEW": "1"}, {"GROUP": "x"}, {"TMPDIR": "/tmp/."}, {"A" * 5000: "b" * 5000}],
    ids=lambda changed: next(iter(changed))[:10],
)
def test_a_variable_that_was_not_read_makes_no_difference(recorded, changed):
    assert holds(recorded, **changed)


def test_what_nothing_can_depend_on_is_not_in_a_group(launcher, nvcc):
    made = input_record_of_call()
    made.variables = [("*", environment.digest_of("*", launcher.environ))]
    assert launcher.record(nvcc, ARGUMENTS, made, answer_of_call())
    assert holds(launcher, OLDPWD="/x", MAKEFLAGS="-j", SHLVL="7", _="x", TMP="/x")
    assert not holds(launcher, UNKNOWN_YET="1")


def test_path_counts_only_where_something_was_looked_for_on_it(launcher, nvcc):
    made = input_record_of_call()
    made.sought, made.search_path = [], ""
    assert launcher.record(nvcc, ARGUMENTS, made, answer_of_call())
    assert holds(launcher, PATH="/elsewhere")


def test_the_plain_directory_is_noticed_where_its_signature_is_not(launcher, nvcc):
    made = input_record_of_call()
    for name in ("directories", "directory_signatures", "names"):
        setattr(made, name, [])
    made.files, made.kinds = ["a.cu"], "s"
    made.digests, made.signatures = made.digests[:1], made.signatures[:1]
    assert launcher.record(nvcc, ARGUMENTS, made, answer_of_call())
    assert holds(launcher)
    _become_link("late", "moved")
    assert not holds(launcher)


def test_dates_of_files_that_are_not_read_are_not_recorded(launcher, nvcc):
    made = input_record_of_call()
    made.dates = [("a.cu", presence.date_and_size("a.cu"))]
    assert launcher.record(nvcc, ARGUMENTS, made, answer_of_call())
    made.dates.append(("named.cu", ""))
    assert not launcher.record(nvcc, ARGUMENTS, made, answer_of_call())


def test_a_listing_is_pythons_to_compare(launcher, nvcc):
    made = input_record_of_call()
    made.listings = [("parts", presence.digest_of_listing("parts"))]
    assert not launcher.record(nvcc, ARGUMENTS, made, answer_of_call())


def test_a_file_that_may_still_change_unseen_is_not_recorded(launcher, nvcc):
    for index in range(2):
        made = input_record_of_call()
        made.signatures[index] = signatures.UNKNOWN
        assert not launcher.record(nvcc, ARGUMENTS, made, answer_of_call())
    os.utime(nvcc)
    assert not launcher.record(nvcc, ARGUMENTS, input_record_of_call(), answer_of_call())


def test_a_date_of_another_age_is_not_recorded(launcher, nvcc):
    """tmpfs and XFS keep such dates, for instance of a file unpacked from a damaged archive."""
    made = input_record_of_call()
    *others, changed = made.signatures[0]
    others[3] = 10**21
    made.signatures[0] = (*others, changed)
    assert not launcher.record(nvcc, ARGUMENTS, made, answer_of_call())


def test_an_answer_with_a_file_that_the_call_does_not_name_is_not_recorded(launcher, nvcc):
    given = answer_of_call()
    given.products.append(("/elsewhere/b.o", DIGEST, False))
    assert not launcher.record(nvcc, ARGUMENTS, input_record_of_call(), given)


QUERY = ["-M", "a.cu"]
DEPENDENCIES = b"a.o : a.cu b.h\n"


def query(launcher, nvcc, text=DEPENDENCIES, stderr=b"", output="", stdout=b""):
    """Record `-M`, with its answer on standard output or in a file; whether there is a record then."""
    given = Answer(Result())
    cache = Store(launcher.environ["NVCCACHE_DIR"])
    cache.add_blob(keys.digest_bytes(text), text, compress=False)
    given.products = [(output, keys.digest_bytes(text), False)]
    given.result.stderr, given.result.stdout = stderr, stdout
    given.sources = ["a.cu"]
    words = [*QUERY, "-o", output] if output else QUERY
    return launcher.record(nvcc, words, input_record_of_call(), given)


def test_a_query_is_answered_on_standard_output(launcher, nvcc, cache):
    assert query(launcher, nvcc, stderr=b"a warning")
    found = launcher.ask(QUERY)
    assert (found.is_answer, found.stdout, found.stderr) == (True, DEPENDENCIES, b"a warning")
    *_, event = events.read(cache.root)
    assert (event.outcome, event.product, event.sources) == ("query_hit", "", ["a.cu"])


def test_a_query_is_answered_in_a_file(launcher, nvcc):
    Path("a.d").write_text("an older answer, which is longer than the one that is to come")
    before = os.stat("a.d").st_ino
    assert query(launcher, nvcc, output="a.d")
    found = launcher.ask([*QUERY, "-o", "a.d"])
    assert (found.is_answer, found.stdout) == (True, b"")
    assert (Path("a.d").read_bytes(), os.stat("a.d").st_ino) == (DEPENDENCIES, before)


def test_an_answer_to_a_query_that_is_long_or_lost_is_pythons(launcher, nvcc, cache):
    assert not query(launcher, nvcc, text=b"x" * (1 << 18) + b"x")
    assert query(launcher, nvcc, text=b"x" * (1 << 18))
    assert len(launcher.ask(QUERY).stdout) == 1 << 18


STREAMS = {
    "a full device": (">/dev/full", True),
    "a pipe that nobody reads": ("| true", True),
    "a file": (">answer", False),
    "one file with the messages": (">answer 2>&1", True),
    "a file and a terminal's place": (">answer 2>/dev/null", False),
}


@pytest.mark.parametrize("case", STREAMS)
def test_what_cannot_be_written_as_nvcc_writes_it_is_pythons(launcher, nvcc, place, case):
    launcher.environ["PWD"] = str(place)  # or the shell would set it
    assert query(launcher, nvcc, stderr=b"a warning")
    redirected, is_left = STREAMS[case]
    Path("answer").write_text("before\n")
    wait = "sleep 0.3; " if "nobody" in case else ""
    text = f'({wait}"$@"; echo $? >&3) {redirected.replace(">answer", ">>answer")}'
    argv = ["bash", "-c", f"exec 3>status; {text}", "sh", *launcher.front, *QUERY]
    subprocess.run(argv, env=launcher.environ, check=False, stderr=subprocess.DEVNULL)
    status = Path("status").read_text()
    if "nobody" in case:  # nor can the fake Python print its arguments
        assert status != "0\n"
    else:
        assert status == (f"{LEFT_TO_PYTHON}\n" if is_left else "0\n")
    if not is_left:
        assert Path("answer").read_bytes() == b"before\n" + DEPENDENCIES


@pytest.mark.parametrize(
    "name", ["NVCCACHE_READONLY", "NVCCACHE_RECACHE", "NVCCACHE_LOG", "NVCCACHE_DISABLE"]
)
def test_settings_that_want_more_than_an_answer_are_left_to_python(launcher, nvcc, place, name):
    launcher.environ[name] = "1" if name != "NVCCACHE_LOG" else str(place / "log")
    assert not launcher.record(nvcc, ARGUMENTS, input_record_of_call(), answer_of_call())


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_a_cache_that_others_may_write_to_is_left_to_python(recorded, nvcc, cache, mode):
    os.chmod(cache.root, mode)
    assert not holds(recorded)
    assert not recorded.record(nvcc, ARGUMENTS, input_record_of_call(), answer_of_call())


def test_a_log_is_made_where_there_is_none_and_its_folder_by_python(recorded, cache):
    log = Path(f"{cache.root}/journal/{event_line.LOG}")
    log.unlink()
    assert holds(recorded)
    assert (log.stat().st_mode & 0o777, len(list(events.read(cache.root)))) == (0o600, 1)
    shutil.rmtree(log.parent)
    assert not holds(recorded)


def test_a_large_log_is_pythons_to_fold(recorded, cache):
    with open(f"{cache.root}/journal/{event_line.LOG}", "ab") as stream:
        stream.truncate(event_line.LARGE)
    assert not holds(recorded)


@pytest.mark.parametrize("which", ["replay", "blob"])
def test_what_has_not_been_used_for_long_is_pythons_to_mark(recorded, cache, which):
    (path,) = Path(cache.root).glob(f"{which}-*/*/*")
    os.utime(path, (1, time.time() - 7 * 3600))
    assert not holds(recorded)
    os.utime(path, (1, time.time() - 5 * 3600))
    assert holds(recorded)
    assert path.stat().st_mtime > time.time() - 60, "it is marked as used"


def test_a_product_that_was_evicted_or_damaged_is_no_answer(recorded, cache):
    (path,) = Path(cache.root).glob("blob-*/*/*")
    content = path.read_bytes()
    for other in (content[:-1], content + b"x", b"X" + content[1:], b""):
        path.write_bytes(other)
        assert not holds(recorded)
    path.unlink()
    assert not holds(recorded)


def test_the_object_that_lies_there_is_replaced_and_the_dependency_file_written_into(recorded):
    Path("out/a.o").write_text("old object")
    Path("out/a.d").write_text("old rule, which is longer than the one that takes its place" * 20)
    os.chmod("out/a.d", 0o640)
    before = os.stat("out/a.o"), os.stat("out/a.d")
    assert recorded.ask(ARGUMENTS).is_answer
    after = os.stat("out/a.o"), os.stat("out/a.d")
    assert (after[0].st_ino != before[0].st_ino, after[1].st_ino) == (True, before[1].st_ino)
    assert Path("out/a.o").read_bytes() == OBJECT
    assert Path("out/a.d").read_bytes() == answer_of_call().rule
    assert after[1].st_mode & 0o777 == 0o640


@pytest.mark.parametrize("size", [0, 1, (2 << 20) - 1, 2 << 20, (3 << 20) + 5])
def test_products_of_any_size(launcher, nvcc, cache, size):
    """Those of 2 MiB and more are followed by a checksum in the cache."""
    content = os.urandom(size)
    cache.add_blob(keys.digest_bytes(content), content, compress=False)
    given = answer_of_call()
    given.products = [("out/a.o", keys.digest_bytes(content), True)]
    assert launcher.record(nvcc, ARGUMENTS, input_record_of_call(), given)
    assert launcher.ask(ARGUMENTS).is_answer
    assert Path("out/a.o").read_bytes() == content


def test_a_readonly_cache_takes_no_record(launcher, nvcc, cache):
    name = launcher.ask(ARGUMENTS).name
    readonly = Store(cache.root, is_readonly=True)
    readonly.add_record(store.REPLAY, name, b"x")
    assert not launcher.records()


def test_words_that_are_no_text(launcher, nvcc):
    arguments = [*ARGUMENTS, "-DX=\udcff"]
    launcher.environ["NVCC_APPEND_FLAGS"] = "\udc80"
    assert launcher.record(nvcc, arguments, input_record_of_call(), answer_of_call())
    assert launcher.ask(arguments).is_answer
    assert not launcher.ask([*ARGUMENTS, "-DX=\udcfe"]).is_answer
