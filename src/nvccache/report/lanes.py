"""Lays out the calls of a build in lanes, for the timeline of the page, and writes the trace.

The trace is for Perfetto and chrome://tracing, in the JSON Object Format of the Trace Event Format.

There are lanes for tools (one for each job slot, and some for runs without a slot) and lanes for calls. Bars
in one lane do not overlap, except by a few milliseconds, since clocks are inaccurate.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nvccache import __version__
from nvccache.plan.stages import shown_name
from nvccache.report.tables import title_of
from nvccache.store import events
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
    """The lane of each call and stage. A hit held no slot, so it is in the lane of its call."""

    lanes: list[Lane]
    of_calls: list[int]  # for each call, the number of its lane
    of_stages: list[list[int]]  # for each call, the numbers of its stages' lanes


def lay_out(calls: Sequence[Event]) -> Lanes:
    """The lanes of these calls, which must be sorted by start."""
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
    # This machine comes first. On each machine, runs without a slot come last.
    for where, slot in sorted(keys, key=lambda key: (key[0], key[1] < 0, key[1])):
        entries = sorted(keys[where, slot])
        # Stages that overlap in one slot get separate rows. This happens if two machines write one log, or if
        # a clock was set back.
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


def most_at_once(calls: Sequence[Event]) -> int:
    """How many tools ran at the same time at most; there may be more lanes, if not all were busy at once."""
    ran = ((call.started + stage.start, stage) for call in calls for stage in call.stages if not stage.is_hit)
    spans = sorted((begun, begun + max(0.0, stage.seconds - SLACK)) for begun, stage in ran)
    return max(_pack(spans), default=-1) + 1


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


def trace_of(calls: Sequence[Event]) -> dict[str, Any]:
    """The trace; the calls must be sorted by start."""
    lanes = lay_out(calls)
    begun = calls[0].started if calls else 0.0
    processes: dict[str, int] = {}
    traced: list[dict[str, Any]] = []
    threads = []
    for thread, lane in enumerate(lanes.lanes, 1):
        title = "calls" if lane.group == CALLS else lane.where or "this machine"
        process = processes.setdefault(title, len(processes) + 1)
        threads.append({"pid": process, "tid": thread})
        names = {"process_name": title, "thread_name": lane.name}
        traced += [{"name": name, "ph": "M", **threads[-1], "args": {"name": names[name]}} for name in names]
    for call, lane_of_call, lanes_of_stages in zip(calls, lanes.of_calls, lanes.of_stages, strict=True):
        args: dict[str, Any] = {
            name: getattr(call, name)
            for name in ("outcome", "reason", "cause", "directory", "product", "pid", "tool_saved")
        }
        times = call.started - begun, call.seconds
        traced.append(_complete(title_of(call), f"call,{call.outcome}", times, args, threads[lane_of_call]))
        for stage, lane_of_stage in zip(call.stages, lanes_of_stages, strict=True):
            args = {name: getattr(stage, name) for name in ("result", "slot", "where")}
            args |= {
                "source": " ".join(call.sources),
                "product": call.product,
                "why_here": events.why_here(stage),
            }
            args["was_cached"] = events.was_cached(stage)
            args["saved" if stage.is_hit else "seconds"] = stage.cost if stage.is_hit else stage.seconds
            # A hit takes no time, and its place must lie within its call.
            start = min(stage.start, call.seconds) if stage.is_hit else stage.start
            times = call.started - begun + start, 0.0 if stage.is_hit else stage.seconds
            name = shown_name(stage.kind, stage.architecture)
            traced.append(_complete(name, f"stage,{stage.result}", times, args, threads[lane_of_stage]))
    return {
        "traceEvents": traced,
        "displayTimeUnit": "ms",
        "otherData": {"program": f"nvccache {__version__}", "begun": f"{begun:.6f}"},
    }


def _complete(
    name: str, category: str, times: tuple[float, float], args: dict[str, Any], thread: dict[str, int]
) -> dict[str, Any]:
    start, seconds = times
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        # Both ends are rounded, so that adjacent events stay adjacent.
        "ts": round(start * 1e6),
        "dur": round((start + seconds) * 1e6) - round(start * 1e6),
        **thread,
        "args": {key: value for key, value in args.items() if value != ""},
    }
