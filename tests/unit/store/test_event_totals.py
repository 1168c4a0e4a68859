"""The totals of all calls: no line lost, none counted twice, and no call disturbed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from nvccache import outcomes
from nvccache.store import directory, event_line, event_totals, events
from nvccache.store.directory import StoreError
from nvccache.store.event_line import CACHED, HIT, LOCAL, RAN, SHARED, StageEvent
from sample_events import event
from unprivileged import read_only

KINDS = ("ptxas", "cicc", "nvlink")  # requested by a caller, in its own order
STAGES = [("cicc", False, 2.0), ("ptxas", True, 0.5)]
MISS = event(outcomes.MISS, stages=STAGES, tool_saved=0.5, seconds=2.5, started=1000.0)


def made(product, outcome=outcomes.DIRECT_HIT):
    return event(outcome, stages=STAGES, product=product, started=1001.0)


def path_of(cache_dir, name=event_line.LOG):
    return os.path.join(cache_dir, "journal", name)


def misses(cache_dir):
    return event_totals.read(cache_dir)["calls"]["miss"]


@pytest.fixture
def folding(cache_dir, monkeypatch):
    """Logs are large after one call: appends a call, and begins another log."""
    monkeypatch.setattr(event_line, "LARGE", 1)

    def append_and_fold(call=MISS):
        event_line.append(cache_dir, call)
        event_totals.fold(cache_dir)

    return append_and_fold


def test_counts_of_a_missing_cache_are_zero_and_create_nothing(cache_dir):
    totals = event_totals.read(cache_dir, KINDS)
    assert totals["calls"] == dict.fromkeys(outcomes.OUTCOMES, 0)
    assert tuple(totals["stages"]) == KINDS
    assert totals["stages"]["cicc"] == {
        "hit": 0, "miss": 0, "replayed": 0, "seconds": 0, "seconds_saved": 0,
    }  # fmt: skip
    assert totals["bypass_reasons"] == totals["store_faults"] == totals["remote"]["faults"] == {}
    assert totals["executor"] == {"sent": 0, "came_back": 0, "reasons": {}}
    assert totals["seconds_saved"] == 0
    assert event_totals.reset(cache_dir) == event_totals.total(())
    assert not os.path.exists(cache_dir)


def test_totals_sum_the_events_of_all_calls(cache_dir):
    event_line.append(cache_dir, MISS)
    event_line.append(cache_dir, MISS)
    event_line.append(cache_dir, event(outcomes.BYPASS, "link", seconds=0.1, started=999.0))
    event_line.append(cache_dir, made("/a.o"))
    totals = event_totals.read(cache_dir, KINDS)
    assert totals["calls"]["miss"] == 2
    assert totals["calls"]["bypass"] == 1
    assert totals["bypass_reasons"] == {"link": 1}
    assert totals["stages"]["ptxas"] == {
        "hit": 2, "miss": 0, "replayed": 1, "seconds": 0, "seconds_saved": 1.5,
    }  # fmt: skip
    assert (totals["seconds_saved"], totals["seconds_spent"], totals["since"]) == (1.0, 6.0, 999.0)
    assert event_totals.total(events.read(cache_dir), KINDS) == totals


def test_storage_faults_and_wrong_settings_are_counted(cache_dir):
    call = made("/a.o")
    call.store_fault = "disk_full"
    event_line.append(cache_dir, call)
    event_line.append(cache_dir, made("/b.o"))
    totals = event_totals.read(cache_dir, KINDS)
    assert totals["store_faults"] == {"disk_full": 1}


REMOTE = "grpc://h:1"


def away(text, where=REMOTE, result=RAN):
    """A stage that took 6.5 s, and what became of it on another machine."""
    found = StageEvent("cicc", result, 6.5)
    found.where, found.away = where, text
    return found


def test_remote_stages_are_counted_equally_before_and_after_the_log_is_merged(cache_dir, folding):
    """Two stages ran remotely, one of them had been cached there; two were sent but ran locally."""
    call = event("miss", started=1000.0)
    call.stages = [
        away(""),
        away(CACHED),
        away("no_workers", LOCAL),
        away("unreachable", LOCAL),
        away("", LOCAL),
        away("", "", HIT),
        away("", "", SHARED),
    ]
    for count in (1, 2, 3):
        folding(call)
        for totals in (event_totals.read(cache_dir, ["cicc"]), event_totals.total([call] * count, ["cicc"])):
            reasons = {"no_workers": count, "unreachable": count}
            assert totals["executor"] == {"sent": 4 * count, "came_back": 2 * count, "reasons": reasons}
            cicc = totals["stages"]["cicc"]
            assert (cicc["miss"], cicc["hit"]) == (5 * count, 2 * count)
            # What the engine had is no compiler time.
            assert (cicc["seconds"], cicc["seconds_saved"]) == (4 * 6.5 * count, 2 * 6.5 * count)


def test_a_sum_of_many_times_is_exact_to_the_microsecond():
    call = event("miss", stages=[("cicc", False, 0.1)], started=1.0)
    assert event_totals.total([call] * 1000)["seconds_spent"] == 100.0


def test_calls_in_merged_logs_stay_counted(cache_dir, folding):
    for count in (1, 2, 3, 4):
        folding()
        assert misses(cache_dir) == count
    event_line.append(cache_dir, MISS)
    assert misses(cache_dir) == 5
    assert len(list(events.read(cache_dir))) == 2


def test_a_line_written_to_a_renamed_log_is_counted(cache_dir, folding):
    event_line.append(cache_dir, MISS)
    with open(path_of(cache_dir), "ab") as late:
        folding()
        late.write(event_line.format_line(MISS))
    assert misses(cache_dir) == 3
    folding()
    assert misses(cache_dir) == 4


def test_resetting_the_counts_returns_them_and_starts_from_zero(cache_dir, folding):
    for _ in range(3):
        folding(event(outcomes.MISS, started=time.time()))
    event_line.append(cache_dir, event(outcomes.MISS, started=time.time()))
    assert event_totals.reset(cache_dir)["calls"]["miss"] == 4
    assert misses(cache_dir) == 0
    for count in (1, 2, 3):
        folding(event(outcomes.MISS, started=time.time()))
        assert misses(cache_dir) == count
    assert len(event_totals.since_reset(events.read(cache_dir), cache_dir)) == 1


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"totals": 3}'])
def test_damaged_totals_count_from_zero(cache_dir, damage):
    event_line.append(cache_dir, MISS)
    Path(path_of(cache_dir, event_totals._TOTALS)).write_text(damage)
    assert misses(cache_dir) == 1


@pytest.mark.parametrize(("step", "counted"), [("write", 4), ("rename", 5)])
def test_killing_a_call_that_merges_the_log_loses_no_counts_but_may_double_some(
    cache_dir, folding, monkeypatch, step, counted
):
    """Four calls; the one in the older log is in the totals already if the logs could not be exchanged."""
    for _ in range(3):
        folding()
    event_line.append(cache_dir, MISS)
    with monkeypatch.context() as killed:
        killed.setattr(directory.Directory, step, stop)
        with pytest.raises(KeyboardInterrupt):
            event_totals.fold(cache_dir)
    assert misses(cache_dir) == counted
    folding()
    assert misses(cache_dir) > counted


def stop(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize("read", [event_totals.read, event_totals.reset])
def test_a_file_in_place_of_the_cache_is_one_error_sentence_for_counts(tmp_path, read):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot read the counts in `.*`: Not a directory"):
        read(str(tmp_path / "file"))


def test_a_read_only_event_log_can_be_read_but_not_reset(cache_dir, folding):
    folding()
    event_line.append(cache_dir, MISS)
    with read_only(cache_dir) as copy:
        assert misses(copy) == 2
        event_line.append(copy, MISS)
        assert misses(copy) == 2
        with pytest.raises(StoreError, match=r"cannot reset the counts in `.*`: Permission denied"):
            event_totals.reset(copy)


@pytest.mark.parametrize("is_folded", [False, True])
def test_events_are_listed_newest_first_also_for_one_object(cache_dir, folding, is_folded):
    for product in ("/a.o", "/tab\tbed.o", "/\xfc\udcff.o"):
        event_line.append(cache_dir, made(product))
    if is_folded:
        event_totals.fold(cache_dir)
    event_line.append(cache_dir, made("/a.o", outcomes.MISS))
    event_line.append(cache_dir, event("bypass"))
    products = ["", "/a.o", "/\xfc\udcff.o", "/tab\tbed.o", "/a.o"]
    assert [call.product for call in events.newest(cache_dir)] == products
    assert [call.outcome for call in events.newest(cache_dir, "/a.o")] == ["miss", "direct_hit"]
