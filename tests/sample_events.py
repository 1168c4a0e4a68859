"""Events as calls would have written them, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Iterable

from nvccache.store.event_line import HIT, RAN, Event, StageEvent


def event(
    outcome: str, reason: str = "", stages: Iterable[tuple[str, bool, float]] = (), **fields: object
) -> Event:
    """An event with stages of (kind, whether it was a hit, seconds), and further fields by name."""
    made = Event(outcome, reason)
    made.stages = [StageEvent(kind, HIT if is_hit else RAN, seconds) for kind, is_hit, seconds in stages]
    for name, value in fields.items():
        setattr(made, name, value)
    return made
