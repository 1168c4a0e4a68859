"""A failed remote is not used by any process for a while, and then tried by one."""

from __future__ import annotations

import os
import time

import pytest

from nvccache.remote import breaker
from nvccache.remote.breaker import Breaker

NAME = "0123456789abcdef"


class Clock:
    """The time of day, as a test sets it."""

    def __init__(self, monkeypatch):
        self.now = time.time()
        monkeypatch.setattr(breaker.time, "time", lambda: self.now)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def test_closed():
    assert Breaker(NAME).may_request()
    assert Breaker(NAME).outage() is None


def test_others_leave_it_alone_and_know_why(clock):
    Breaker(NAME).trip("timeout", "no answer in time")
    other = Breaker(NAME)
    assert not other.may_request()
    outage = other.outage()
    assert outage is not None
    assert (outage.word, outage.text, outage.trips) == ("timeout", "no answer in time", 1)
    assert outage.until == pytest.approx(clock.now + 60, abs=0.01)
    assert Breaker("fedcba9876543210").may_request()


def test_one_makes_the_trial(clock):
    Breaker(NAME).trip("timeout", "")
    clock.now += 61
    first, second = Breaker(NAME), Breaker(NAME)
    assert first.may_request()
    assert first.may_request()
    assert not second.may_request()
    first.close()
    assert second.may_request()
    assert second.outage() is None


def test_the_trial_of_a_dead_process_is_over_after_a_minute(clock):
    Breaker(NAME).trip("timeout", "")
    clock.now += 61
    assert Breaker(NAME).may_request()
    clock.now += 59
    assert not Breaker(NAME).may_request()
    clock.now += 2
    again = Breaker(NAME)
    assert again.may_request()
    assert again.trip("timeout", "").trips == 2


def test_longer_each_time_up_to_ten_minutes(clock):
    lengths = []
    for _ in range(6):
        trial = Breaker(NAME)
        assert trial.may_request()
        outage = trial.trip("timeout", "")
        lengths.append(round(outage.until - clock.now))
        clock.now = outage.until + 1
    assert lengths == [60, 120, 240, 480, 600, 600]


def test_a_fault_long_after_an_outage_begins_another(clock):
    first = Breaker(NAME).trip("timeout", "")
    clock.now = first.until + breaker.LONGEST + 1
    second = Breaker(NAME).trip("timeout", "")
    assert (second.trips, second.since) == (1, pytest.approx(clock.now, abs=0.01))


def test_throttled_is_shorter(clock):
    outage = Breaker(NAME).trip("throttled", "")
    assert round(outage.until - clock.now) == 5


def test_many_that_fail_at_once_are_one_failure(clock):
    breakers = [Breaker(NAME) for _ in range(5)]
    assert all(each.may_request() for each in breakers)
    assert [each.trip("timeout", "").trips for each in breakers] == [1] * 5


def test_clock_set_back(clock):
    Breaker(NAME).trip("timeout", "")
    clock.now -= 10**6
    assert Breaker(NAME).may_request()


@pytest.mark.parametrize(
    "numbers",
    [
        *("nan nan 1", "0 inf 1", "-1 5 1", "0 1e12 1", "5 4 1", "0 1 nan", "0 1 inf", "0 1 -1", "0 1"),
        *("1 2 3 4", "0 1 1e300", "x y z"),
    ],
)
def test_an_outage_that_cannot_be_is_none(own_pool, numbers):
    breaker = Breaker(NAME)
    breaker.trip("timeout", "")
    (path,) = own_pool.glob("remote-*")
    path.write_text(f"{numbers}\ntimeout\n\n")
    assert breaker.outage() is None
    assert breaker.may_request()
    assert breaker.trip("timeout", "").trips == 1


def test_writing_fails_by_itself():
    Breaker(NAME, for_writing=True).trip("full", "")
    assert not Breaker(NAME, for_writing=True).may_request()
    assert Breaker(NAME).may_request()


@pytest.mark.parametrize("folder", ["", "/nowhere"])
def test_where_nothing_can_be_kept_nothing_is_left_alone(monkeypatch, folder):
    monkeypatch.setattr(breaker.slots, "pool_directory", lambda: folder)
    alone = Breaker(NAME)
    assert alone.trip("timeout", "").trips == 1
    assert alone.count_loss() == 0
    assert alone.may_request()
    alone.close()
    assert alone.outage() is None


def test_losses_in_a_row_are_counted_by_all_calls():
    assert [Breaker(NAME).count_loss() for _ in range(2)] == [1, 2]
    assert Breaker("fedcba9876543210").count_loss() == 1
    Breaker(NAME).close()
    assert [Breaker(NAME).count_loss() for _ in range(2)] == [1, 2]
    Breaker(NAME).trip("failed", "")
    assert Breaker(NAME).count_loss() == 1


@pytest.mark.parametrize("content", [b"", b"garbage", b"1 2\n", b"a b c\nd\ne\n", b"\xff" * 9000])
def test_file_that_is_none(own_pool, content):
    (own_pool / f"remote-{NAME}").write_bytes(content)
    assert Breaker(NAME).may_request()


def test_what_is_planted_is_neither_followed_nor_waited_for(own_pool, tmp_path):
    (tmp_path / "target").touch()
    for number, end in enumerate(("", ".lost")):
        os.mkfifo(own_pool / f"remote-{number}{end}")
        (own_pool / f"remote-{number}-rw{end}").symlink_to(tmp_path / "target")
    for for_writing in (False, True):
        assert Breaker("0", for_writing).may_request()
        assert Breaker("1", for_writing).count_loss() == 0
    assert not (tmp_path / "target").read_bytes()
