"""Draws ratios to plain nvcc as groups of horizontal bars: a small SVG for light, dark and narrow pages."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

COLOURS = ("#2da44e", "#bf8700", "#a371f7")  # each at least 3:1 on white and on the dark background
_STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-size: 15px; font-weight: 600 }
.value, .note { font-size: 11px }
.page { fill: #ffffff }
.value { stroke: #ffffff; stroke-width: 3px; paint-order: stroke }
line { stroke: #6e7781; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .page { fill: #0d1117 }
  .value { stroke: #0d1117 }
  line { stroke: #8b949e }
}"""
_PAGE, _MARGIN, _BAR, _LABEL, _GAP, _TOP = 480, 12, 12, 18, 10, 92
_SHOWN = 640  # pixels wide if the page has room, for text of the same size as the page's


def drawing(
    title: str,
    note: str,
    baseline: str,
    versions: Mapping[str, str],
    groups: Mapping[str, Mapping[str, float]],
) -> str:
    """An SVG document from group -> series -> ratio to the baseline, which is a line at 1."""
    series = [name for name in next(iter(groups.values())) if name != baseline]
    most = max(1.0, *(max(values.values()) for values in groups.values()))
    scale = (_PAGE - 2 * _MARGIN - 34) / most  # 34: room for the number after the longest bar
    each = _LABEL + len(series) * _BAR + _GAP
    height = _TOP + len(groups) * each
    size = f'width="{_SHOWN}" height="{height * _SHOWN // _PAGE}" viewBox="0 0 {_PAGE} {height}"'
    one = _MARGIN + scale
    unit = escape(_named(baseline, versions))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(_described(groups))}</desc>",
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{_PAGE}" height="{height}" rx="6"/>',
        f'<text class="title" x="{_MARGIN}" y="24">{escape(title)}</text>',
        f'<text class="note" x="{_MARGIN}" y="42">{escape(note)}</text>',
        f'<line x1="{one:.1f}" y1="{_TOP - 8}" x2="{one:.1f}" y2="{height - _GAP}"/>',
        f'<text class="note" x="{one:.1f}" y="{_TOP - 12}" text-anchor="end">{unit} = 1</text>',
    ]
    x = _MARGIN
    for number, name in enumerate(series):
        shown = _named(name, versions)
        lines.append(f'<rect x="{x}" y="53" width="12" height="12" fill="{COLOURS[number]}"/>')
        lines.append(f'<text x="{x + 17}" y="64">{escape(shown)}</text>')
        x += 36 + 8 * len(shown)
    for number, (group, values) in enumerate(groups.items()):
        top = _TOP + number * each
        lines.append(f'<text x="{_MARGIN}" y="{top + 12}">{escape(group)}</text>')
        for place, name in enumerate(one for one in series if one in values):
            y, width = top + _LABEL + place * _BAR, max(values[name] * scale, 1)
            shown = f"{values[name]:.2f}" if values[name] >= 0.1 else f"{values[name]:.3f}"
            bar = f'width="{width:.1f}" height="{_BAR - 2}" fill="{COLOURS[series.index(name)]}"'
            lines.append(f'<rect x="{_MARGIN}" y="{y}" {bar}/>')
            lines.append(f'<text class="value" x="{_MARGIN + width + 4:.1f}" y="{y + 9}">{shown}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _named(name: str, versions: Mapping[str, str]) -> str:
    return f"{name} {versions.get(name, '')}".rstrip()


def _described(groups: Mapping[str, Mapping[str, float]]) -> str:
    """The chart as text, for screen readers."""
    return "; ".join(
        f"{group}: " + ", ".join(f"{name} {value:.3g}" for name, value in values.items())
        for group, values in groups.items()
    )
