"""The parts of the page that need no script: tables with bars as charts, and the legend of the timeline.

Every text in these pieces of HTML is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

from nvccache import outcomes
from nvccache.cli import builds
from nvccache.cli.output import format_seconds
from nvccache.log import printable
from nvccache.plan import stages
from nvccache.plan.stages import shown_name
from nvccache.store import event_totals
from nvccache.store.event_line import FAILED, HIT, RAN, SHARED, Event, StageEvent

_MOST_ROWS = 15
_NUMERIC = '<td class="n">'
OTHER = "other"  # the class in page.css of stages without a colour of their own
# The sign of each outcome and result; each name is also a class in page.css with a colour. Signs and patterns
# tell them apart without colours.
SIGNS = {
    "hit": "◆",
    "direct_hit": "◆",
    "stage_hit": "◇",
    "partial_hit": "◐",
    "miss": "●",
    "query_hit": "◊",
    "query_miss": "○",
    "shared": "▣",
    "failed": "✕",
    "bypass": "→",
    "fault": "!",
}


def text(value: str) -> str:
    return escape(printable(value), quote=True)


def result_of(stage: StageEvent) -> str:
    """The result of a stage; RAN in place of an unknown result, which a damaged log may contain."""
    return stage.result if stage.result in (HIT, SHARED, FAILED) else RAN


def class_of(stage: StageEvent) -> str:
    """The CSS class (page.css) that colours a stage that ran."""
    return FAILED if stage.result == FAILED else stage.kind if stage.kind in stages.counted() else OTHER


def title_of(call: Event) -> str:
    return " ".join(call.sources) or call.product or "a call without a source"


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """A table of cells in a scrollable frame; the first cell of a row is its heading.

    If the first cell of a column is a number, the whole column is right-aligned.
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


def _words(sentence: str) -> str:
    return f"<td>{with_code(sentence)}</td>"


def _path(path: str) -> str:
    """A cell with a path, which may be broken after slashes."""
    return f"<td><code>{_breakable(text(path))}</code></td>"


def _number(number: str) -> str:
    return f"{_NUMERIC}{text(number)}</td>"


def _bar(seconds: float, most: float, kind: str) -> str:
    """A cell with a duration, and a bar that is as long as its share of `most`."""
    width = min(100.0, 100 * seconds / most) if most > 0 else 0.0
    bar = f'<span class="bar"><i class="{kind}" style="width:{width:.1f}%"></i></span>'
    return f"{_NUMERIC}{text(format_seconds(seconds))}{bar}</td>"


def with_code(sentence: str) -> str:
    """Text between backquotes as code, with possible line breaks after slashes."""
    parts = enumerate(text(sentence).split("`"))
    return "".join(f"<code>{_breakable(part)}</code>" if number % 2 else part for number, part in parts)


def _breakable(path: str) -> str:
    return path.replace("/", "/<wbr>")


def stage_table(build: Sequence[Event]) -> str:
    kinds = dict.fromkeys((*stages.counted(), *(stage.kind for call in build for stage in call.stages)))
    counted = event_totals.total(build, kinds)["stages"].items()
    totals = {kind: one for kind, one in counted if any(one.values())}
    most = max((max(one["seconds"], one["seconds_saved"]) for one in totals.values()), default=0.0)
    rows = [
        [
            _words(shown_name(kind)),
            _number(f"{one['miss']:,}"),
            _number(f"{one['hit'] + one['replayed']:,}"),
            _bar(one["seconds"], most, "miss"),
            _bar(one["seconds_saved"], most, "hit"),
        ]
        for kind, one in totals.items()
    ]
    note = "Compiler time is CPU time of the tools."
    return table("Stages", ("stage", "ran", "reused", "spent", "saved"), rows, note)


def slowest_table(build: Sequence[Event]) -> str:
    """The stages that took longest."""
    ran = [(call, stage) for call in build for stage in call.stages if not stage.is_hit]
    longest = sorted(ran, key=lambda one: -one[1].seconds)[:_MOST_ROWS]
    most = max((stage.seconds for _, stage in longest), default=0.0)
    rows = [
        [
            _words(shown_name(stage.kind, stage.architecture)),
            _bar(stage.seconds, most, class_of(stage)),
            _path(title_of(call)),
            _number(format_seconds(call.started - build[0].started + stage.start)),
        ]
        for call, stage in longest
    ]
    note = f"The {len(longest)} longest of {len(ran):,} stages." if len(ran) > len(longest) else ""
    return table("Stages that took longest", ("stage", "took", "source or output", "began at"), rows, note)


def cause_table(build: Sequence[Event]) -> str:
    causes = [each for each in builds.causes(build) if each["cause"] != builds.UNCHANGED]
    most = max((each["seconds_spent"] for each in causes), default=0.0)
    rows = [
        [
            _words(each["cause"]),
            _number(f"{len(each['objects']):,}"),
            _bar(each["seconds_spent"], most, "miss"),
            _path(each["objects"][0]),
        ]
        for each in causes[:_MOST_ROWS]
    ]
    heads = ("cause", "objects", "compiler time", "for instance")
    note = f"The first {_MOST_ROWS} of {len(causes)} causes." if len(causes) > _MOST_ROWS else ""
    return table("Why compiles were not direct hits", heads, rows, note)


def legend(build: Sequence[Event]) -> str:
    """What colours, patterns and signs mean, and how often each occurs."""
    found = Counter(
        result_of(each) if each.is_hit else class_of(each) for call in build for each in call.stages
    )
    called = Counter(call.outcome for call in build)
    names = {kind: shown_name(kind) for kind in stages.counted()}
    of_stages = [(kind, names.get(kind, kind), found[kind]) for kind in (*names, OTHER, FAILED, HIT, SHARED)]
    of_calls = [(kind, readable(kind), called[kind]) for kind in dict.fromkeys((*outcomes.OUTCOMES, *called))]
    return _legend("Stages", of_stages) + _legend("Calls", of_calls)


def readable(word: str) -> str:
    return word.replace("_", " ")


def _legend(title: str, counted: Iterable[tuple[str, str, int]]) -> str:
    items = [
        f'<li><span class="sign {kind if kind.isidentifier() else OTHER}" aria-hidden="true">'
        f"{SIGNS.get(kind, '')}</span>{text(name)} {count:,}</li>"
        for kind, name, count in counted
        if count
    ]
    return f"<li><b>{text(title)}</b><ul>{''.join(items)}</ul></li>" if items else ""


def group(identifier: str, title: str, tables: str, nothing: str) -> str:
    """A section with tables, or with the text `nothing` if there are none."""
    return (
        f'<section aria-labelledby="{identifier}"><h2 id="{identifier}">{text(title)}</h2>'
        f'<div class="tables wide">{tables or f"<p>{text(nothing)}</p>"}</div></section>'
    )
