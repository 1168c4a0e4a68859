"""The tables of the page, with bars as charts, and its legend; they need no script.

Every text in these pieces of HTML is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from nvccache import outcomes
from nvccache.cli.output import format_count, format_seconds, format_size
from nvccache.plan.stages import shown_name
from nvccache.report.calls import RESULTS, Stage
from nvccache.report.figures import Figures, Link
from nvccache.store.event_line import SHARED

_LEAST_PART = 0.01  # of the critical path, for a link to be listed
_MOST_ROWS = 15
_UNKNOWN = "a reason of another version of nvccache"
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


@dataclass(frozen=True, slots=True)
class Number:
    """A cell with a formatted number, and the length of its bar (0 to 1; None for no bar)."""

    text: str
    part: float | None = None
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A cell with a text; `code` for paths, which may be broken after slashes."""

    text: str
    code: bool = False
    mark: str = ""


Cell = Number | Text


def text(value: str) -> str:
    return escape(value, quote=True)


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Cell]], note: str = "") -> str:
    """A table in a scrollable frame; the first cell of a row is its heading.

    A column is numeric if its first cell is.
    """
    listed = [list(row) for row in rows]
    if not listed:
        return ""
    classes = [' class="n"' if isinstance(cell, Number) else "" for cell in listed[0]]
    head = "".join(
        f'<th scope="col"{kind}>{text(title)}</th>' for title, kind in zip(heads, classes, strict=True)
    )
    cells = [[_cell(row[0], "th"), *(_cell(cell, "td") for cell in row[1:])] for row in listed]
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
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


def _cell(cell: Cell, tag: str) -> str:
    scope = ' scope="row"' if tag == "th" else ""
    if isinstance(cell, Text):
        shown = f"<code>{_breakable(text(cell.text))}</code>" if cell.code else with_code(cell.text)
        return f"<{tag}{scope}>{mark(cell.mark)}{shown}</{tag}>"
    bar = ""
    if cell.part is not None:
        width = min(100.0, max(0.0, 100 * cell.part))
        bar = f'<span class="bar"><i class="{text(cell.mark)}" style="width:{width:.1f}%"></i></span>'
    return f'<{tag}{scope} class="n">{text(cell.text)}{bar}</{tag}>'


def with_code(sentence: str) -> str:
    """Text between backquotes as code, with possible line breaks after slashes."""
    parts = enumerate(text(sentence).split("`"))
    return "".join(f"<code>{_breakable(part)}</code>" if number % 2 else part for number, part in parts)


def _breakable(path: str) -> str:
    return path.replace("/", "/<wbr>")


def outcome_table(figures: Figures) -> str:
    rows: list[list[Cell]] = []
    for outcome, count in figures.by_outcome.items():
        part = count / figures.calls if figures.calls else 0.0
        if count:
            rows.append(
                [
                    Text(readable(outcome), mark=outcome),
                    Number(f"{count:,}", part, outcome),
                    Number(f"{100 * part:.1f} %"),
                ]
            )
    return table("Calls by outcome", ("outcome", "calls", "share"), rows)


def stage_table(figures: Figures) -> str:
    most = max((max(tally.spent, tally.saved) for tally in figures.stages.values()), default=0.0)
    tallies = figures.stages.values()
    results = [result for result in RESULTS if any(tally.results[result] for tally in tallies)]
    rows: list[list[Cell]] = [
        [
            Text(shown_name(kind)),
            *(Number(f"{tally.results[result]:,}") for result in results),
            _bar(tally.spent, most, "ran"),
            _bar(tally.saved, most, "hit"),
        ]
        for kind, tally in figures.stages.items()
    ]
    note = "Compiler time: CPU time of the tools."
    if SHARED in results:
        note += " Shared: another process was running the same stage, and its result was taken."
    return table("Stages", ("stage", *results, "spent", "saved"), rows, note)


def source_table(figures: Figures) -> str:
    most = max((tally.spent for tally in figures.sources.values()), default=0.0)
    rows: list[list[Cell]] = [
        [
            Text(source, code=True),
            Number(f"{tally.count:,}"),
            _bar(tally.spent, most, "ran"),
            Number(duration(tally.saved)),
        ]
        for source, tally in list(figures.sources.items())[:_MOST_ROWS]
    ]
    heads = ("source", "calls", "compiler time", "avoided")
    return table("Slowest sources", heads, rows, _of(len(figures.sources), "source"))


def path_table(path: Sequence[Link], begun: float) -> str:
    """The longest links of the critical path, in order of time."""
    total = sum(link.seconds for link in path)
    worth = (link for link in path if link.seconds >= _LEAST_PART * total)
    longest = sorted(worth, key=lambda link: -link.seconds)[:_MOST_ROWS]
    most = max((link.seconds for link in longest), default=0.0)
    rows: list[list[Cell]] = [
        [
            Text(_with_machine(link.stage) if link.stage else readable(link.kind), mark=_mark_of(link)),
            _bar(link.seconds, most, _mark_of(link)),
            Text(link.call.name, code=True),
            Number(duration(link.started - begun)),
            Number(duration(link.waited)),
        ]
        for link in sorted(longest, key=lambda link: link.started)
    ]
    note = "Found from times: each link began when the one before it had ended."
    if len(longest) < len(path):
        note += f" The longest of {len(path)} are shown."
    return table("Critical path", ("link", "took", "source or output", "began at", "waited"), rows, note)


def _mark_of(link: Link) -> str:
    return link.stage.result if link.stage else link.call.outcome


def _with_machine(stage: Stage) -> str:
    """`cicc compute_80 on grpc://host:50051`."""
    name = shown_name(stage.kind, stage.architecture)
    return f"{name} on {stage.where}" if stage.away else name


def remote_text(stage: Stage) -> str:
    """A stage's costs on another machine, or why it ran here although it was sent; or empty."""
    if stage.why_here:
        why = outcomes.EXECUTOR_FAULTS.get(stage.why_here, stage.why_here)
        return f"sent to another machine, but run here: {why}"
    costs = stage.away
    if not costs:
        return ""
    parts = ("send", "fetch") if costs["is_cached"] else ("queue", "send", "run", "fetch")
    spent = ", ".join(f"{part} {duration(costs[part])}" for part in parts)
    sent, fetched = (format_size(int(costs[name])) for name in ("sent_bytes", "fetched_bytes"))
    source = "from the action cache of the engine: " if costs["is_cached"] else ""
    return f"{source}{spent}; {sent} sent, {fetched} fetched"


def cause_table(figures: Figures) -> str:
    most = max((tally.spent for tally in figures.causes.values()), default=0.0)
    rows: list[list[Cell]] = [
        [
            Text(cause),
            Number(f"{tally.count:,}"),
            _bar(tally.spent, most, "ran"),
            Text(tally.example, code=True),
        ]
        for cause, tally in list(figures.causes.items())[:_MOST_ROWS]
    ]
    heads = ("cause", "calls", "compiler time", "for instance")
    return table("Why calls were no direct hits", heads, rows, _of(len(figures.causes), "cause"))


def reason_table(figures: Figures) -> str:
    rows: list[list[Cell]] = [
        [
            Text(word, code=True),
            Number(f"{tally.count:,}"),
            Text(outcomes.REASONS.get(word, _UNKNOWN)),
            Text(tally.example, code=True),
        ]
        for word, tally in figures.reasons.items()
    ]
    heads = ("reason", "calls", "what it means", "for instance")
    return table("Bypasses: nvcc ran by itself", heads, rows)


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


def duration(seconds: float) -> str:
    """Milliseconds below a second."""
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms" if seconds >= 0.0005 else "0 s"
    return format_seconds(seconds)


def percent(part: float | None) -> str:
    return f"{100 * part:.1f} %" if part is not None else "\N{EN DASH}"


def _bar(seconds: float, most: float, kind: str) -> Number:
    return Number(duration(seconds), seconds / most if most > 0 else 0.0, kind)


def _of(total: int, noun: str) -> str:
    return f"The first {_MOST_ROWS} of {format_count(total, noun)}." if total > _MOST_ROWS else ""


def _legend(title: str, names: dict[str, str]) -> str:
    items = "".join(f"<li>{mark(word)}{text(name)}</li>" for word, name in names.items())
    return f"<li><b>{text(title)}</b><ul>{items}</ul></li>"


def group(identifier: str, title: str, tables: str, nothing: str) -> str:
    """A section of tables; the text `nothing` if there are none."""
    return (
        f'<section aria-labelledby="{identifier}"><h2 id="{identifier}">{text(title)}</h2>'
        f'<div class="tables wide">{tables or f"<p>{text(nothing)}</p>"}</div></section>'
    )
