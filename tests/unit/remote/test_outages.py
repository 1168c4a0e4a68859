"""For a minute after a fault, no process uses a remote."""

from __future__ import annotations

import pytest

from nvccache.remote import outages

FAR = "0123456789abcdef"


@pytest.fixture
def clock(monkeypatch):
    """Moves the clock by the given seconds."""
    began = outages.time.time()

    def move(seconds):
        monkeypatch.setattr(outages.time, "time", lambda: began + seconds)

    return move


def test_there_is_none_before_a_fault():
    assert outages.current(FAR) is None


def test_outage_says_why_and_ends_after_a_minute(clock):
    outages.begin(FAR, "timeout", "no answer in time")
    clock(50)
    found = outages.current(FAR)
    assert found
    assert (found.word, found.text) == ("timeout", "no answer in time")
    clock(70)
    assert outages.current(FAR) is None
    assert outages.current("another") is None


def test_outage_ends_when_the_remote_is_seen_to_work():
    outages.begin(FAR, "timeout", "")
    outages.end(FAR)
    assert outages.current(FAR) is None
    outages.end(FAR)


def test_writing_fails_by_itself():
    outages.begin(outages.OF_WRITING.format(FAR), "full", "it is full")
    assert outages.current(FAR) is None
    assert outages.current(outages.OF_WRITING.format(FAR))


def test_outage_from_the_future_is_that_of_a_clock_set_back(clock):
    outages.begin(FAR, "timeout", "")
    clock(-100)
    assert outages.current(FAR) is None


@pytest.mark.parametrize("folder", ["", "/nowhere"])
def test_without_a_directory_there_are_no_outages(monkeypatch, folder):
    monkeypatch.setattr(outages.slots, "pool_directory", lambda: folder)
    outages.begin(FAR, "timeout", "")
    outages.end(FAR)
    assert outages.current(FAR) is None


@pytest.mark.parametrize("content", [b"", b"timeout", b"\xff"])
def test_damaged_file_is_no_outage(own_pool, content):
    (own_pool / f"outage-{FAR}").write_bytes(content)
    assert outages.current(FAR) is None
