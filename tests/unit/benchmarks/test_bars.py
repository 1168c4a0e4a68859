"""The pictures of the comparison are drawn from the recorded figures, without clipping."""

from __future__ import annotations

import json
import re
from pathlib import Path

import bars
import peers
import projects
import pytest

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests" / "benchmarks" / "recorded"


@pytest.mark.parametrize("name", ["peers", "projects"])
def test_a_committed_picture_shows_the_recorded_figures(name, tmp_path):
    document = json.loads((RECORDED / f"{name}.json").read_text())
    drawn = tmp_path / "drawn.svg"
    peers.draw(drawn, document) if name == "peers" else projects.draw(drawn, [document])
    assert drawn.read_text() == (ROOT / "docs" / "images" / f"{name}.svg").read_text()


def test_bars_and_texts_are_within_the_page():
    groups = {"a step with a long name": {"nvcc": 1.0, "ours": 0.5, "theirs": 12.25}, "b": {"ours": 2.0}}
    drawn = bars.drawing("Title", "note", "nvcc", {"nvcc": "13.0", "ours": "1.2"}, groups)
    width = int(re.search(r'viewBox="0 0 (\d+) ', drawn)[1])
    for left, across in re.findall(r'<rect x="(\d+)" y="\d+" width="([\d.]+)"', drawn):
        assert int(left) + float(across) <= width
    for left, text in re.findall(r'<text class="value" x="([\d.]+)" y="\d+">([^<]+)<', drawn):
        assert float(left) + 6 * len(text) <= width
    assert "nvcc 13.0 = 1" in drawn
    assert "ours 1.2" in drawn
    assert "a step with a long name: nvcc 1, ours 0.5, theirs 12.2; b: ours 2" in drawn
