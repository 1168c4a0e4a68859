"""What a build reused, and why the rest ran: the headline of `stats`, `explain` and `report`.

*Saved* is CPU time of tools that did not run, *spent* that of tools that ran, *overhead* that of nvccache.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from nvccache import outcomes
from nvccache.cli.output import format_count, format_seconds
from nvccache.store import event_totals, events
from nvccache.store.event_line import Event

Figures = Mapping[str, Any]  # a JSON object, described in docs/reference/json.md
HITS = (outcomes.DIRECT_HIT, outcomes.STAGE_HIT)
UNCHANGED = "no input has changed"
_MOST_CAUSES = 4


def summarize(calls: Sequence[Event]) -> Figures:
    """The main totals of some calls."""
    totals = event_totals.total(calls)
    until = max((call.ended for call in calls), default=0.0)
    return {
        "calls": len(calls),
        "compiles": sum(map(events.is_compile, calls)),
        "hits": sum(totals["calls"][outcome] for outcome in HITS),
        "since": totals["since"],
        "until": round(until, 3),
        "elapsed": round(until - min((call.started for call in calls), default=until), 3),
        **{name: totals[name] for name in ("seconds_saved", "seconds_spent", "seconds_overhead")},
        "sent": totals["executor"]["sent"],
    }


def causes(calls: Sequence[Event]) -> list[dict[str, Any]]:
    """Why a build's compiles had their outcomes: the causes, the costliest first, each with its objects."""
    groups: dict[str, dict[str, Any]] = {}
    for call in filter(events.is_compile, calls):
        group = groups.setdefault(
            cause_of(call), {"cause": cause_of(call), "seconds_spent": 0.0, "objects": []}
        )
        group["seconds_spent"] += sum(map(events.tool_spent, call.stages))
        group["objects"].append(call.product or " ".join(call.sources))
    return sorted(groups.values(), key=lambda group: (-group["seconds_spent"], -len(group["objects"])))


def cause_of(call: Event) -> str:
    """Why a call had its outcome, according to the event log alone."""
    if call.outcome in (outcomes.DIRECT_HIT, outcomes.QUERY_HIT):
        return "a remote had the result" if call.remote and call.remote.found else UNCHANGED
    if call.outcome == outcomes.FAULT:
        return "nvccache itself failed; the log that `NVCCACHE_LOG` names has details"
    if call.outcome == outcomes.BYPASS:
        return outcomes.REASONS.get(call.reason, call.reason)
    if call.outcome == outcomes.FAILED:
        return "nvcc reports an error"
    if call.outcome == outcomes.QUERY_MISS:
        return call.cause or "no answer to this query with these inputs is recorded"
    return call.cause or "the cache no longer has a record of the call"


def headline(calls: Sequence[Event], is_with_cause: bool = True) -> str:
    """A line such as `4 compiles in 8.40 s, 54 % of compiler time reused; `sm_100` was added`."""
    if not calls:
        return "no compile is recorded"
    build, found = summarize(calls), causes(calls)
    text = f"{format_count(build['compiles'], 'compile')} in {format_seconds(build['elapsed'])}"
    if build["seconds_saved"] or build["seconds_spent"]:
        text += f", {reused(build)}"
    if not build["seconds_saved"] and build["seconds_overhead"]:
        text += f", {format_seconds(build['seconds_overhead'])} of overhead"
    has_cause = is_with_cause and found and found[0]["cause"] != UNCHANGED
    return text + (f"; {relative(found[0]['cause'])}" if has_cause else "")


def cause_lines(calls: Sequence[Event]) -> list[str]:
    """A line such as `3 objects: `common.h` changed` for each of the costliest causes."""
    found = causes(calls)
    shown = found if len(found) <= _MOST_CAUSES else found[: _MOST_CAUSES - 1]
    lines = [f"{format_count(len(each['objects']), 'object')}: {relative(each['cause'])}" for each in shown]
    if rest := found[len(shown) :]:
        objects = format_count(sum(len(each["objects"]) for each in rest), "object")
        lines.append(f"{objects}: {len(rest)} other causes (`nvccache report` lists them)")
    return lines


def reused(figures: Figures) -> str:
    """A clause such as `54 % of compiler time reused`."""
    return f"{share(figures)} of compiler time reused"


def share(figures: Figures) -> str:
    """The reused share of compiler time in percent, never rounded to 0 or 100 %."""
    saved, spent = figures["seconds_saved"], figures["seconds_spent"]
    percent = round(100 * saved / (saved + spent)) if saved + spent else 0
    return f"{min(max(percent, int(saved > 0)), 100 - int(spent > 0))} %"


def relative(sentence: str) -> str:
    """The sentence, with quoted paths below the working directory made relative to it."""
    return re.sub("(?<=`)" + re.escape(os.path.join(os.getcwd(), "")), "", sentence)
