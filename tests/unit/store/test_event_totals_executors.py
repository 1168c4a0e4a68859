"""Remote and wasted stages in the event log and in its totals."""

from __future__ import annotations

import pytest

from made_events import event
from nvccache.execution.run_stage import Costs
from nvccache.store import event_line, event_totals, events
from nvccache.store.event_line import HIT, LOCAL, RAN, SHARED, Event, StageEvent

REMOTE = "grpc://h:1"


def stage(away: str = "", where: str = REMOTE, result: str = RAN) -> StageEvent:
    found = StageEvent("cicc", result, 6.5)
    found.where, found.away = where, away
    return found


def test_stages_on_other_machines_add_up_before_and_after_a_fold(tmp_path, monkeypatch):
    """Two stages ran remotely, one of them had been cached there; three were sent but ran locally."""
    cache = str(tmp_path / "cache")
    call = event("miss", started=1000.0)
    call.stages = [
        stage(Costs(0.25, 0.125, 6.5, 0.5, 1200, 34).text()),
        stage(Costs(0.0, 0.0, 40.0, 0.25, 1, 5000, is_cached=True).text()),
        *(stage(word, LOCAL) for word in ("no_workers", "unreachable", "no_workers")),
        *(stage(text) for text in ("", "1 2", "1 2 3 4 5 6 x")),  # no costs
        stage("", LOCAL),
        stage("", "", HIT),
        stage("", "", SHARED),
    ]
    monkeypatch.setattr(event_line, "LARGE", 1)
    for count in (1, 2, 3):
        event_line.append(cache, call)
        for totals in (event_totals.read(cache, ["cicc"]), event_totals.total([call] * count, ["cicc"])):
            reasons = {"no_workers": 2 * count, "unreachable": count}
            assert totals["executor"] == {"sent": 5 * count, "came_back": 2 * count, "reasons": reasons}
            cicc = totals["stages"]["cicc"]
            assert (cicc["miss"], cicc["hit"]) == (9 * count, 2 * count)
            # What the engine had is no compiler time.
            assert (cicc["seconds"], cicc["seconds_saved"]) == (8 * 6.5 * count, 2 * 6.5 * count)
        event_totals.fold(cache)
    event_totals.reset(cache)
    assert event_totals.read(cache)["executor"] == {"sent": 0, "came_back": 0, "reasons": {}}


def test_many_sums_of_tenths_stay_exact_to_the_microsecond():
    call = event("miss", stages=[("cicc", False, 0.1)], started=1.0)
    assert event_totals.total([call] * 1000)["seconds_spent"] == 100.0


@pytest.mark.parametrize(
    ("where", "away", "costs", "why_here"),
    [
        (REMOTE, Costs(0.25, 0.125, 6.5, 0.5, 1200, 34, is_cached=True).text(),
         {"queue": 0.25, "send": 0.125, "run": 6.5, "fetch": 0.5, "sent_bytes": 1200, "fetched_bytes": 34,
          "is_cached": 1}, ""),
        (REMOTE, "1 2 3 4 5 6 x", None, ""),
        (LOCAL, "no_workers", None, "no_workers"),
    ],
)  # fmt: skip
def test_what_became_of_a_stage_that_was_sent_is_kept(where, away, costs, why_here):
    given = stage(away, where)
    call = Event("miss", started=1.0)
    call.stages = [given]
    found = event_line.event_of(event_line.line_of(call).strip(b"\n"))
    assert found
    (printed,) = events.to_json(found)["stages"]
    assert (printed["where"], printed["away"], printed["why_here"]) == (where, costs, why_here)
