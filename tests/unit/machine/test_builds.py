"""Which build a call belongs to, in process trees made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvccache.machine.builds import build_of_call


class Processes:
    """A /proc with some processes: the call is a child of the last that was started."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder
        self.last = 0

    def start(self, pid: int, session: int, name: str = "sh", parent: int | None = None) -> None:
        self._write(str(pid), name, self.last if parent is None else parent, session, 10 * pid)
        self.last = pid

    def build(self, session: int) -> str:
        self._write("self", "python3", self.last, session, 1)
        return build_of_call(str(self.proc))

    def _write(self, folder: str, name: str, parent: int, session: int, started: int) -> None:
        (self.proc / folder).mkdir()
        rest = " ".join(["0"] * 14)
        text = f"100 ({name}) S {parent} 7 {session} {rest} 0 {started} 0 0\n"
        (self.proc / folder / "stat").write_text(text)


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    made = Processes(tmp_path)
    made.start(1, 1, "init")
    return made


@pytest.mark.parametrize(
    ("ancestors", "session", "build"),
    [
        ([(5, 5), (6, 5), (7, 5), (8, 5)], 5, "6-60"),  # what was typed into the shell that leads the session
        ([(5, 5)], 5, ""),  # the call itself was typed
        ([(6, 5), (7, 5)], 5, "6-60"),  # the leader has ended
        ([(5, 5), (6, 5)], 100, ""),  # the leader is none of its ancestors
    ],
)
def test_a_build_is_the_topmost_ancestor_below_the_leader_of_the_session(
    processes, ancestors, session, build
):
    for pid, of_session in ancestors:
        processes.start(pid, session=of_session)
    assert processes.build(session=session) == build


def test_the_build_of_a_call_is_found_within_a_container(processes):
    processes.start(6, session=0, parent=0)
    assert processes.build(session=0) == "6-60"


def test_a_call_with_an_unreadable_ancestor_belongs_to_no_build(processes):
    processes.start(5, session=5)
    processes.start(6, session=5)
    (processes.proc / "6" / "stat").unlink()
    assert processes.build(session=5) == ""


def test_a_process_name_with_brackets_does_not_confuse_the_search_for_the_build(processes):
    processes.start(5, session=5)
    processes.start(6, session=5, name="a) S 1 (make")
    assert processes.build(session=5) == "6-60"
