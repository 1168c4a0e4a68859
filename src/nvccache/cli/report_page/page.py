"""The report as one page of HTML that needs nothing beside it: style, scripts and data are in it.

A policy in its head lets no other script run and nothing be loaded, whatever the names of sources say.
"""

from __future__ import annotations

import base64
import hashlib
import string
from importlib import resources

from nvccache import __version__, outcomes
from nvccache.cli.report_page import columns, figures, page_parts
from nvccache.cli.report_page.html import text
from nvccache.cli.since import moment
from nvccache.cli.units import count_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvccache.cli.report_page.calls import Call
    from nvccache.cli.report_page.figures import Figures
    from nvccache.cli.report_page.kept import Kept

SCRIPTS = ("data.js", "paint.js", "timeline.js", "keys.js", "list.js", "page.js")  # in this order


def of(builds: Sequence[Sequence[Call]], kept: Kept | None, now: float) -> str:
    """The page for these builds, oldest first. `kept` is what the cache holds, where there is one at hand."""
    calls = [call for build in builds for call in build]
    told = figures.of(calls)
    script = "(() => {\n'use strict';\n" + "\n".join(_part(name) for name in SCRIPTS) + "\n})();\n"
    style = _part("page.css")
    return string.Template(_part("page.html")).substitute(
        script_hash=_hash(script),
        style=style,
        script=script,
        title=text(_title(builds)),
        when=text(_when(builds)),
        summary=page_parts.summary(told),
        outcomes=page_parts.outcome_table(told),
        stages=page_parts.stage_table(told),
        legend=page_parts.legend(),
        shown=text(_shown(len(calls))),
        sections=_sections(told, kept),
        data=columns.encode(builds, outcomes.REASONS | outcomes.STORE_FAULTS),
        version=text(__version__),
        made=text(_moment(now)),
    )


def _sections(told: Figures, kept: Kept | None) -> str:
    made = [
        page_parts.group(
            "slowest",
            "What took longest",
            (page_parts.source_table(told), page_parts.slowest_stage_table(told)),
            "No stage is known of these calls.",
        ),
        page_parts.group(
            "causes",
            "Why it missed",
            (page_parts.cause_table(told), page_parts.why_table(told)),
            "Nothing missed.",
        ),
        page_parts.group(
            "bypasses",
            "What the cache was not used for",
            (page_parts.reason_table(told), page_parts.fault_table(told), page_parts.setting_table(told)),
            "Every call went through the cache.",
        ),
    ]
    if kept is not None:
        tables = (page_parts.kind_table(kept), page_parts.age_table(kept))
        made.append(page_parts.group("kept", "What is kept", tables, ""))
    return "".join(made)


def _title(builds: Sequence[Sequence[Call]]) -> str:
    if not builds:
        return "No calls"
    if len(builds) > 1:
        return f"{len(builds)} builds, {_moment(builds[0][0].started)} to {_moment(builds[-1][0].started)}"
    return f"Build of {_moment(builds[0][0].started)}"


def _when(builds: Sequence[Sequence[Call]]) -> str:
    calls = [call for build in builds for call in build]
    directories = {call.directory for call in calls if call.directory}
    counted = count_words(len(calls), "call")
    return f"{counted} in {directories.pop()}" if len(directories) == 1 else counted


def _shown(count: int) -> str:
    if count <= columns.MOST_CALLS:
        return ""
    shown = f"The timeline and the list show the last {columns.MOST_CALLS:,} of {count:,} calls"
    return f"{shown}; the tables count all."


def _moment(seconds: float) -> str:
    return moment(seconds, "%-d %b %Y, %H:%M")


def _part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
