"""Shares of wall time: concurrent stages share it, and all shares add up to the time that passed."""

from __future__ import annotations

from nvccache.compile.tasks import StageClock

ALWAYS = 100.0  # seconds of a CPU: as long as the tool ran


class Now:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def clock() -> tuple[Now, StageClock]:
    now = Now()
    return now, StageClock(now)


def test_a_stage_that_runs_alone_takes_all_the_time():
    now, found = clock()
    now.seconds += 2
    found.start("a")
    now.seconds += 3
    found.end("a")
    now.seconds += 5
    assert (found.start_of("a"), found.share_of("a", ALWAYS), found.busy) == (2, 3, 3)


def test_stages_side_by_side_share_the_time():
    now, found = clock()
    found.start("a")
    now.seconds += 2
    found.start("b")
    now.seconds += 4
    found.end("a")
    now.seconds += 1
    found.end("b")
    assert (found.share_of("a", ALWAYS), found.share_of("b", ALWAYS)) == (4, 3)
    assert (found.busy, found.start_of("b")) == (7, 2)


def test_a_stage_that_runs_again_keeps_its_start_and_takes_more():
    now, found = clock()
    for _ in range(2):
        found.start("a")
        now.seconds += 1
        found.end("a")
        now.seconds += 1
    found.end("a")
    assert (found.start_of("a"), found.share_of("a", ALWAYS)) == (0, 2)


def test_a_stage_that_is_found_takes_nothing():
    now, found = clock()
    now.seconds += 3
    found.note("a")
    now.seconds += 1
    assert (found.start_of("a"), found.share_of("a", ALWAYS), found.busy) == (3, 0, 0)


def test_while_a_tool_waits_for_a_cpu_nothing_is_saved():
    """Two concurrent tools, one of which had a CPU for a quarter of its time."""
    now, found = clock()
    found.start("a")
    found.start("b")
    now.seconds += 4
    found.end("a")
    found.end("b")
    assert (found.share_of("a", 1.0), found.share_of("b", 4.0), found.busy) == (0.5, 2, 4)
