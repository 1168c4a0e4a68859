"""What a report computes from its calls: figures, the critical path, and the lanes of the timeline."""

from __future__ import annotations

import bisect
import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from nvccache.plan import stages
from nvccache.report.calls import lasted, saved
from nvccache.store import events
from nvccache.store.event_line import LOCAL, Event, StageEvent


@dataclass(slots=True)
class Tally:
    """Stages of one kind."""

    results: Counter[str] = field(default_factory=Counter)
    spent: float = 0.0  # seconds of compiler time
    saved: float = 0.0


def tallies_of_stages(calls: Iterable[Event]) -> dict[str, Tally]:
    """The known stages in pipeline order, then any others."""
    tallies = {kind: Tally() for kind in stages.counted()}
    for call in calls:
        for stage in call.stages:
            tally = tallies.setdefault(stage.kind, Tally())
            tally.results[stage.result] += 1
            tally.spent += events.tool_spent(stage)
            tally.saved += saved(stage)
    return {kind: tally for kind, tally in tallies.items() if tally.results}


SLACK = 0.005  # seconds by which clocks of two processes may differ
_SAME_CALL = 0.05  # seconds between stages of one call that still follow each other


@dataclass(frozen=True, slots=True)
class Link:
    """A piece of the critical path: a stage that ran, or a call as a whole."""

    call: Event
    stage: StageEvent | None
    started: float  # Unix time
    seconds: float
    waited: float  # seconds since the link before it ended

    @property
    def kind(self) -> str:
        return self.stage.kind if self.stage else self.call.outcome


def critical_path(build: Sequence[Event]) -> tuple[Link, ...]:
    """Before each link, what ended last before that began; the last link is what ended last of all.

    What a build system waits for is not recorded, so this is found from times. Of the same call, a stage that
    ended just before is preferred.
    """
    links = sorted(_links(build), key=lambda link: link.started + link.seconds)
    ends = [link.started + link.seconds for link in links]
    path: list[Link] = []
    at = len(links) - 1
    while at >= 0:
        link = links[at]
        # Earlier in this order only, or what took no time could be its own predecessor.
        before = min(bisect.bisect_right(ends, link.started + SLACK), at) - 1
        near = before
        while near >= 0 and ends[near] > link.started - _SAME_CALL and links[near].call is not link.call:
            near -= 1
        if near >= 0 and links[near].call is link.call:
            before = near
        waited = link.started - (ends[before] if before >= 0 else min(call.started for call in build))
        path.append(Link(link.call, link.stage, link.started, link.seconds, max(0.0, waited)))
        at = before
    return tuple(reversed(path))


def _links(build: Iterable[Event]) -> Iterator[Link]:
    for call in build:
        ran = [stage for stage in call.stages if not stage.is_hit]
        for stage in ran:
            yield Link(call, stage, call.started + stage.start, lasted(stage), 0.0)
        if not ran:
            yield Link(call, None, call.started, call.seconds, 0.0)


# Lanes are of tools (one for each job slot, more for runs without a slot) and of calls. Bars of one lane
# overlap at most by the inaccuracy of clocks.
TOOLS = "Tools at work"
CALLS = "Calls of nvcc"


@dataclass(frozen=True, slots=True)
class Lane:
    group: str
    name: str
    where: str = ""  # another machine; empty for this one


@dataclass(frozen=True, slots=True)
class Lanes:
    """A stage that was found held no slot: it is in the lane of its call."""

    lanes: list[Lane]
    of_calls: list[int]  # a lane's number for each call
    of_stages: list[list[int]]  # and one for each of its stages


def lay_out(calls: Sequence[Event]) -> Lanes:
    """The calls must be sorted by start."""
    first = calls[0].started if calls else 0.0
    keys: dict[tuple[str, int], list[tuple[float, float, int, int]]] = {}
    for number, call in enumerate(calls):
        for index, stage in enumerate(call.stages):
            if not stage.is_hit:
                where = "" if stage.where == LOCAL else stage.where
                begun = call.started - first + stage.start
                entry = (begun, begun + lasted(stage), number, index)
                keys.setdefault((where, max(stage.slot, -1)), []).append(entry)
    lanes: list[Lane] = []
    of_stages = [[-1] * len(call.stages) for call in calls]
    counts: Counter[str] = Counter()  # rows of each machine
    # This machine first, and of each machine what held no slot last.
    for where, slot in sorted(keys, key=lambda key: (key[0], key[1] < 0, key[1])):
        entries = sorted(keys[where, slot])
        # Two at once in one slot have rows of their own: logs of two machines, or a clock that was set back.
        rows = pack((begun, max(begun, ended - SLACK)) for begun, ended, _, _ in entries)
        for (_, _, number, index), row in zip(entries, rows, strict=True):
            of_stages[number][index] = len(lanes) + row
        for _ in range(max(rows) + 1):
            counts[where] += 1
            lanes.append(Lane(TOOLS, f"job {counts[where]}" + (f" on {where}" if where else ""), where))
    rows = pack((call.started - first, call.ended - first) for call in calls)
    of_calls = [len(lanes) + row for row in rows]
    lanes += [Lane(CALLS, f"call {row + 1}") for row in range(max(rows, default=-1) + 1)]
    for number, in_call in enumerate(of_stages):
        of_stages[number] = [of_calls[number] if lane < 0 else lane for lane in in_call]
    return Lanes(lanes, of_calls, of_stages)


def pack(spans: Iterable[tuple[float, float]]) -> list[int]:
    """For each span, sorted by start, the lowest row that is free when it starts."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    rows: list[int] = []
    count = 0
    for begun, ended in spans:
        while busy and busy[0][0] <= begun:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            row = heapq.heappop(free)
        else:
            row, count = count, count + 1
        heapq.heappush(busy, (ended, row))
        rows.append(row)
    return rows
