"""The report as one self-contained HTML page, with style, scripts and data.

A content security policy allows no other scripts and no loading, whatever names of sources contain. The data
is columns of small integers, with each text once: 40,000 stages take about a megabyte. Times are in tenths of
milliseconds, of calls from the first call, of stages from their call.
"""

from __future__ import annotations

import base64
import hashlib
import json
import string
from collections.abc import Sequence
from importlib import resources

from nvccache import __version__, outcomes
from nvccache.cli.units import format_count, moment
from nvccache.plan.stages import shown_name
from nvccache.report import figures, headline, page_parts, verdict
from nvccache.report.calls import Call
from nvccache.report.figures import Figures
from nvccache.report.lanes import lay_out
from nvccache.report.page_parts import text
from nvccache.report.verdict import Link, Verdict

SCRIPTS = ("data.js", "paint.js", "timeline.js", "keys.js", "list.js", "page.js")  # in this order
MOST_CALLS = 20_000  # drawn and listed one by one
_A_SECOND = 10_000
_CALL_TEXTS = ("outcome", "reason", "directory", "source", "product", "cause")
_STAGE_TEXTS = ("result", "why", "where")


def of(build: Sequence[Call], now: float, before: Sequence[Call] = (), cores: int = 0) -> str:
    """The page for a build. If known: `before` is the previous one, `cores` how many the calls could use."""
    found = figures.of(build)
    why = verdict.of(build, cores)
    script = "(() => {\n'use strict';\n" + "\n".join(_part(name) for name in SCRIPTS) + "\n})();\n"
    style = _part("page.css")
    return string.Template(_part("page.html")).substitute(
        script_hash=_hash(script),
        style=style,
        script=script,
        title=text(f"Build of {_moment(build[0].started)}" if build else "No calls"),
        when=text(format_count(len(build), "call")),
        verdict=headline.opening(found, why),
        summary=headline.summary(found, figures.of(before) if before else None),
        outcomes=page_parts.outcome_table(found),
        stages=page_parts.stage_table(found),
        legend=page_parts.legend(),
        shown=text(_shown(len(build))),
        sections=_sections(found, why, build[0].started if build else 0.0),
        data=encode(build, outcomes.REASONS | outcomes.STORE_FAULTS, why.path),
        version=text(__version__),
        made=text(_moment(now)),
    )


def _sections(found: Figures, why: Verdict, begun: float) -> str:
    slowest = (
        page_parts.path_table(why, begun),
        page_parts.source_table(found),
        page_parts.slowest_stage_table(found),
    )
    made = [
        page_parts.group(
            "slowest",
            "What took longest",
            slowest,
            "Nothing ran.",
        ),
        page_parts.group(
            "causes",
            "Why it missed",
            (page_parts.cause_table(found), page_parts.why_table(found)),
            "Nothing missed.",
        ),
        page_parts.group(
            "bypasses",
            "What the cache was not used for",
            (page_parts.reason_table(found), page_parts.fault_table(found), page_parts.setting_table(found)),
            "Every call went through the cache.",
        ),
    ]
    return "".join(made)


def _shown(count: int) -> str:
    if count <= MOST_CALLS:
        return ""
    shown = f"The timeline and the list show the last {MOST_CALLS:,} of {count:,} calls"
    return f"{shown}; the tables count all."


def _moment(seconds: float) -> str:
    return moment(seconds, "%-d %b %Y, %H:%M")


def _part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")


def encode(build: Sequence[Call], sentences: dict[str, str], path: Sequence[Link] = ()) -> str:
    """The newest calls as JSON for a script element.

    `sentences` explain reasons; `path` is the critical path.
    """
    calls = build[-MOST_CALLS:]
    lanes = lay_out(calls)
    begun = calls[0].started if calls else 0.0
    texts: dict[str, int] = {}

    def number_of(text: str) -> int:
        return texts.setdefault(text, len(texts))

    stages = [stage for call in calls for stage in call.stages]
    numbers = {id(item): number for number, item in enumerate((*stages, *calls))}
    made = {
        "begun": begun,
        "calls": {name: [number_of(getattr(call, name)) for call in calls] for name in _CALL_TEXTS}
        | {
            "start": [_units(call.started - begun) for call in calls],
            "seconds": [_units(call.seconds) for call in calls],
            "saved": [_units(call.tool_saved) for call in calls],
            "lane": lanes.of_calls,
            "stages": [len(call.stages) for call in calls],
        },
        "stages": {name: [number_of(getattr(stage, name)) for stage in stages] for name in _STAGE_TEXTS}
        | {
            "name": [number_of(shown_name(stage.kind, stage.architecture)) for stage in stages],
            "start": [_units(stage.start) for stage in stages],
            "seconds": [_units(stage.saved or stage.seconds) for stage in stages],
            "lane": [lane for of_call in lanes.of_stages for lane in of_call],
        },
        "away": [
            [number, _units(stage.lasted), number_of(page_parts.further_text(stage))]
            for number, stage in enumerate(stages)
            if stage.away or stage.why_here or stage.in_vain
        ],
        "path": [numbers[id(item)] for link in path if id(item := link.stage or link.call) in numbers],
        "lanes": [[lane.group, lane.name] for lane in lanes.lanes],
        "sentences": sentences,
        "texts": list(texts),
    }
    # A source named `</script>` must not end the element, nor `<!--` change where it ends.
    return json.dumps(made, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _units(seconds: float) -> int:
    return round(seconds * _A_SECOND)
