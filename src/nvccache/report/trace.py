"""The calls as a trace for Perfetto and chrome://tracing: the JSON Object Format of the Trace Event Format.

Each machine is a process, with a thread for each of its job slots; one more process has the calls. Stages and
calls are complete events (`X`), with data from the log as arguments; times are microseconds since the first
call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvccache import __version__
from nvccache.plan.stages import shown_name
from nvccache.report.lanes import CALLS, lay_out
from nvccache.report.tables import title_of
from nvccache.store import events
from nvccache.store.event_line import Event


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
            # A hit takes no time, and must lie within its call.
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
