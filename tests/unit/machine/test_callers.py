"""Which build a call belongs to and how many jobs share its clock, in process trees made by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from nvccache.machine import cgroups
from nvccache.machine.callers import Callers

CALL = 100


class Processes:
    """A /proc with some processes: the call is a child of the last that was started."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder
        self.last, self.session = 0, 0

    def start(self, name: str, pid: int, threads: int = 1, children: int = 1, session: int = 0) -> None:
        """Start a child of the last process, with this many children in each thread."""
        self.session = session or self.session or pid
        self._write(str(pid), name, self.last, self.session, 10 * pid)
        self.last = pid
        for thread in range(pid, pid + threads):
            (self.proc / str(pid) / "task" / str(thread)).mkdir(parents=True)
            self.have(pid, children, thread)

    def have(self, pid: int, children: int, thread: int = 0) -> None:
        path = self.proc / str(pid) / "task" / str(thread or pid) / "children"
        path.write_text("".join(f"{1000 + number} " for number in range(children)))

    def call(self, session: int = 0) -> Callers:
        self._write("self", "python3", self.last, session or self.session, 1)
        return Callers(str(self.proc))

    def _write(self, folder: str, name: str, parent: int, session: int, started: int) -> None:
        path = self.proc / folder
        path.mkdir(parents=True, exist_ok=True)
        rest = " ".join(["0"] * 14)
        (path / "stat").write_text(f"{CALL} ({name}) S {parent} 7 {session} {rest} 0 {started} 0 0\n")


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Processes:
    monkeypatch.setattr(cgroups, "Share", lambda: SimpleNamespace(cores=16))
    return Processes(tmp_path)


def of(processes: Processes, found: Callers) -> tuple[str, int]:
    return found.build, found.jobs(proc=str(processes.proc))


def test_a_build_is_the_run_of_the_build_tool_that_calls(processes):
    processes.start("bash", 5, children=3)  # two of them are a pipe of the build, or a stopped editor
    processes.start("ninja", 6, children=4)
    processes.start("sh", 7)
    assert of(processes, processes.call()) == ("6-60", 4)


def test_a_build_tool_below_another_one_belongs_to_its_build(processes):
    """Such as make called by make, or a project that builds another: they share the jobs."""
    for pid, name, children in (
        (5, "bash", 1),
        (6, "make", 2),
        (7, "sh", 1),
        (8, "cmake", 1),
        (9, "make", 3),
    ):
        processes.start(name, pid, children=children)
    assert of(processes, processes.call()) == ("6-60", 6)


def test_without_a_build_tool_all_jobs_of_the_session_count(processes):
    processes.start("systemd", 1, children=90)
    processes.start("bash", 5, session=5)
    processes.start("xargs", 6, children=8)
    assert of(processes, processes.call()) == ("", 8)


def test_a_build_tool_of_another_session_is_not_asked(processes):
    processes.start("make", 4, children=3)
    assert of(processes, processes.call(session=CALL)) == ("", 16)
    processes.start("bash", 5, session=5)
    assert of(processes, processes.call()) == ("", 1)


def test_children_of_all_threads_count(processes):
    processes.start("n2", 5, threads=6)
    assert of(processes, processes.call()) == ("5-50", 6)


def test_of_when_a_call_begins_and_when_it_ends_the_more_jobs_count(processes):
    processes.start("ninja", 5, children=2)
    found = processes.call()
    for children, jobs in ((3, 3), (1, 2)):
        processes.have(5, children)
        assert found.jobs(proc=str(processes.proc)) == jobs


def test_what_earlier_calls_of_the_build_have_seen_counts_as_well(processes):
    """The last call of a build may be alone from its start."""
    processes.start("ninja", 5)
    found = processes.call()
    assert [found.jobs(earlier, str(processes.proc)) for earlier in (0, 3, 99)] == [1, 3, 16]


def test_no_more_jobs_than_cores_share_the_clock(processes):
    processes.start("ninja", 5, children=18)
    assert processes.call().jobs(proc=str(processes.proc)) == 16


@pytest.mark.parametrize("missing", ["its own session", "outside of the namespace", "children", "all"])
def test_jobs_that_cannot_be_counted_are_as_many_as_cores(processes, missing):
    if missing == "all":
        assert of(processes, Callers(str(processes.proc / "none"))) == ("", 16)
        return
    if missing == "outside of the namespace":
        processes.session = 99
    processes.start("bash", 5)
    found = processes.call(session=CALL if missing == "its own session" else 0)
    if missing == "children":
        (processes.proc / "5" / "task" / "5" / "children").unlink()
    assert of(processes, found) == ("", 16)


def test_names_of_processes_may_hold_anything(processes):
    processes.start("a) S 1 (make", 5)
    processes.start("make", 6, children=2)
    assert of(processes, processes.call()) == ("6-60", 2)


def test_the_real_ones_can_be_read():
    assert 1 <= Callers().jobs() <= cgroups.Share().cores
