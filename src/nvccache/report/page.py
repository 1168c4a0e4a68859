"""The report as one self-contained HTML page, with style, scripts and data.

A content security policy forbids other scripts and all loading, so that names of sources cannot do harm. The
data is columns of small integers, and has each text once, so that 40,000 stages take about a megabyte. Times
are in tenths of a millisecond: of calls since the first call, of stages since the start of their call.
"""

from __future__ import annotations

import base64
import hashlib
import json
import string
from collections.abc import Sequence
from importlib import resources

from nvccache import __version__, outcomes
from nvccache.cli import builds
from nvccache.cli.output import format_count, format_seconds, format_time
from nvccache.log import printable
from nvccache.plan.stages import shown_name
from nvccache.report import tables
from nvccache.report.lanes import lay_out, most_at_once
from nvccache.report.tables import text, with_code
from nvccache.store import events
from nvccache.store.event_line import Event

SCRIPTS = ("data.js", "paint.js", "timeline.js", "keys.js", "list.js", "page.js")  # in this order
MOST_CALLS = 20_000  # the most that the timeline and the list show
_A_SECOND = 10_000
_CALL_TEXTS = ("outcome", "reason", "directory", "product", "cause")


def render(build: Sequence[Event], before: Sequence[Event], now: float) -> str:
    """The page for a build, compared with the previous build."""
    headline = builds.headline(build)
    script = "(() => {\n'use strict';\n" + "\n".join(_part(name) for name in SCRIPTS) + "\n})();\n"
    return string.Template(_part("page.html")).substitute(
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        style=_part("page.css"),
        script=script,
        title=text(f"Build of {_moment(build[0].started)}" if build else "No calls"),
        when=text(format_count(len(build), "call")),
        verdict=with_code(headline[0].upper() + headline[1:]),
        summary=_summary(build, before),
        causes=tables.group("causes", "Why it missed", tables.cause_table(build), "No compile was a miss."),
        legend=tables.legend(build),
        shown=text(_shown(len(build))),
        slowest=tables.group("slowest", "What took longest",
                             tables.slowest_table(build) + tables.stage_table(build), "Nothing ran."),
        data=encode(build, outcomes.REASONS),
        version=text(__version__),
        made=text(_moment(now)),
    )  # fmt: skip


def _summary(build: Sequence[Event], before: Sequence[Event]) -> str:
    """The main figures in large type, with explanations."""
    totals = builds.summarize(build)
    elapsed, ran = totals["elapsed"], [each for call in build for each in call.stages if not each.is_hit]
    at_once = sum(stage.seconds for stage in ran) / elapsed if elapsed else 0.0
    ago = f"; the previous build took {format_seconds(builds.summarize(before)['elapsed'])}" if before else ""
    tiles = (
        ("elapsed", format_seconds(elapsed), f"from the first call to the last{ago}"),
        ("reused", builds.share(totals), "of compiler time, which is CPU time of tools"),
        ("saved", format_seconds(totals["seconds_saved"]), "compiler time of tools that did not run"),
        ("spent", format_seconds(totals["seconds_spent"]), "compiler time of tools that ran"),
        ("overhead", format_seconds(totals["seconds_overhead"]), "CPU time of nvccache itself"),
        ("in parallel", f"{at_once:.1f}", f"tools at work on average, and {most_at_once(build)} at most"),
    )
    return "".join(
        f"<div><dt>{name}</dt><dd><b>{value}</b><span>{about}</span></dd></div>"
        for name, value, about in tiles
    )


def _shown(count: int) -> str:
    if count <= MOST_CALLS:
        return ""
    shown = f"The timeline and the list show the last {MOST_CALLS:,} of {count:,} calls"
    return f"{shown}; the tables count all."


def _moment(seconds: float) -> str:
    return format_time(seconds, "%-d %b %Y, %H:%M")


def _part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def encode(build: Sequence[Event], sentences: dict[str, str]) -> str:
    """The newest calls as JSON for a script element; `sentences` has a sentence for each bypass reason."""
    calls = build[-MOST_CALLS:]
    lanes = lay_out(calls)
    begun = calls[0].started if calls else 0.0
    texts: dict[str, int] = {}

    def number_of(text: str) -> int:
        return texts.setdefault(printable(text), len(texts))

    stages = [stage for call in calls for stage in call.stages]
    columns = {
        "begun": begun,
        "calls": {name: [number_of(getattr(call, name)) for call in calls] for name in _CALL_TEXTS}
        | {
            "source": [number_of(" ".join(call.sources)) for call in calls],
            "start": [_units(call.started - begun) for call in calls],
            "seconds": [_units(call.seconds) for call in calls],
            "saved": [_units(call.tool_saved) for call in calls],
            "overhead": [_units(events.overhead(call)) for call in calls],
            "lane": lanes.of_calls,
            "stages": [len(call.stages) for call in calls],
        },
        "stages": {
            "result": [number_of(tables.result_of(stage)) for stage in stages],
            "kind": [number_of(tables.class_of(stage)) for stage in stages],
            "name": [number_of(shown_name(stage.kind, stage.architecture)) for stage in stages],
            "start": [_units(stage.start) for stage in stages],
            "seconds": [_units(stage.cost if stage.is_hit else stage.seconds) for stage in stages],
            "lasted": [_units(stage.seconds) for stage in stages],
            "lane": [lane for of_call in lanes.of_stages for lane in of_call],
        },
        "lanes": [[lane.group, printable(lane.name)] for lane in lanes.lanes],
        "sentences": sentences,
        "texts": list(texts),
    }
    # Escaped, so that a source named `</script>` or `<!--` cannot end the element too early or too late.
    return json.dumps(columns, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _units(seconds: float) -> int:
    return round(seconds * _A_SECOND)
