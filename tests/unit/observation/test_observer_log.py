"""Parsing the observer's log: the sets of paths, and that incomplete logs are recognized."""

from __future__ import annotations

import errno
import os
import stat
import time

import pytest

from nvccache.observation import observer_log
from nvccache.observation.observed_process import Process
from nvccache.observation.observer_log import Observation

ROOT, CHILD, GRANDCHILD = 100, 101, 102
VERSION = observer_log.VERSION
REGULAR, DIRECTORY, DEVICE = stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755, stat.S_IFCHR | 0o666
PROGRAM = os.path.realpath("/bin/ls")
OTHER = os.path.realpath("/bin/cat")
SHELL = os.path.realpath("/bin/sh")
END = "Q 0\t"


def batch(pid: int, *records: str) -> bytes:
    body = b"".join(os.fsencode(record) + b"\0" for record in records)
    return b"@%d %d\n%s" % (pid, len(body), body)


def start(
    program: str = PROGRAM, parent: int = 1, directory: str = "/", version: int = VERSION
) -> tuple[str, ...]:
    return f"B {version} {parent}\t{program}", f"C\t{directory}", f"A\t{os.path.basename(program)}"


def opened(path: str, flags: int = os.O_RDONLY, mode: int = REGULAR, size: int = 5, inode: int = 2) -> str:
    return f"o 0 {flags} 1 {inode} {mode} {size} 3 4\t{path}"


@pytest.fixture
def observe(tmp_path):
    def observe(*batches: bytes, program: str = PROGRAM, began_ns: int = 0) -> Observation:
        (tmp_path / "log").write_bytes(b"".join(batches))
        return observer_log.read(str(tmp_path / "log"), program, began_ns)

    return observe


@pytest.fixture
def observe_one(observe):
    """The one process that made these records between its start and its end."""

    def observe_one(*records: str, directory: str = "/") -> Process:
        found = observe(batch(ROOT, *start(directory=directory), *records, END))
        assert found.incomplete == ""
        (process,) = found.processes
        return process

    return observe_one


def test_each_kind_of_log_line_is_parsed(observe_one):
    found = observe_one(
        opened("/file"),
        opened("/place", os.O_RDONLY, DIRECTORY),
        opened("/dev/random", os.O_RDONLY, DEVICE),
        opened("/bin", os.O_PATH | os.O_NOFOLLOW, stat.S_IFLNK),
        opened("/usr", os.O_PATH | os.O_NOFOLLOW, DIRECTORY),
        "-\t/absent",
        "o 13 0\t/secret",
        f"s 0 {REGULAR}\t/stated",
        "s 20 0\t/file/below",
        f"h 0 {stat.S_IFLNK}\t/linked",
        f"a 0 {os.X_OK}\t/program",
        f"a 0 {os.R_OK}\t/readable",
        "l 0\t/read-link",
        "l 22\t/no-link",
        "r 0\t/resolved",
        "r 2\t/unresolved",
        "l 2\t/no-file",
        "d 0\t/listed",
        "e\tCPATH",
        "y 1\tclock_gettime",
        f"m 1 9 {REGULAR} 8 7 6\t/lib.so",
        "i 3 -1\t",
        "j 9\t",
    )
    assert (found.program, found.directory, found.arguments) == (PROGRAM, "/", [os.path.basename(PROGRAM)])
    assert found.files == {"/file": (1, 2, 5, 3, 4)}
    assert found.others == {"/place": DIRECTORY, "/dev/random": DEVICE}
    assert found.absent == {"/absent", "/file/below", "/unresolved", "/no-file"}
    assert found.denied == {"/secret": 13}
    assert found.found["/stated"] == REGULAR
    assert {"/linked", "/program", "/readable", "/no-link", "/resolved", "/listed"} <= found.found.keys()
    assert (found.permissions, found.listed) == ({"/readable"}, {"/listed"})
    assert found.links == {"/linked", "/read-link", "/no-link", "/resolved", "/no-file", "/bin", "/usr"}
    assert (found.found["/bin"], found.found["/usr"]) == (0, DIRECTORY)
    assert (found.inputs, found.uses_descriptor) == ({(3, 2**64 - 1)}, True)
    assert (found.variables, found.questions) == ({"CPATH"}, {("clock_gettime", 1)})
    assert found.loaded == {"/lib.so": (1, 9, 8, 7, 6)}


def test_files_made_or_emptied_by_the_run_are_listed_by_inode(observe):
    made = (
        opened("/out", os.O_WRONLY | os.O_CREAT, inode=7),
        opened("/emptied", os.O_RDWR | os.O_TRUNC, inode=8),
    )
    found = observe(
        batch(ROOT, *start(), *made, opened("/read"), opened("/changed", os.O_RDWR, inode=9), END)
    )
    assert found.made == {(1, 7), (1, 8)}


def test_files_in_proc_are_recorded_by_existence_only(observe_one):
    found = observe_one(opened("/proc/cpuinfo", inode=2), opened("/proc/cpuinfo", inode=3))
    assert (found.files, found.others) == ({}, {"/proc/cpuinfo": REGULAR})


def test_inode_numbers_of_64_bits_are_parsed(observe_one):
    assert observe_one(opened("/file", inode=-1)).files["/file"][1] == 2**64 - 1


def test_relative_paths_count_from_the_directory_of_their_process(observe_one):
    assert set(observe_one(opened("a.h"), directory=os.getcwd()).files) == {"a.h"}
    found = observe_one(opened("sub/../a.h"), "-\tno.h", directory="/place")
    assert (set(found.files), found.absent) == ({"/place/a.h"}, {"/place/no.h"})


def test_a_path_through_a_link_of_proc_is_recorded_as_the_path_it_leads_to(observe_one):
    links = (("self", "cwd/a.h"), ("thread-self", "root/b.h"), (ROOT, "cwd/c.h"))
    names = [f"/proc/{process}/{path}" for process, path in links]
    found = observe_one(*map(opened, names), "-\t/proc/self/cwd/d.h", "-\t/proc/self/e", directory="/place")
    assert set(found.files) == {"/place/a.h", "/b.h", "/place/c.h"}
    assert found.absent == {"/place/d.h", "/proc/self/e"}


@pytest.mark.parametrize("made", ["/tmp/made", "/tmp/./made", "/tmp/sub/../made"])
def test_files_written_by_the_run_itself_are_no_inputs(observe, made):
    found = observe(
        batch(ROOT, *start(), opened("/tmp/before"), f"w\t{made}", opened("/tmp/made"), "w\t/tmp/before", END)
    )
    assert found.incomplete == ""
    assert set(found.processes[0].files) == {"/tmp/before"}
    assert found.written == {made, "/tmp/before"}
    assert found.processes[0].written == {"/tmp/made", "/tmp/before"}


def test_a_failed_exclusive_creation_records_that_the_file_exists(observe_one):
    creating = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    found = observe_one(f"o {errno.EEXIST} {creating}\t/there")
    assert found.links == {"/there"} and found.found == {"/there": 0}, "a link to nowhere is there"


def test_deleting_a_file_counts_only_if_the_run_did_not_make_it(observe):
    """By any of its paths: `rm -r` uses absolute names for what is in a directory."""
    found = observe(
        batch(ROOT, *start(), "w\t/tmp/./made", "z\t/tmp/made", "z\t/tmp/lay", "w\t/tmp/lay", END)
    )
    assert found.incomplete == "" and found.processes[0].removed == {"/tmp/lay"}
    assert found.written >= {"/tmp/./made", "/tmp/made"}, "so that looking for it again tells nothing"


def test_opening_for_writing_distinguishes_new_and_updated_files(observe_one):
    """An empty file that has just changed is new."""
    creating = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    found = observe_one(
        opened("/new", creating, size=0),
        opened("/log", creating),
        opened("/mapped", os.O_RDWR),
        f"o 0 {creating} 1 2 {REGULAR} 9 9 9\t/log",
        opened("/read"),
        opened("/dev/null", creating, DEVICE),
        "u\t/touched",
    )
    assert found.written == {"/new", "/touched"}
    assert found.updated == {"/log": (1, 2, 5, 3, 4), "/mapped": (1, 2, 5, 3, 4)}
    assert found.found == {"/new": 0, "/log": 0}


def test_an_empty_file_older_than_the_run_does_not_count_as_written(observe):
    creating = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    log = batch(ROOT, *start(), opened("/log", creating, size=0), END)
    assert observe(log).written == {"/log"}
    assert observe(log, began_ns=time.time_ns()).written == set()


def test_a_file_read_after_another_process_of_the_run_wrote_it_is_no_input(observe):
    """Its record may come later."""
    log = [
        batch(ROOT, *start(), f"f {CHILD}\t", f"p {GRANDCHILD}\t{OTHER}"),
        batch(GRANDCHILD, *start(OTHER, ROOT), "w\t/state", END),
        batch(CHILD, opened("/state"), END),
        batch(ROOT, END),
    ]
    assert set(observe(*log).processes[0].files) == set()
    now = time.time_ns()
    assert set(observe(*log, began_ns=now).processes[0].files) == {"/state"}
    log[2] = batch(CHILD, opened("/state").replace(" 3 4\t", f" 3 {now}\t"), END)
    assert set(observe(*log, began_ns=now).processes[0].files) == set()


@pytest.mark.parametrize("again", [opened("/file", size=6), f"m 1 2 {REGULAR} 6 3 4\t/file"])
def test_a_file_that_changes_between_two_opens_makes_the_log_incomplete(observe, again):
    assert observe(batch(ROOT, *start(), opened("/file"), opened("/file"), END)).incomplete == ""
    found = observe(batch(ROOT, *start(), opened("/file"), again, END))
    assert found.incomplete == "files changed during the compile"


def test_names_with_invalid_utf_8_and_newlines_are_parsed(observe, tmp_path):
    name = os.fsdecode(b"/\xff\n@7 3\n")
    found = observe(batch(ROOT, *start(), opened(name), END))
    assert (found.incomplete, set(found.processes[0].files)) == ("", {name})


WHOLE = batch(ROOT, *start(), opened("/file")) + batch(ROOT, END)


def test_a_log_that_is_torn_or_has_a_hole_is_incomplete(observe):
    assert observe(WHOLE).incomplete == ""
    for at in range(len(WHOLE)):
        assert observe(WHOLE[:at]).incomplete, at
        assert observe(WHOLE[:at] + WHOLE[at + 1 :]).incomplete, at


@pytest.mark.parametrize(
    ("log", "clause"),
    [
        ([], "was not observed"),
        (
            [batch(ROOT, *start(version=VERSION + 1), END)],
            "the observer's log has the format of another version",
        ),
        ([batch(ROOT, *start(), "o 0\t/short", END)], "the observer's log is damaged"),
        ([batch(ROOT, *start(), "o 0 0\t/without-numbers", END)], "the observer's log is damaged"),
        ([batch(ROOT, *start(), "s x 0\t/no-number", END)], "the observer's log is damaged"),
        ([batch(ROOT, *start(), "e", END)], "the observer's log is damaged"),
        ([batch(ROOT, *start(), "", END)], "the observer's log is damaged"),
        ([WHOLE, b"\n"], "the observer's log is damaged"),
        ([WHOLE, b"@1 -5\n"], "the observer's log is damaged"),
        ([WHOLE, batch(ROOT, END)[:-1] + b"x"], "the observer's log is damaged"),
        ([batch(ROOT, *start(), "g\t/place/*", END)], "`/place/*` through a function that is not observed"),
        ([batch(ROOT, *start(), "n 2\t", END)], "the network"),
        ([batch(ROOT, *start(), "k 425\t", END)], "system call 425, which is not observed"),
        ([batch(ROOT, *start(), "!\tthe log is too long", END)], "the log is too long"),
        ([batch(ROOT, *start())], "was not observed"),
        ([batch(ROOT, *start(), "x\t/bin/cat")], "the start of `/bin/cat` was not observed"),
        ([batch(ROOT, *start(), f"p {CHILD}\t/bin/cat", END)], "the start of `/bin/cat` was not observed"),
        ([batch(ROOT, *start(), "S\t/bin/sh", END)], "the start of `/bin/sh` was not observed"),
        ([batch(ROOT, *start(), f"f {CHILD}\t", END)], "was not observed"),
        ([batch(ROOT, *start(OTHER), END)], f"`{OTHER}` was started by a program that was not observed"),
        ([batch(ROOT, *start(), END, "x\t/bin/cat")], "after it had reported its end"),
        ([batch(ROOT, *start(), "x\t/bin/cat", END)], "the start of `/bin/cat` was not observed"),
        ([batch(ROOT, *start(), f"f {CHILD}\t", f"f {CHILD}\t", END), batch(CHILD, END)], "used twice"),
    ],
)
def test_incomplete_logs_are_reported_with_their_reason(observe, log, clause):
    assert observe(*log).incomplete.endswith(clause)


def test_a_missing_or_overlong_log_is_incomplete(observe, monkeypatch, tmp_path):
    assert observer_log.read(str(tmp_path / "none"), PROGRAM).incomplete == "there is no log of the observer"
    assert observer_log.read(str(tmp_path), PROGRAM).incomplete.startswith(
        "the observer's log cannot be read"
    )
    monkeypatch.setattr(observer_log, "LIMIT", len(WHOLE) - 1)
    assert observe(WHOLE).incomplete == "the observer's log is too long"


def test_an_exec_entry_must_match_the_program_that_then_starts(observe):
    rest = (*start(OTHER), opened("/file"), END)
    assert observe(batch(ROOT, *start(), "x\t/bin/cat"), batch(ROOT, *rest)).incomplete == ""
    failed = (*start(), "x\t/nowhere/cat", "X 2\t/nowhere/cat", "-\t/nowhere/cat", "x\t/bin/cat")
    found = observe(batch(ROOT, *failed), batch(ROOT, *rest))
    assert found.incomplete == ""
    assert [process.program for process in found.processes] == [PROGRAM, OTHER]
    assert (found.processes[0].started, found.processes[0].absent) == (["/bin/cat"], {"/nowhere/cat"})


def test_an_observation_is_incomplete_if_a_started_program_never_reported(observe):
    """A static program, executed as `/bin/ls`, executes `cat`: as many starts and ends as it should be."""
    wrong = observe(
        batch(ROOT, *start(), f"f {CHILD}\t"),
        batch(CHILD, "x\t/bin/ls"),
        batch(CHILD, *start(OTHER, ROOT), END),
        batch(ROOT, END),
    )
    assert wrong.incomplete == "the start of `/bin/ls` was not observed"
    spawned = observe(
        batch(ROOT, *start(), f"p {CHILD}\t/bin/ls"),
        batch(GRANDCHILD, *start(OTHER, CHILD), END),
        batch(ROOT, END),
    )
    assert "was not observed" in spawned.incomplete
    other = observe(batch(ROOT, *start(), f"p {CHILD}\t/bin/ls", END), batch(CHILD, *start(OTHER, ROOT), END))
    assert other.incomplete == "the start of `/bin/ls` was not observed"


def test_logs_of_child_processes_may_come_in_any_order(observe):
    parts = [
        batch(ROOT, *start(), f"p {CHILD}\t/bin/cat", "S\t/bin/sh", END),
        batch(CHILD, *start(OTHER, ROOT), END),
        batch(GRANDCHILD, *start(SHELL, ROOT), END),
    ]
    for order in (parts, parts[::-1], [parts[1], parts[0], parts[2]]):
        assert observe(*order).incomplete == ""


def test_a_shell_without_a_reported_parent_makes_the_log_incomplete(observe):
    found = observe(batch(ROOT, *start(), END), batch(CHILD, *start(SHELL, ROOT), END))
    assert found.incomplete == f"`{SHELL}` was started by a program that was not observed"


def test_lookups_of_forked_children_are_added_to_their_parent(observe):
    """The child of a vfork is recognized only by what it becomes; both count as the parent's program."""
    found = observe(
        batch(ROOT, *start()),
        batch(CHILD, "-\t/bin/local/cat", "e\tPATH", "x\t/bin/cat"),
        batch(CHILD, *start(OTHER, ROOT), END),
        batch(ROOT, f"f {GRANDCHILD}\t", END),
        batch(GRANDCHILD, opened("/of-child"), END),
    )
    assert found.incomplete == ""
    parent, other = found.processes
    assert (parent.program, parent.absent, parent.variables) == (PROGRAM, {"/bin/local/cat"}, {"PATH"})
    assert (set(parent.files), parent.started, other.program) == ({"/of-child"}, ["/bin/cat"], OTHER)


def test_the_log_of_a_script_is_that_of_its_interpreter(observe, tmp_path):
    def script(name: str, first_line: str) -> str:
        path = tmp_path / name
        path.write_text(first_line + "\n")
        return str(path)

    plain = script("plain", "#!/bin/sh -e")
    by_env = script("by-env", "#! /usr/bin/env python3")
    twice = script("twice", f"#!{plain}")
    bare = script("bare", "echo")
    env = os.path.realpath("/usr/bin/env")
    for path, program in ((plain, SHELL), (by_env, env), (twice, SHELL), (bare, SHELL)):
        executed = (batch(ROOT, *start(), f"x\t{path}"), batch(ROOT, *start(program), END))
        assert observe(*executed).incomplete == "", path
        assert observe(batch(ROOT, *start(program), END), program=path).incomplete == "", path
        wrong = observe(batch(ROOT, *start(), f"x\t{path}"), batch(ROOT, *start(OTHER), END))
        assert wrong.incomplete == f"the start of `{path}` was not observed"


def test_the_log_of_a_program_started_by_its_link_is_accepted(observe, tmp_path):
    (tmp_path / "link").symlink_to(PROGRAM)
    assert observe(batch(ROOT, *start(), END), program=str(tmp_path / "link")).incomplete == ""
