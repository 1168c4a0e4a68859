"""Draws groups of horizontal bars as a small SVG that reads in light and dark."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

COLOURS = ("#8b949e", "#3fb950", "#d29922", "#a371f7")
_STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600 }
.value { font-size: 11px }
line { stroke: #d0d7de }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } line { stroke: #444c56 } }"""
_LEFT, _WIDTH, _BAR, _GAP, _TOP = 190, 470, 12, 14, 58


def drawing(title: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """Group -> series -> its value, as an SVG document."""
    series = list(next(iter(groups.values())))
    most = max(max(values.values()) for values in groups.values())
    scale = _WIDTH / most
    height = _TOP + len(groups) * (len(series) * _BAR + _GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 60} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(_described(groups))}</desc>",
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="0" y="16">{escape(title)}</text>',
    ]
    for number, name in enumerate(series):
        x = _LEFT + number * 110
        lines.append(f'<rect x="{x}" y="28" width="12" height="12" fill="{COLOURS[number]}"/>')
        lines.append(f'<text x="{x + 18}" y="39">{escape(name)}</text>')
    top = _TOP
    for group, values in groups.items():
        middle = top + len(series) * _BAR / 2 + 4
        lines.append(f'<text x="{_LEFT - 10}" y="{middle:.0f}" text-anchor="end">{escape(group)}</text>')
        for number, name in enumerate(series):
            y, width = top + number * _BAR, max(values[name] * scale, 1)
            size = f'width="{width:.1f}" height="{_BAR - 2}"'
            lines.append(f'<rect x="{_LEFT}" y="{y}" {size} fill="{COLOURS[number]}"/>')
            shown = f"{values[name]:.2f}" if values[name] >= 0.1 else f"{values[name]:.3f}"
            lines.append(f'<text class="value" x="{_LEFT + width + 5:.1f}" y="{y + 9}">{shown}</text>')
        top += len(series) * _BAR + _GAP
    lines.append(f'<line x1="{_LEFT}" y1="{_TOP - 6}" x2="{_LEFT}" y2="{height}"/>')
    return "\n".join([*lines, "</svg>", ""])


def _described(groups: Mapping[str, Mapping[str, float]]) -> str:
    """The same in words, for who cannot see it."""
    return "; ".join(
        f"{group}: " + ", ".join(f"{name} {value:.2f}" for name, value in values.items())
        for group, values in groups.items()
    )
