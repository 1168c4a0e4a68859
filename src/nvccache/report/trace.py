"""The calls as a trace for Perfetto and chrome://tracing: the JSON Object Format of the Trace Event Format.

Each machine is a process, with a thread for each of its job slots; one more process has the calls. Stages and
calls are complete events (`X`), with data from the log as arguments; times are microseconds since the first
call. Threads of a process are numbered from 1 in the order of the lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from nvccache import __version__
from nvccache.report.calls import Call, Stage
from nvccache.report.figures import CALLS, Lane, lay_out

_CALLS = 1  # the process of the calls
_LAST = 1 << 16  # sorts the calls below the slots, as on the page


def trace_of(calls: Sequence[Call]) -> dict[str, Any]:
    """The trace; the calls must be sorted by start."""
    lanes = lay_out(calls)
    threads = _threads(lanes.lanes)
    begun = calls[0].started if calls else 0.0
    events: list[dict[str, Any]] = [*_names(lanes.lanes, threads)]
    for call, lane, of_stages in zip(calls, lanes.of_calls, lanes.of_stages, strict=True):
        events.append(_of_call(call, begun, *threads[lane]))
        for stage, of_stage in zip(call.stages, of_stages, strict=True):
            events.append(_of_stage(call, stage, begun, *threads[of_stage]))
    _keep_apart(events)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"program": f"nvccache {__version__}", "begun": f"{begun:.6f}"},
    }


def _keep_apart(events: Sequence[dict[str, Any]]) -> None:
    """Cut stages that overlap the next one in their slot by the clocks' slack, for viewers to draw them."""
    threads: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in events:
        if event["ph"] == "X" and event["pid"] != _CALLS:
            threads.setdefault((event["pid"], event["tid"]), []).append(event)
    for own in threads.values():
        own.sort(key=lambda event: (event["ts"], event["dur"]))
        for event, later in pairwise(own):
            event["dur"] = min(event["dur"], later["ts"] - event["ts"])


def _threads(lanes: Sequence[Lane]) -> list[tuple[int, int]]:
    """Process and thread of each lane: process 1 is the calls, 2 this machine, then the others."""
    processes: dict[tuple[bool, str], int] = {(True, ""): _CALLS, (False, ""): 2}
    counts: dict[int, int] = {}
    found = []
    for lane in lanes:
        key = (lane.group == CALLS, lane.where)
        process = processes.setdefault(key, len(processes) + 1)
        counts[process] = counts.get(process, 0) + 1
        found.append((process, counts[process]))
    return found


def _names(lanes: Sequence[Lane], threads: Sequence[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    """Metadata events: the names and order of processes and threads."""
    named = set()
    for lane, (process, thread) in zip(lanes, threads, strict=True):
        if process not in named:
            named.add(process)
            title = "calls" if lane.group == CALLS else lane.where or "this machine"
            order = _LAST if lane.group == CALLS else process
            yield _metadata("process_name", process, 0, {"name": title})
            yield _metadata("process_sort_index", process, 0, {"sort_index": order})
        yield _metadata("thread_name", process, thread, {"name": lane.name})


def _metadata(name: str, process: int, thread: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": process, "tid": thread, "args": args}


def _of_call(call: Call, begun: float, process: int, thread: int) -> dict[str, Any]:
    args = {
        "outcome": call.outcome,
        "reason": call.reason,
        "cause": call.cause,
        "directory": call.directory,
        "product": call.product,
        "pid": call.pid,
        "tool_saved": call.tool_saved,
    }
    return _complete(
        call.name,
        f"call,{call.outcome}",
        (call.started - begun, call.seconds, process, thread),
        args,
    )


def _of_stage(call: Call, stage: Stage, begun: float, process: int, thread: int) -> dict[str, Any]:
    args: dict[str, Any] = {
        "result": stage.result,
        "why": stage.why,
        "source": call.source,
        "product": call.product,
        "slot": stage.slot,
        "where": stage.where,
    }
    if stage.away:
        args |= stage.away
    args["why_here"] = stage.why_here
    args["saved" if stage.is_found else "seconds"] = stage.saved or stage.seconds
    title = f"{stage.kind} {stage.architecture}".strip()
    # A hit takes no time, and must lie within its call.
    start = min(stage.start, call.seconds) if stage.is_found else stage.start
    when = (call.started - begun + start, 0.0 if stage.is_found else stage.lasted, process, thread)
    return _complete(title, f"stage,{stage.result}", when, args)


def _complete(
    name: str, category: str, when: tuple[float, float, int, int], args: dict[str, Any]
) -> dict[str, Any]:
    start, seconds, process, thread = when
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        # Both ends are rounded, so that adjacent events stay adjacent.
        "ts": _microseconds(start),
        "dur": _microseconds(start + seconds) - _microseconds(start),
        "pid": process,
        "tid": thread,
        "args": {key: value for key, value in args.items() if value != ""},
    }


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)
