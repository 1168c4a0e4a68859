"""Why a build took as long as it did: what the first sentence of the page says in addition to figures.py.

Knows nothing of HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nvccache import outcomes
from nvccache.report.calls import Call


@dataclass(frozen=True, slots=True)
class Costliest:
    """The cause that tools took longest for, or the source where no cause is known."""

    cause: str
    sources: tuple[str, ...]
    spent: float  # seconds of tool time


@dataclass(frozen=True, slots=True)
class Verdict:
    costliest: Costliest | None
    last: Call | None  # the call that ended last
    slots: int  # that held a stage
    busy: float  # seconds that slots held stages, added up
    one_busy: float  # seconds in which exactly one slot held a stage
    own: float  # seconds of calls in which no tool ran for them, added up


def of(builds: Sequence[Sequence[Call]]) -> Verdict:
    calls = [call for build in builds for call in build]
    local = [_in_slots(build) for build in builds]
    covered = [_covered((begun, ended) for _, begun, ended in spans) for spans in local]
    return Verdict(
        costliest=_costliest(calls),
        last=max(calls, key=lambda call: call.ended, default=None),
        slots=len({slot for spans in local for slot, _, _ in spans}),
        busy=sum(sum(seconds * count for count, seconds in each.items()) for each in covered),
        one_busy=sum(each.get(1, 0.0) for each in covered),
        own=sum(_own(call) for call in calls),
    )


def _costliest(calls: Iterable[Call]) -> Costliest | None:
    found: dict[str, tuple[str, dict[str, None], float]] = {}
    for call in calls:
        source = call.source or call.product
        cause = "" if call.outcome == outcomes.BYPASS else call.cause
        _, sources, spent = found.get(cause or f"\0{source}", ("", {}, 0.0))
        found[cause or f"\0{source}"] = (cause, {**sources, source: None}, spent + call.tool_spent)
    cause, sources, spent = max(found.values(), key=lambda each: each[2], default=("", {}, 0.0))
    return Costliest(cause, tuple(sources), spent) if spent else None


def _in_slots(build: Iterable[Call]) -> list[tuple[int, float, float]]:
    """The slot, begin and end of each stage that held one."""
    return [
        (stage.slot, call.started + stage.start, call.started + stage.start + stage.lasted)
        for call in build
        for stage in call.stages
        if stage.slot >= 0 and not stage.is_found
    ]


def _covered(spans: Iterable[tuple[float, float]]) -> dict[int, float]:
    """For how many seconds how many spans were under way at once; 0 is left out."""
    edges = sorted(edge for begun, ended in spans for edge in ((begun, 1), (ended, -1)))
    found: dict[int, float] = {}
    count, before = 0, 0.0
    for moment, change in edges:
        if count:
            found[count] = found.get(count, 0.0) + moment - before
        count, before = count + change, moment
    return found


def _own(call: Call) -> float:
    """The seconds of a call without any tool; waiting for a slot is among them."""
    if call.outcome == outcomes.BYPASS or not call.stages:
        return 0.0
    ran = ((stage.start, stage.start + stage.lasted) for stage in call.stages if not stage.is_found)
    return max(0.0, call.seconds - sum(_covered(ran).values()))
