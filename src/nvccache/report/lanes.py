"""Lays out the calls of a build in lanes, for the timeline of the page and for the trace.

Lanes are of tools (one for each job slot, more for runs without a slot) and of calls. Bars of one lane
overlap at most by the inaccuracy of clocks.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nvccache.store.event_line import LOCAL, Event

TOOLS = "Tools at work"
CALLS = "Calls of nvcc"
SLACK = 0.005  # seconds by which clocks of two processes may differ


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
                entry = (begun, begun + stage.seconds, number, index)
                keys.setdefault((where, max(stage.slot, -1)), []).append(entry)
    lanes: list[Lane] = []
    of_stages = [[-1] * len(call.stages) for call in calls]
    counts: Counter[str] = Counter()  # rows of each machine
    # This machine first, and of each machine what held no slot last.
    for where, slot in sorted(keys, key=lambda key: (key[0], key[1] < 0, key[1])):
        entries = sorted(keys[where, slot])
        # Two at once in one slot have rows of their own: logs of two machines, or a clock that was set back.
        rows = _pack((begun, max(begun, ended - SLACK)) for begun, ended, _, _ in entries)
        for (_, _, number, index), row in zip(entries, rows, strict=True):
            of_stages[number][index] = len(lanes) + row
        for _ in range(max(rows) + 1):
            counts[where] += 1
            lanes.append(Lane(TOOLS, f"job {counts[where]}" + (f" on {where}" if where else ""), where))
    rows = _pack((call.started - first, call.ended - first) for call in calls)
    of_calls = [len(lanes) + row for row in rows]
    lanes += [Lane(CALLS, f"call {row + 1}") for row in range(max(rows, default=-1) + 1)]
    for number, in_call in enumerate(of_stages):
        of_stages[number] = [of_calls[number] if lane < 0 else lane for lane in in_call]
    return Lanes(lanes, of_calls, of_stages)


def _pack(spans: Iterable[tuple[float, float]]) -> list[int]:
    """For each span, sorted by start, the lowest row that is free when it starts."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    rows: list[int] = []
    for begun, ended in spans:
        while busy and busy[0][0] <= begun:
            heapq.heappush(free, heapq.heappop(busy)[1])
        row = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (ended, row))
        rows.append(row)
    return rows
