"""Pieces of HTML, in which every text is escaped: tables with bars in their cells, and signs of outcomes."""

from __future__ import annotations

import html
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# What a call or a stage came to: its class in page.css, where it has a colour, and the sign beside it. The
# sign and the pattern in the timeline tell the same without the colour.
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
}


@dataclass(frozen=True, slots=True)
class Number:
    """A cell with a number, as it is shown, and how long its bar is (0 to 1; without one if None)."""

    text: str
    part: float | None = None
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A cell with a text; `code` for paths, which may be broken anywhere."""

    text: str
    code: bool = False
    mark: str = ""


Cell = Number | Text


def text(value: str) -> str:
    return html.escape(value, quote=True)


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Cell]], note: str = "") -> str:
    """A table in a frame that scrolls where there is no room; the first cell of a row is its heading.

    A column is one of numbers if that is what its first cell is.
    """
    listed = [list(row) for row in rows]
    if not listed:
        return ""
    classes = ["n" if isinstance(cell, Number) else "" for cell in listed[0]]
    head = "".join(
        f'<th scope="col"{_class(kind)}>{text(title)}</th>'
        for title, kind in zip(heads, classes, strict=True)
    )
    body = "".join(f"<tr>{_row(row)}</tr>" for row in listed)
    about = f"<small>{text(note)}</small>" if note else ""
    return (
        f'<div class="frame" tabindex="0" role="region" aria-label="{text(caption)}">'
        f"<table><caption><span>{text(caption)}{about}</span></caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def mark(word: str) -> str:
    """The sign of an outcome or a result; what it means stands beside it in words."""
    sign = SIGNS.get(word)
    return f'<span class="sign {text(word)}" aria-hidden="true">{sign}</span>' if sign else ""


def _row(row: Sequence[Cell]) -> str:
    cells = "".join(_cell(cell, "td") for cell in row[1:])
    return _cell(row[0], "th") + cells


def _cell(cell: Cell, tag: str) -> str:
    scope = ' scope="row"' if tag == "th" else ""
    if isinstance(cell, Text):
        shown = f"<code>{_breakable(cell.text)}</code>" if cell.code else text(cell.text)
        return f"<{tag}{scope}>{mark(cell.mark)}{shown}</{tag}>"
    bar = ""
    if cell.part is not None:
        # Rounded up, so that what is there shows.
        width = min(100.0, max(0.0, 100 * cell.part))
        bar = f'<span class="bar"><i class="{text(cell.mark)}" style="width:{width:.1f}%"></i></span>'
    return f'<{tag}{scope} class="n">{text(cell.text)}{bar}</{tag}>'


def _breakable(path: str) -> str:
    """Lines of a path end behind a slash rather than anywhere."""
    return text(path).replace("/", "/<wbr>")


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
