"""For a minute after a fault, no process uses a remote."""

from __future__ import annotations

import pytest

from nvccache.remote import outages

FAR = "0123456789abcdef"


@pytest.mark.parametrize(
    ("seconds", "is_over"),
    [(50, False), (70, True), pytest.param(-100, True, id="a clock that was set back")],
)
def test_an_outage_says_why_and_ends_after_a_minute(monkeypatch, seconds, is_over):
    assert outages.current(FAR) is None
    outages.begin(FAR, "timeout", "the remote did not answer in time")
    began = outages.time.time()
    monkeypatch.setattr(outages.time, "time", lambda: began + seconds)
    found = outages.current(FAR)
    assert (found is None) == is_over
    assert is_over or (found.word, found.text) == ("timeout", "the remote did not answer in time")
    assert outages.current("another") is None


def test_a_recorded_outage_of_a_remote_can_be_ended():
    outages.begin(FAR, "timeout", "")
    for _ in ("once", "twice"):
        outages.end(FAR)
        assert outages.current(FAR) is None


@pytest.mark.parametrize("folder", ["", "/nowhere"])
def test_without_a_directory_no_outage_of_a_remote_is_remembered(monkeypatch, folder):
    monkeypatch.setattr(outages.slots, "pool_directory", lambda: folder)
    outages.begin(FAR, "timeout", "")
    outages.end(FAR)
    assert outages.current(FAR) is None


@pytest.mark.parametrize("content", [b"", b"timeout", b"\xff"])
def test_a_damaged_outage_file_is_ignored(own_pool, content):
    (own_pool / f"outage-{FAR}").write_bytes(content)
    assert outages.current(FAR) is None
