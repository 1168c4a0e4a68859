"""The tables of the page, with bars as charts, and its legend; they need no script.

Every text in these pieces of HTML is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from nvccache import outcomes
from nvccache.cli import builds
from nvccache.cli.output import duration, format_size
from nvccache.plan.stages import shown_name
from nvccache.report.calls import RESULTS, title_of
from nvccache.report.figures import Link, Tally
from nvccache.store import events
from nvccache.store.event_line import SHARED, Event, StageEvent

_LEAST_PART = 0.01  # of the critical path, for a link to be listed
_MOST_ROWS = 15
_NUMERIC = '<td class="n">'
# The sign of each outcome and result, which is also a class in page.css with a colour. Signs and patterns
# show the same without colour.
SIGNS = {
    "hit": "◆",
    "direct_hit": "◆",
    "stage_hit": "◇",
    "partial_hit": "◐",
    "miss": "●",
    "query_hit": "◊",
    "query_miss": "○",
    "ran": "●",
    "shared": "▣",
    "failed": "✕",
    "bypass": "→",
    "fault": "!",
    "path": "▁",
}


def text(value: str) -> str:
    return escape(value, quote=True)


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """A table of cells in a scrollable frame; the first cell of a row is its heading.

    A column is numeric if its first cell is.
    """
    listed = [list(row) for row in rows]
    if not listed:
        return ""
    classes = [' class="n"' if cell.startswith(_NUMERIC) else "" for cell in listed[0]]
    head = "".join(
        f'<th scope="col"{kind}>{text(title)}</th>' for title, kind in zip(heads, classes, strict=True)
    )
    body = ""
    for first, *cells in listed:
        heading = '<th scope="row">' + first.removeprefix("<td>").removesuffix("</td>") + "</th>"
        body += f"<tr>{heading}{''.join(cells)}</tr>"
    about = f"<small>{text(note)}</small>" if note else ""
    return (
        f'<div class="frame" tabindex="0" role="region" aria-label="{text(caption)}">'
        f"<table><caption><span>{text(caption)}{about}</span></caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def mark(word: str) -> str:
    """The sign of an outcome or a result, hidden from screen readers: the text next to it says the same."""
    sign = SIGNS.get(word)
    return f'<span class="sign {text(word)}" aria-hidden="true">{sign}</span>' if sign else ""


def _words(sentence: str, sign: str = "") -> str:
    """A cell with a text."""
    return f"<td>{mark(sign)}{with_code(sentence)}</td>"


def _path(path: str) -> str:
    """A cell with a path, which may be broken after slashes."""
    return f"<td><code>{_breakable(text(path))}</code></td>"


def _number(number: str, part: float | None = None, kind: str = "") -> str:
    """A cell with a formatted number, and a bar of that length (0 to 1; None for no bar)."""
    bar = ""
    if part is not None:
        width = min(100.0, max(0.0, 100 * part))
        bar = f'<span class="bar"><i class="{text(kind)}" style="width:{width:.1f}%"></i></span>'
    return f"{_NUMERIC}{text(number)}{bar}</td>"


def _bar(seconds: float, most: float, kind: str) -> str:
    return _number(duration(seconds), seconds / most if most > 0 else 0.0, kind)


def with_code(sentence: str) -> str:
    """Text between backquotes as code, with possible line breaks after slashes."""
    parts = enumerate(text(sentence).split("`"))
    return "".join(f"<code>{_breakable(part)}</code>" if number % 2 else part for number, part in parts)


def _breakable(path: str) -> str:
    return path.replace("/", "/<wbr>")


def outcome_table(build: Sequence[Event]) -> str:
    counts = Counter(call.outcome for call in build)
    rows: list[list[str]] = [
        [
            _words(readable(outcome), outcome),
            _number(f"{counts[outcome]:,}", counts[outcome] / len(build), outcome),
            _number(f"{100 * counts[outcome] / len(build):.1f} %"),
        ]
        for outcome in dict.fromkeys((*outcomes.OUTCOMES, *counts))
        if counts[outcome]
    ]
    return table("Calls by outcome", ("outcome", "calls", "share"), rows)


def stage_table(stages: Mapping[str, Tally]) -> str:
    most = max((max(tally.spent, tally.saved) for tally in stages.values()), default=0.0)
    tallies = stages.values()
    results = [result for result in RESULTS if any(tally.results[result] for tally in tallies)]
    rows: list[list[str]] = [
        [
            _words(shown_name(kind)),
            *(_number(f"{tally.results[result]:,}") for result in results),
            _bar(tally.spent, most, "ran"),
            _bar(tally.saved, most, "hit"),
        ]
        for kind, tally in stages.items()
    ]
    note = "Compiler time: CPU time of the tools."
    if SHARED in results:
        note += " Shared: another process was running the same stage, and its result was taken."
    return table("Stages", ("stage", *results, "spent", "saved"), rows, note)


def path_table(path: Sequence[Link], begun: float) -> str:
    """The longest links of the critical path, in order of time."""
    total = sum(link.seconds for link in path)
    worth = (link for link in path if link.seconds >= _LEAST_PART * total)
    longest = sorted(worth, key=lambda link: -link.seconds)[:_MOST_ROWS]
    most = max((link.seconds for link in longest), default=0.0)
    rows: list[list[str]] = [
        [
            _words(_with_machine(link.stage) if link.stage else readable(link.kind), _mark_of(link)),
            _bar(link.seconds, most, _mark_of(link)),
            _path(title_of(link.call)),
            _number(duration(link.started - begun)),
            _number(duration(link.waited)),
        ]
        for link in sorted(longest, key=lambda link: link.started)
    ]
    note = "Found from times: each link began when the one before it had ended."
    if len(longest) < len(path):
        note += f" The longest of {len(path)} are shown."
    return table("Critical path", ("link", "took", "source or output", "began at", "waited"), rows, note)


def _mark_of(link: Link) -> str:
    return link.stage.result if link.stage else link.call.outcome


def _with_machine(stage: StageEvent) -> str:
    """`cicc compute_80 on grpc://host:50051`."""
    name = shown_name(stage.kind, stage.architecture)
    return f"{name} on {stage.where}" if events.remote_costs(stage) else name


def remote_text(stage: StageEvent) -> str:
    """A stage's costs on another machine, or why it ran here although it was sent; or empty."""
    if why := events.why_here(stage):
        return f"sent to another machine, but run here: {outcomes.EXECUTOR_FAULTS.get(why, why)}"
    costs = events.remote_costs_json(stage)
    if not costs:
        return ""
    parts = ("send", "fetch") if costs["is_cached"] else ("queue", "send", "run", "fetch")
    spent = ", ".join(f"{part} {duration(costs[part])}" for part in parts)
    sent, fetched = (format_size(int(costs[name])) for name in ("sent_bytes", "fetched_bytes"))
    source = "from the action cache of the engine: " if costs["is_cached"] else ""
    return f"{source}{spent}; {sent} sent, {fetched} fetched"


def cause_table(build: Sequence[Event]) -> str:
    causes = [each for each in builds.causes(build) if each["cause"] != builds.UNCHANGED]
    most = max((each["seconds_spent"] for each in causes), default=0.0)
    rows: list[list[str]] = [
        [
            _words(each["cause"]),
            _number(f"{len(each['objects']):,}"),
            _bar(each["seconds_spent"], most, "ran"),
            _path(each["objects"][0]),
        ]
        for each in causes[:_MOST_ROWS]
    ]
    heads = ("cause", "objects", "compiler time", "for instance")
    note = f"The first {_MOST_ROWS} of {len(causes)} causes." if len(causes) > _MOST_ROWS else ""
    return table("Why compiles were no direct hits", heads, rows, note)


def legend() -> str:
    """What the colours, patterns and signs of the timeline mean."""
    stages = {"ran": "ran", "failed": "failed", "hit": "hit", "shared": "shared with another process"}
    calls = "direct_hit stage_hit partial_hit miss query_hit query_miss failed bypass fault".split()
    return (
        _legend("Stages", stages)
        + _legend("Calls", {word: readable(word) for word in calls})
        + _legend("Also", {"path": "critical path"})
    )


def readable(word: str) -> str:
    return word.replace("_", " ")


def _legend(title: str, names: dict[str, str]) -> str:
    items = "".join(f"<li>{mark(word)}{text(name)}</li>" for word, name in names.items())
    return f"<li><b>{text(title)}</b><ul>{items}</ul></li>"


def group(identifier: str, title: str, tables: str, nothing: str) -> str:
    """A section of tables; the text `nothing` if there are none."""
    return (
        f'<section aria-labelledby="{identifier}"><h2 id="{identifier}">{text(title)}</h2>'
        f'<div class="tables wide">{tables or f"<p>{text(nothing)}</p>"}</div></section>'
    )
