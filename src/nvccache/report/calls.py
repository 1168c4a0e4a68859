"""What a report shows of the calls in the event log: printable texts, and the times and costs of stages."""

from __future__ import annotations

from nvccache.log import printable
from nvccache.store import events
from nvccache.store.event_line import FAILED, HIT, RAN, SHARED, Event, StageEvent

RESULTS = (HIT, RAN, SHARED, FAILED)


def make_printable(call: Event) -> Event:
    """Escape what cannot be printed in all texts of a call, and return it."""
    for record in (call, *call.stages):
        for name, value in record.values().items():
            if isinstance(value, str):
                setattr(record, name, printable(value))
    call.sources = tuple(map(printable, call.sources))
    for stage in call.stages:
        if stage.result not in RESULTS:
            stage.result = RAN
    return call


def source_of(call: Event) -> str:
    return " ".join(call.sources)


def title_of(call: Event) -> str:
    return source_of(call) or call.product or "a call without a source"


def lasted(stage: StageEvent) -> float:
    """The seconds from its start to its end; a result from the engine's cache has no run."""
    costs = events.remote_costs(stage)
    if not costs:
        return stage.seconds
    moved = costs.queue + costs.send + costs.fetch
    return moved if costs.is_cached else moved + costs.run


def saved(stage: StageEvent) -> float:
    """The compiler time that a hit avoided."""
    return stage.cost if stage.is_hit else 0.0
