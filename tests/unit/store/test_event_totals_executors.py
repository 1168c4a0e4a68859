"""Remote and wasted stages in the event log and in its totals."""

from __future__ import annotations

import pytest

from made_events import event
from nvccache.execution.run_stage import Costs
from nvccache.store import event_line, event_totals, events
from nvccache.store.event_line import HIT, LOCAL, RAN, SHARED, Event, StageEvent

NOTHING = {
    "sent": 0, "came_back": 0, "from_action_cache": 0, "ran_here": 0, "reasons": {},
    "seconds_queued": 0, "seconds_sending": 0, "seconds_running": 0, "seconds_fetching": 0,
    "seconds_saved": 0, "bytes_sent": 0, "bytes_received": 0,
}  # fmt: skip
# Of a call of `made`.
OF_ONE = {
    "sent": 5, "came_back": 2, "from_action_cache": 1, "ran_here": 3,
    "reasons": {"no_workers": 2, "unreachable": 1},
    "seconds_queued": 0.25, "seconds_sending": 0.125, "seconds_running": 6.5, "seconds_fetching": 0.75,
    "seconds_saved": 40.0, "bytes_sent": 1201, "bytes_received": 5034,
}  # fmt: skip


def stage(away: str = "", where: str = "grpc://h:1", result: str = RAN) -> StageEvent:
    found = StageEvent("cicc", result, 6.5)
    found.where, found.away = where, away
    return found


def made(started: float = 1000.0) -> Event:
    """A call with two stages run remotely, three sent but run locally, and others."""
    call = event("miss", started=started)
    call.stages = [
        stage(Costs(0.25, 0.125, 6.5, 0.5, 1200, 34).text()),
        stage(Costs(0.0, 0.0, 40.0, 0.25, 1, 5000, is_cached=True).text()),
        *(stage(word, LOCAL) for word in ("no_workers", "unreachable", "no_workers")),
        stage("", LOCAL),
        stage("", "", HIT),
        stage("", "", SHARED),
    ]
    return call


def times(count: int) -> dict[str, object]:
    """The totals of this many such calls."""
    sums: dict[str, object] = {name: value * count for name, value in OF_ONE.items() if name != "reasons"}  # type: ignore[operator]
    return {**sums, "reasons": {"no_workers": 2 * count, "unreachable": count}}


@pytest.fixture
def cache_dir(tmp_path):
    return str(tmp_path / "cache")


def test_stages_on_other_machines_add_up_before_and_after_a_fold(cache_dir, monkeypatch):
    assert event_totals.read(cache_dir)["executor"] == event_totals.zeros()["executor"] == NOTHING
    monkeypatch.setattr(event_line, "LARGE", 1)
    for count in (1, 2, 3):
        event_line.append(cache_dir, made())
        assert event_totals.of_events(events.read(cache_dir))["executor"] == times(count)
        assert event_totals.read(cache_dir)["executor"] == times(count)
        event_totals.fold(cache_dir)
    event_totals.reset(cache_dir)
    assert event_totals.read(cache_dir)["executor"] == NOTHING


def test_what_the_engine_had_is_no_compiler_time(cache_dir):
    event_line.append(cache_dir, made())
    cicc = event_totals.read(cache_dir, ["cicc"])["stages"]["cicc"]
    assert (cicc["miss"], cicc["seconds"], cicc["hit"], cicc["seconds_saved"]) == (6, 5 * 6.5, 2, 2 * 6.5)


def test_many_sums_of_tenths_stay_exact_to_the_microsecond(cache_dir):
    for _ in range(1000):
        call = event("miss", started=1.0)
        call.stages = [stage(Costs(0.1, 0.0, 0.3, 0.0, 1, 2).text())]
        event_line.append(cache_dir, call)
    found = event_totals.read(cache_dir)["executor"]
    assert (found["seconds_queued"], found["seconds_running"]) == (100.0, 300.0)
    assert (found["sent"], found["bytes_sent"], found["bytes_received"]) == (1000, 1000, 2000)


def test_only_calls_since_then_count(cache_dir):
    for started in (1000.0, 2000.0):
        event_line.append(cache_dir, made(started))
    assert event_totals.of_events(events.read(cache_dir, since=1500.0))["executor"] == OF_ONE


def test_costs_that_are_none_count_for_nothing(cache_dir):
    call = event("miss", started=1.0)
    call.stages = [stage(text) for text in ("", "1 2", "1 2 3 4 5 6 x")]
    event_line.append(cache_dir, call)
    assert event_totals.read(cache_dir)["executor"] == NOTHING


def read_again(stage: StageEvent) -> tuple[StageEvent, dict[str, object]]:
    event = Event("miss", started=1.0)
    event.stages.append(stage)
    found = event_line.event_of(event_line.line_of(event).strip(b"\n"))
    assert found
    return found.stages[0], events.to_json(found)["stages"][0]  # type: ignore[index]


def test_what_a_stage_cost_elsewhere_is_kept() -> None:
    stage = StageEvent("cicc", RAN, 6.5)
    stage.where = "grpc://h:1"
    stage.away = Costs(0.25, 0.125, 6.5, 0.5, 1200, 34, "worker", is_cached=True).text()
    found, as_json = read_again(stage)
    assert (found.where, found.away) == ("grpc://h:1", stage.away)
    assert as_json["away"] == {
        "queue": 0.25, "send": 0.125, "run": 6.5, "fetch": 0.5, "sent_bytes": 1200, "fetched_bytes": 34,
        "is_cached": 1,
    }  # fmt: skip
    assert as_json["why_here"] == ""


def test_why_a_stage_ran_here_though_it_was_sent_is_kept() -> None:
    stage = StageEvent("cicc", RAN, 6.5)
    stage.away = "no_workers"
    _, as_json = read_again(stage)
    assert (as_json["where"], as_json["away"], as_json["why_here"]) == ("local", None, "no_workers")


def test_zero_costs_are_left_out() -> None:
    stage = StageEvent("cicc", RAN, 6.5)
    stage.where = "grpc://h:1"
    for text in ("", "1 2", "1 2 3 4 5 6 x"):
        stage.away = text
        assert read_again(stage)[1]["away"] is None


def test_wasted_stages_are_kept_and_counted() -> None:
    stage = StageEvent("cicc", RAN, 6.5)
    assert read_again(stage)[1]["in_vain"] == 0
    stage.in_vain = 1.25
    found, as_json = read_again(stage)
    assert as_json["in_vain"] == 1.25
    event = Event("miss", started=1.0)
    event.stages += [found, StageEvent("cicc", RAN, 1.0), found]
    assert event_totals.of_events([event])["in_vain"] == {"runs": 2, "seconds": 2.5}
