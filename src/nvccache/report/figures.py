"""The figures of a report: outcomes, seconds, what was slow, and why calls were no direct hits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nvccache import outcomes
from nvccache.plan import stages
from nvccache.plan.stages import shown_name
from nvccache.report.calls import Call, Stage, elapsed
from nvccache.store.event_line import FAILED, HIT, RAN, SHARED

_HITS = (outcomes.DIRECT_HIT, outcomes.STAGE_HIT)
_CACHEABLE = (*_HITS, outcomes.PARTIAL_HIT, outcomes.MISS)
LONGEST_LIST = 15  # rows of each list of the slowest


@dataclass(slots=True)
class Tally:
    """Calls or stages with something in common, and one of them as an example."""

    example: str = ""
    count: int = 0
    results: Counter[str] = field(default_factory=Counter)  # of stages
    spent: float = 0.0  # seconds of compiler time
    saved: float = 0.0


@dataclass(frozen=True, slots=True)
class SlowStage:
    stage: Stage
    call: Call


@dataclass(frozen=True, slots=True)
class Figures:
    calls: int
    by_outcome: dict[str, int]
    elapsed: float  # seconds from the start of the first call to the end of the last
    tool_spent: float
    tool_saved: float
    in_vain: float  # seconds of tools that had to run again because of a wrong module id
    stages: dict[str, Tally]
    sources: dict[str, Tally]
    slowest_stages: list[SlowStage]
    causes: dict[str, Tally]  # why calls were no direct hits
    whys: dict[str, Tally]  # why stages had to run
    reasons: dict[str, Tally]  # of bypasses
    store_faults: dict[str, Tally]
    wrong_settings: dict[str, Tally]

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
        return _share(results, (HIT, SHARED), (HIT, SHARED, RAN))


def of(calls: Sequence[Call]) -> Figures:
    by_outcome = dict.fromkeys(outcomes.OUTCOMES, 0)
    for call in calls:
        by_outcome[call.outcome] = by_outcome.get(call.outcome, 0) + 1
    ran = [SlowStage(stage, call) for call in calls for stage in call.stages if stage.result in (RAN, FAILED)]
    ran.sort(key=lambda slow: -slow.stage.spent)
    return Figures(
        calls=len(calls),
        by_outcome=by_outcome,
        elapsed=elapsed(calls),
        tool_spent=sum(call.tool_spent for call in calls),
        tool_saved=sum(call.tool_saved for call in calls),
        in_vain=sum(stage.in_vain for call in calls for stage in call.stages),
        stages=_by_kind(calls),
        sources=_sorted(_tally((call.source, call) for call in calls if call.source), "spent"),
        slowest_stages=ran[:LONGEST_LIST],
        causes=_sorted(
            _tally((c.cause, c) for c in calls if c.cause and c.outcome != outcomes.BYPASS), "spent"
        ),
        whys=_sorted(_whys(calls), "spent"),
        reasons=_sorted(_tally((c.reason, c) for c in calls if c.outcome == outcomes.BYPASS), "count"),
        store_faults=_sorted(_tally((c.store_fault, c) for c in calls if c.store_fault), "count"),
        wrong_settings=_sorted(_tally((name, c) for c in calls for name in c.wrong_settings), "count"),
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
            _add(found.setdefault(stage.kind, Tally()), stage)
    return {kind: tally for kind, tally in found.items() if tally.count}


def _whys(calls: Iterable[Call]) -> dict[str, Tally]:
    found: dict[str, Tally] = {}
    for call in calls:
        for stage in call.stages:
            if stage.why and not stage.is_found:
                _add(
                    found.setdefault(stage.why, Tally(f"{shown_name(stage.kind)} of {call.source}")),
                    stage,
                )
    return found


def _add(tally: Tally, stage: Stage) -> None:
    tally.count += 1
    tally.results[stage.result] += 1
    tally.spent += stage.spent
    tally.saved += stage.saved


def _sorted(tallies: dict[str, Tally], by: str) -> dict[str, Tally]:
    def key(item: tuple[str, Tally]) -> tuple[float, int, str]:
        return -getattr(item[1], by), -item[1].count, item[0]

    return dict(sorted(tallies.items(), key=key))


def _share(counts: dict[str, int] | Counter[str], some: Iterable[str], of_all: Iterable[str]) -> float | None:
    total = sum(counts[name] for name in of_all)
    return sum(counts[name] for name in some) / total if total else None
