"""The palette of the page in every kind of sight: with three kinds of cones, or with two."""

from __future__ import annotations

import itertools
import math
import re

import pytest

from nvccache.report import page

COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", page._part("page.css"))
}
MARKS = ("hit", "half", "ran", "shared", "failed", "bypass", "fault")
# Machado, Oliveira, Fernandes: A Physiologically-based Model for Simulation of Color Vision Deficiency, 2009;
# severity 1, on linear RGB.
SIGHTS = {
    "trichromat": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanope": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranope": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanope": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


def linear(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def luminance(colour):
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def lab(rgb):
    """CIELAB of linear sRGB, with its white."""
    rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    xyz = [sum(weight * part for weight, part in zip(row, rgb, strict=True)) / sum(row) for row in rows]
    x, y, z = (value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def seen(colour, sight):
    rows = SIGHTS[sight]
    return lab([sum(weight * part for weight, part in zip(row, linear(colour), strict=True)) for row in rows])


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_marks_differ_in_every_kind_of_sight(theme, sight):
    points = {name: seen(COLOURS[name][theme], sight) for name in MARKS}
    for one, other in itertools.combinations(MARKS, 2):
        assert math.dist(points[one], points[other]) >= 20, (one, other)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_marks_and_texts_stand_out(theme):
    colours = {name: pair[theme] for name, pair in COLOURS.items()}
    assert all(contrast(colours[name], colours["back"]) >= 3 for name in (*MARKS, "edge"))
    for ground in ("back", "raised"):
        assert all(contrast(colours[name], colours[ground]) >= 4.5 for name in ("ink", "soft", "link"))
