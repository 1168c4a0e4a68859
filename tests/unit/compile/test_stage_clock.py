"""Shares of wall time: what runs side by side shares it, and all of them add up to the time that passed."""

from __future__ import annotations

from nvccache.compile.stage_clock import StageClock


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
    assert (found.start_of("a"), found.share_of("a"), found.busy) == (2, 3, 3)


def test_stages_side_by_side_share_the_time():
    now, found = clock()
    found.start("a")
    now.seconds += 2
    found.start("b")
    now.seconds += 4
    found.end("a")
    now.seconds += 1
    found.end("b")
    assert (found.share_of("a"), found.share_of("b")) == (4, 3)
    assert (found.busy, found.start_of("b")) == (7, 2)


def test_a_stage_that_runs_again_keeps_its_start_and_takes_more():
    now, found = clock()
    for _ in range(2):
        found.start("a")
        now.seconds += 1
        found.end("a")
        now.seconds += 1
    found.end("a")
    assert (found.start_of("a"), found.share_of("a")) == (0, 2)


def test_a_stage_that_never_ran_takes_nothing():
    now, found = clock()
    now.seconds += 3
    assert (found.start_of("a"), found.share_of("a"), found.busy) == (3, 0, 0)
