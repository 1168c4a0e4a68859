"""The colours of the page stand out from its ground, in light and dark."""

from __future__ import annotations

import re

import pytest

from nvccache.report import page

COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", page._part("page.css"))
}
MARKS = ("hit", "half", "ran", "shared", "failed", "bypass", "fault")


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_marks_and_texts_stand_out(theme):
    colours = {name: pair[theme] for name, pair in COLOURS.items()}
    assert all(contrast(colours[name], colours["back"]) >= 3 for name in (*MARKS, "edge"))
    for ground in ("back", "raised"):
        assert all(contrast(colours[name], colours[ground]) >= 4.5 for name in ("ink", "soft", "link"))
