"""Stages on other machines, and those that ran in vain before, in the event log."""

from __future__ import annotations

from nvccache.execution.run_stage import Costs
from nvccache.store import event_line, event_totals, events
from nvccache.store.event_line import RAN, Event, StageEvent


def read_again(stage: StageEvent) -> tuple[StageEvent, dict[str, object]]:
    event = Event("miss", started=1.0)
    event.stages.append(stage)
    (found,) = events.parse(event_line.line_of(event))
    return found.stages[0], events.to_json(found)["stages"][0]  # type: ignore[index]


def test_what_a_stage_cost_elsewhere_is_kept() -> None:
    stage = StageEvent("cicc", RAN, 6.5)
    stage.where = "grpc://h:1"
    stage.away = Costs(0.25, 0.125, 6.5, 0.5, 1200, 34, "worker", is_cached=True).text()
    found, told = read_again(stage)
    assert (found.where, found.away) == ("grpc://h:1", stage.away)
    assert told["away"] == {
        "queue": 0.25, "send": 0.125, "run": 6.5, "fetch": 0.5, "sent_bytes": 1200, "fetched_bytes": 34,
        "is_cached": 1,
    }  # fmt: skip
    assert told["why_here"] == ""


def test_why_a_stage_ran_here_though_it_was_sent_is_kept() -> None:
    stage = StageEvent("cicc", RAN, 6.5)
    stage.away = "no_workers"
    _, told = read_again(stage)
    assert (told["where"], told["away"], told["why_here"]) == ("local", None, "no_workers")


def test_costs_that_are_none_are_not_told() -> None:
    stage = StageEvent("cicc", RAN, 6.5)
    stage.where = "grpc://h:1"
    for text in ("", "1 2", "1 2 3 4 5 6 x"):
        stage.away = text
        assert read_again(stage)[1]["away"] is None


def test_what_ran_in_vain_is_kept_and_counted() -> None:
    stage = StageEvent("cicc", RAN, 6.5)
    assert read_again(stage)[1]["in_vain"] == 0
    stage.in_vain = 1.25
    found, told = read_again(stage)
    assert told["in_vain"] == 1.25
    event = Event("miss", started=1.0)
    event.stages += [found, StageEvent("cicc", RAN, 1.0), found]
    assert event_totals.of_events([event])["in_vain"] == {"runs": 2, "seconds": 2.5}
    line = event_line.line_of(event)
    assert list(events.parse(line.replace(b"1.250000", b"1.250000\x1f3")))  # a fact of a later version
    assert list(events.parse(line.replace(b"\x1f1.250000", b""))) == []
