"""A remote that failed is left alone by all processes for a while, and then tried by one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from nvccache.remote import breaker
from nvccache.remote.breaker import Breaker

NAME = "0123456789abcdef"


class Clock:
    """The time of day, as a test sets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = time.time()
        monkeypatch.setattr(breaker.time, "time", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path)


def test_closed(folder: str) -> None:
    assert Breaker(NAME, folder).may_ask()
    assert Breaker(NAME, folder).outage() is None


def test_others_leave_it_alone_and_know_why(folder: str, clock: Clock) -> None:
    Breaker(NAME, folder).trip("timeout", "no answer in time")
    other = Breaker(NAME, folder)
    assert not other.may_ask()
    outage = other.outage()
    assert outage is not None
    assert (outage.word, outage.text, outage.trips) == ("timeout", "no answer in time", 1)
    assert outage.until == pytest.approx(clock.now + 60, abs=0.01)
    assert Breaker("fedcba9876543210", folder).may_ask()


def test_one_makes_the_trial(folder: str, clock: Clock) -> None:
    Breaker(NAME, folder).trip("timeout", "")
    clock.now += 61
    first, second = Breaker(NAME, folder), Breaker(NAME, folder)
    assert first.may_ask()
    assert first.may_ask()
    assert not second.may_ask()
    first.close()
    assert second.may_ask()
    assert second.outage() is None


def test_the_trial_of_a_dead_process_is_over_after_a_minute(folder: str, clock: Clock) -> None:
    Breaker(NAME, folder).trip("timeout", "")
    clock.now += 61
    assert Breaker(NAME, folder).may_ask()
    clock.now += 59
    assert not Breaker(NAME, folder).may_ask()
    clock.now += 2
    again = Breaker(NAME, folder)
    assert again.may_ask()
    assert again.trip("timeout", "").trips == 2


def test_longer_each_time_up_to_ten_minutes(folder: str, clock: Clock) -> None:
    lengths = []
    for _ in range(6):
        trial = Breaker(NAME, folder)
        assert trial.may_ask()
        outage = trial.trip("timeout", "")
        lengths.append(round(outage.until - clock.now))
        clock.now = outage.until + 1
    assert lengths == [60, 120, 240, 480, 600, 600]


def test_throttled_is_shorter(folder: str, clock: Clock) -> None:
    outage = Breaker(NAME, folder).trip("throttled", "")
    assert round(outage.until - clock.now) == 5


def test_many_that_fail_at_once_are_one_failure(folder: str, clock: Clock) -> None:
    breakers = [Breaker(NAME, folder) for _ in range(5)]
    assert all(each.may_ask() for each in breakers)
    assert [each.trip("timeout", "").trips for each in breakers] == [1] * 5


def test_clock_set_back(folder: str, clock: Clock) -> None:
    Breaker(NAME, folder).trip("timeout", "")
    clock.now -= 10**6
    assert Breaker(NAME, folder).may_ask()


@pytest.mark.parametrize(
    "numbers",
    [
        *("nan nan 1", "0 inf 1", "-1 5 1", "0 1e12 1", "5 4 1", "0 1 nan", "0 1 inf", "0 1 -1", "0 1"),
        *("1 2 3 4", "0 1 1e300", "x y z"),
    ],
)
def test_an_outage_that_cannot_be_is_none(folder: str, numbers: str) -> None:
    breaker = Breaker(NAME, folder)
    breaker.trip("timeout", "")
    (path,) = Path(folder).glob("remote-*")
    path.write_text(f"{numbers}\ntimeout\n\n")
    assert breaker.outage() is None
    assert breaker.may_ask()
    assert breaker.trip("timeout", "").trips == 1


def test_writing_fails_by_itself(folder: str) -> None:
    Breaker(NAME, folder, for_writing=True).trip("full", "")
    assert not Breaker(NAME, folder, for_writing=True).may_ask()
    assert Breaker(NAME, folder).may_ask()


def test_without_a_directory_it_counts_for_this_process(clock: Clock) -> None:
    alone = Breaker(NAME, "")
    alone.trip("timeout", "")
    assert not alone.may_ask()
    clock.now += 61
    assert alone.may_ask()
    alone.close()
    assert alone.outage() is None


@pytest.mark.parametrize("content", [b"", b"garbage", b"1 2\n", b"a b c\nd\ne\n", b"\xff" * 9000])
def test_file_that_is_none(folder: str, content: bytes) -> None:
    Path(folder, f"remote-{NAME}").write_bytes(content)
    assert Breaker(NAME, folder).may_ask()


def test_fifo_is_not_waited_for(folder: str) -> None:
    import os

    os.mkfifo(Path(folder, f"remote-{NAME}"))
    assert Breaker(NAME, folder).may_ask()
