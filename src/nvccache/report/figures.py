"""The figures of a report: outcomes, seconds, what was slow, and why calls were no direct hits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nvccache import outcomes
from nvccache.plan import stages
from nvccache.report.calls import Call
from nvccache.store.event_line import HIT, RAN, SHARED

_HITS = (outcomes.DIRECT_HIT, outcomes.STAGE_HIT)
_CACHEABLE = (*_HITS, outcomes.PARTIAL_HIT, outcomes.MISS)


@dataclass(slots=True)
class Tally:
    """Calls or stages with something in common, and one of them as an example."""

    example: str = ""
    count: int = 0
    results: Counter[str] = field(default_factory=Counter)  # of stages
    spent: float = 0.0  # seconds of compiler time
    saved: float = 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    calls: int
    by_outcome: dict[str, int]
    elapsed: float  # seconds from the start of the first call to the end of the last
    tool_spent: float
    tool_saved: float
    stages: dict[str, Tally]
    sources: dict[str, Tally]
    causes: dict[str, Tally]  # why calls were no direct hits
    reasons: dict[str, Tally]  # of bypasses

    @property
    def hits(self) -> int:
        return sum(self.by_outcome[outcome] for outcome in _HITS)

    @property
    def cacheable(self) -> int:
        """The calls that the cache could answer."""
        return sum(self.by_outcome[outcome] for outcome in _CACHEABLE)

    @property
    def hit_rate(self) -> float | None:
        return self.hits / self.cacheable if self.cacheable else None

    @property
    def stage_hit_rate(self) -> float | None:
        results: Counter[str] = sum((tally.results for tally in self.stages.values()), Counter())
        hits = results[HIT] + results[SHARED]
        return hits / (hits + results[RAN]) if hits + results[RAN] else None


def of(calls: Sequence[Call]) -> Figures:
    by_outcome = dict.fromkeys(outcomes.OUTCOMES, 0)
    for call in calls:
        by_outcome[call.outcome] = by_outcome.get(call.outcome, 0) + 1
    causes = ((call.cause, call) for call in calls if call.cause and call.outcome != outcomes.BYPASS)
    return Figures(
        calls=len(calls),
        by_outcome=by_outcome,
        elapsed=max(c.ended for c in calls) - min(c.started for c in calls) if calls else 0.0,
        tool_spent=sum(call.tool_spent for call in calls),
        tool_saved=sum(call.tool_saved for call in calls),
        stages=_by_kind(calls),
        sources=_sorted(_tally((call.source, call) for call in calls if call.source), "spent"),
        causes=_sorted(_tally(causes), "spent"),
        reasons=_sorted(_tally((c.reason, c) for c in calls if c.outcome == outcomes.BYPASS), "count"),
    )


def _tally(named: Iterable[tuple[str, Call]]) -> dict[str, Tally]:
    found: dict[str, Tally] = {}
    for name, call in named:
        tally = found.setdefault(name, Tally(call.source or call.product))
        tally.count += 1
        tally.spent += call.tool_spent
        tally.saved += call.tool_saved
    return found


def _by_kind(calls: Iterable[Call]) -> dict[str, Tally]:
    """The known stages in pipeline order, then any others."""
    found = {kind: Tally() for kind in stages.counted()}
    for call in calls:
        for stage in call.stages:
            tally = found.setdefault(stage.kind, Tally())
            tally.count += 1
            tally.results[stage.result] += 1
            tally.spent += stage.spent
            tally.saved += stage.saved
    return {kind: tally for kind, tally in found.items() if tally.count}


def _sorted(tallies: dict[str, Tally], by: str) -> dict[str, Tally]:
    def key(item: tuple[str, Tally]) -> tuple[float, int, str]:
        return -getattr(item[1], by), -item[1].count, item[0]

    return dict(sorted(tallies.items(), key=key))
