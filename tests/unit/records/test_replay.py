"""Replay: what the launcher gives from a record that Python wrote, and which calls have none.

The table of changes (test_changes.py) says when a record holds; damage is in test_damage.py.
"""

from __future__ import annotations

import os
import resource
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nvccache import environment
from nvccache.files import keys, presence, signatures
from nvccache.records import facts, replay
from nvccache.records.products import Answer
from nvccache.records.record import Result
from nvccache.store import event_line, events
from nvccache.store.store import Store
from replays import LEFT_TO_PYTHON, Launcher, stand_alone
from world import ARGUMENTS, DIGEST, OBJECT, answer_of_call, holds, make_again, replayed


def test_the_launcher_replays_the_recorded_products_and_output(recorded, place, cache):
    """With the event as Python would have it."""
    found = recorded.ask(ARGUMENTS)
    given = answer_of_call()
    assert (found.is_answer, found.stdout, found.stderr) == (True, given.result.stdout, given.result.stderr)
    assert Path("out/a.o").read_bytes() == OBJECT
    assert Path("out/a.d").read_bytes() == given.rule
    assert sorted(os.listdir("out")) == ["a.d", "a.o", "keep"]
    *_, event = events.read(cache.root)
    named = (event.outcome, event.directory, event.product, event.sources, event.tool_saved)
    assert named == ("direct_hit", str(place), str(place / "out/a.o"), ["a.cu"], 12.5)
    assert 0 < event.seconds < 5 and abs(event.started - time.time()) < 60
    assert [(stage.kind, stage.seconds, stage.is_hit) for stage in event.stages] == [("cicc", 1.5, True)]


@pytest.mark.parametrize(
    "arguments",
    [ARGUMENTS[:4], ["-c", "a.cu", "-odir", "out"], ["-unheard-of", "-o", "out/a.o", "-c", "a.cu"]],
    ids=str,
)
def test_a_call_is_replayed_however_its_outputs_are_named(launcher, compiler, arguments):
    given = answer_of_call()
    given.dependency_file, given.rule = "", None
    assert launcher.record(compiler, arguments, replayed(), given)
    assert launcher.ask(arguments).is_answer
    assert Path("out/a.o").read_bytes() == OBJECT and not os.path.exists("out/a.d")


@pytest.mark.parametrize("size", [0, 1, (2 << 20) - 1, 2 << 20, (3 << 20) + 5])
def test_products_of_any_size_are_replayed(launcher, compiler, cache, size):
    """Those of 2 MiB and more are followed by a checksum in the cache."""
    content = os.urandom(size)
    cache.add_blob(keys.digest_bytes(content), content, compress=False)
    given = answer_of_call()
    given.products = [("out/a.o", keys.digest_bytes(content), True)]
    assert launcher.record(compiler, ARGUMENTS, replayed(), given)
    assert launcher.ask(ARGUMENTS).is_answer
    assert Path("out/a.o").read_bytes() == content


def test_a_replay_replaces_the_object_and_overwrites_the_dependency_file_as_nvcc_does(recorded):
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


def test_arguments_that_are_not_utf_8_are_replayed(launcher, compiler):
    arguments = [*ARGUMENTS, "-DX=\udcff"]
    launcher.environ["NVCC_APPEND_FLAGS"] = "\udc80"
    assert launcher.record(compiler, arguments, replayed(), answer_of_call())
    assert launcher.ask(arguments).is_answer
    assert not launcher.ask([*ARGUMENTS, "-DX=\udcfe"]).is_answer


# Which calls have no record.


def _date_of_another_age(made, given, launcher):
    """tmpfs and XFS keep such dates, for instance of a file unpacked from a damaged archive."""
    made.signatures[0] = (*made.signatures[0][:3], 10**21, made.signatures[0][4])


def _setting(name: str):
    return lambda made, given, launcher: launcher.environ.update({f"NVCCACHE_{name}": "1"})


UNRECORDED = {
    "a file that may change unseen": lambda made, *_: made.signatures.__setitem__(1, signatures.UNKNOWN),
    "a loader's cache that may": lambda made, *_: made.cache_signatures.__setitem__(0, signatures.UNKNOWN),
    "a loader's cache of no signature": lambda made, *_: made.cache_signatures.clear(),
    "a date of another age": _date_of_another_age,
    "a date of a file that is not read": lambda made, *_: made.dates.append(("named.cu", "")),
    "a listing": lambda made, *_: made.listings.append(("parts", presence.digest_of_listing("parts"))),
    "the caller": lambda made, *_: made.machine.append(("caller", "", facts.answer("caller", "", {}))),
    "the machine": lambda made, *_: made.machine.append(("host", "", facts.answer("host", "", {}))),
    "three files": lambda _, given, __: given.products.append(("out/b.o", DIGEST, False)),
    "a blob that is gone": lambda _, given, __: given.products.__setitem__(0, ("out/a.o", "0" * 64, True)),
    "a compiler that has just changed": lambda *_: os.utime("compiler/nvcc"),
    "a cache that others may write to": lambda *given: os.chmod(given[-1].environ["NVCCACHE_DIR"], 0o775),
    **{f"the setting {name}": _setting(name) for name in ("READONLY", "RECACHE", "LOG", "DISABLE")},
}


@pytest.mark.parametrize("what", UNRECORDED)
def test_results_that_the_launcher_cannot_check_are_not_recorded(launcher, compiler, what):
    made, given = replayed(), answer_of_call()
    assert launcher.record(compiler, ARGUMENTS, made, given)
    UNRECORDED[what](made, given, launcher)
    assert not launcher.record(compiler, ARGUMENTS, made, given)


# Files that were touched: test_changes.py has each way of doing that.

CHANGING_WHILE_READ = """\
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Gives a file another date with each part that is read of any. */
static ssize_t read_and_touch(int file, void *room, size_t size)
{
    static long count;
    struct timespec date = {++count, 0};

    if (getenv("CHANGING"))
        utimensat(AT_FDCWD, getenv("CHANGING"), (struct timespec[]){date, date}, 0);
    return read(file, room, size);
}
#define read(file, room, size) read_and_touch(file, room, size)
"""


def test_touched_files_get_new_signatures_once_their_dates_are_reliable(launcher, compiler, cache):
    made = replayed()
    made.directories.append("parts")
    made.names.append(["-a.h"])
    made.directory_signatures.append((os.stat("parts").st_dev + 1, *signatures.signature_of("parts")[1:]))
    assert launcher.record(compiler, ARGUMENTS, made, answer_of_call())
    (path,) = launcher.records()
    before = path.read_bytes()
    os.utime("a.cu")
    make_again("early")
    os.symlink("../nowhere", "late/libm.so.6")
    assert holds(launcher) and path.read_bytes() == before
    time.sleep(3.1)
    launcher.become = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))}
    assert holds(launcher) and path.read_bytes() == before, "a record that cannot be written is no fault"
    launcher.become = {}
    assert holds(launcher)
    after = path.read_bytes()
    # Not that of a device on which dates may mean nothing, nor of a directory with a link.
    for name, is_signed in (("a.cu", True), ("early", True), ("late", False), ("parts", False)):
        signature = struct.pack("=QQQqq", *signatures.signature_of(name))
        assert (signature in before, signature in after) == (False, is_signed), name
    assert (len(after), os.stat(path).st_mode & 0o777) == (len(before), 0o600)
    assert os.listdir(f"{cache.root}/tmp") == []
    assert holds(launcher) and path.read_bytes() == after
    Path("nowhere").touch()
    assert not holds(launcher), "what a name leads to may change without its directory"


def test_a_replay_is_refused_if_an_empty_source_became_a_fifo(launcher, compiler):
    Path("a.cu").write_bytes(b"")
    time.sleep(0.15)
    assert launcher.record(compiler, ARGUMENTS, replayed(), answer_of_call())
    assert holds(launcher)
    os.unlink("a.cu")
    os.mkfifo("a.cu")
    assert not holds(launcher)


def test_a_file_that_changes_while_it_is_read_is_left_to_python(recorded, workers_base, tmp_path):
    (tmp_path / "changing.h").write_text(CHANGING_WHILE_READ)
    program = stand_alone(workers_base, "-D_GNU_SOURCE", "-include", str(tmp_path / "changing.h"))
    launcher = Launcher(program, recorded.environ["NVCCACHE_DIR"], recorded.environ, [str(program)])
    launcher.front[1:] = recorded.front[1:]
    assert launcher.record(launcher.front[1], ARGUMENTS, replayed(), answer_of_call())
    assert not holds(launcher, CHANGING="a.cu")
    assert holds(launcher)


def _header(*facts: str, is_linked: bool = False):
    """Takes facts out of the record, and the link to the header, unless `is_linked`."""

    def change(made, _):
        for name in facts:
            setattr(made, name, [])
        if not is_linked:
            del made.files[2], made.digests[2], made.signatures[2]
            made.kinds, made.links = made.kinds[:2] + made.kinds[3:], []

    return change


def _changed_since(made, _):
    made.signatures[0] = (*made.signatures[0][:4], made.signatures[0][4] - 1)


TOUCHED = {
    "a source": ("a.cu", lambda made, _: None, True),
    "a header": ("late/a.h", _header("dates"), True),
    "one whose date was asked for": ("late/a.h", _header(), False),
    "one that a link leads to": ("late/a.h", _header("dates", is_linked=True), False),
    "another content than was compiled": ("a.cu", _changed_since, False),
    "of the toolkit": ("a.cu", lambda made, _: made.files.__setitem__(0, os.path.abspath("a.cu")), False),
    "one that is too large": ("a.cu", lambda _, patch: patch.setattr(replay, "_MOST_SUMMED", 3), False),
}


@pytest.mark.parametrize("what", TOUCHED)
def test_a_touched_source_is_replayed_by_its_content(launcher, compiler, monkeypatch, what):
    path, change, is_summed = TOUCHED[what]
    made = replayed()
    change(made, monkeypatch)
    assert launcher.record(compiler, ARGUMENTS, made, answer_of_call())
    os.utime(path)
    assert holds(launcher) == is_summed


# What the machine and the process say.

GIVEN = {
    "nothing else": {},
    "umask": {"umask": 0o077},
    "a limit": {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))},
    "the priority": {"preexec_fn": lambda: os.nice(1)},
    "standard input": {"stdin": subprocess.PIPE},
    "processors": {"preexec_fn": lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])},
}


@pytest.mark.parametrize("what", GIVEN)
def test_another_umask_limit_priority_stdin_or_cpu_set_is_another_state_of_the_caller(what):
    """A script or program behind a wrapper may ask for it."""
    if what == "processors" and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("there is but one")
    program = "import os; from nvccache.records import facts; print(facts.answer('caller', '', os.environ))"
    answers = [
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, **given).stdout
        for given in ({}, GIVEN[what])
    ]
    assert (answers[0] == answers[1]) == (what == "nothing else") and len(answers[0]) > 64


@pytest.mark.parametrize(("boot", "holds_where"), [("another start", ""), ("", None)])
def test_records_that_depend_on_the_machine_are_not_replayed_after_a_reboot(
    launcher, compiler, monkeypatch, boot, holds_where
):
    """Where nothing tells its start, there is no record of what depends on it."""
    monkeypatch.setattr(signatures, "of_boot", lambda: boot)
    assert launcher.record(compiler, ARGUMENTS, replayed(), answer_of_call()) == (holds_where is not None)
    assert not holds(launcher)
    made = replayed()
    made.machine, made.cache_signatures = [], []
    assert launcher.record(compiler, ARGUMENTS, made, answer_of_call())
    assert holds(launcher)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize("who", [{"extra_groups": [12345]}, {"group": 12345}], ids=str)
def test_a_user_with_other_groups_gets_no_replay(recorded, place, who):
    recorded.become = who
    for path in (place, *place.parents[:2], place / "out"):
        os.chmod(path, 0o777)
    assert not recorded.ask(ARGUMENTS).is_answer
    recorded.become = {}
    assert recorded.ask(ARGUMENTS).is_answer


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_a_user_with_as_many_other_groups_gets_no_replay(launcher, compiler, monkeypatch):
    monkeypatch.setattr(os, "getgroups", lambda: [54321])
    assert launcher.record(compiler, ARGUMENTS, replayed(), answer_of_call())
    for groups, is_answer in (([54321], True), ([12345], False)):
        launcher.become = {"extra_groups": groups}
        assert launcher.ask(ARGUMENTS).is_answer == is_answer


def test_variables_without_effect_are_ignored_in_the_whole_environment(launcher, compiler):
    made = replayed()
    made.variables = [("*", environment.digest_of("*", launcher.environ))]
    assert launcher.record(compiler, ARGUMENTS, made, answer_of_call())
    assert holds(launcher, OLDPWD="/x", MAKEFLAGS="-j", SHLVL="7", _="x", TMP="/x")
    assert not holds(launcher, UNKNOWN_YET="1")


# The cache.


def test_a_replay_creates_a_missing_event_log_but_not_its_folder(recorded, cache):
    log = Path(f"{cache.root}/journal/{event_line.LOG}")
    log.unlink()
    assert holds(recorded)
    assert (log.stat().st_mode & 0o777, len(list(events.read(cache.root)))) == (0o600, 1)
    shutil.rmtree(log.parent)
    assert not holds(recorded)


def test_a_large_event_log_is_left_to_python_to_merge(recorded, cache):
    with open(f"{cache.root}/journal/{event_line.LOG}", "ab") as stream:
        stream.truncate(event_line.LARGE)
    assert not holds(recorded)


@pytest.mark.parametrize("which", ["replay", "blob"])
def test_files_not_used_for_hours_are_left_to_python_to_mark(recorded, cache, which):
    (path,) = Path(cache.root).glob(f"{which}-*/*/*")
    os.utime(path, (1, time.time() - 7 * 3600))
    assert not holds(recorded)
    os.utime(path, (1, time.time() - 5 * 3600))
    assert holds(recorded)
    assert path.stat().st_mtime > time.time() - 60, "it is marked as used"


def test_an_object_that_was_evicted_or_damaged_is_not_replayed(recorded, cache):
    (path,) = Path(cache.root).glob("blob-*/*/*")
    content = path.read_bytes()
    for other in (content[:-1], content + b"x", b"X" + content[1:], b""):
        path.write_bytes(other)
        assert not holds(recorded)
    path.unlink()
    assert not holds(recorded)


# Queries.

QUERY = ["-M", "a.cu"]
DEPENDENCIES = b"a.o : a.cu b.h\n"


def query(launcher, compiler, text=DEPENDENCIES, output=""):
    """Record `-M`, with its answer on standard output or in a file; whether there is a record then."""
    given = Answer(Result())
    cache = Store(launcher.environ["NVCCACHE_DIR"])
    cache.add_blob(keys.digest_bytes(text), text, compress=False)
    given.products = [(output, keys.digest_bytes(text), False)]
    given.result.stderr, given.sources = b"a warning", ["a.cu"]
    return launcher.record(compiler, [*QUERY, "-o", output] if output else QUERY, replayed(), given)


def test_the_answer_to_a_query_is_replayed_on_standard_output(launcher, compiler, cache):
    assert query(launcher, compiler)
    found = launcher.ask(QUERY)
    assert (found.is_answer, found.stdout, found.stderr) == (True, DEPENDENCIES, b"a warning")
    *_, event = events.read(cache.root)
    assert (event.outcome, event.product, event.sources) == ("query_hit", "", ["a.cu"])


def test_the_answer_to_a_query_is_replayed_into_its_output_file(launcher, compiler):
    """As nvcc does, which writes into the one that is there."""
    Path("a.d").write_text("an older answer, which is longer than the one that is to come")
    before = os.stat("a.d").st_ino
    assert query(launcher, compiler, output="a.d")
    found = launcher.ask([*QUERY, "-o", "a.d"])
    assert (found.is_answer, found.stdout) == (True, b"")
    assert (Path("a.d").read_bytes(), os.stat("a.d").st_ino) == (DEPENDENCIES, before)


def test_an_answer_to_a_query_over_256_kib_is_not_replayed_by_the_launcher(launcher, compiler):
    assert not query(launcher, compiler, text=b"x" * (1 << 18) + b"x")
    assert query(launcher, compiler, text=b"x" * (1 << 18))
    assert len(launcher.ask(QUERY).stdout) == 1 << 18


STREAMS = {
    "a full device": (">/dev/full", True),
    "a pipe that nobody reads": ("| true", True),
    "a file": (">answer", False),
    "one file with the messages": (">answer 2>&1", True),
}


@pytest.mark.parametrize("case", STREAMS)
def test_query_answers_to_unusual_streams_are_left_to_python(launcher, compiler, place, case):
    launcher.environ["PWD"] = str(place)  # or the shell would set it
    assert query(launcher, compiler)
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
