"""`nvccache clean --matching`: which objects and sources a pattern names."""

from __future__ import annotations

import pytest

from nvccache.cli import clean


@pytest.mark.parametrize(
    ("path", "glob", "is_match"),
    [
        ("HERE/src/conv.cu", "conv*.cu", True), ("HERE/src/conv.cu", "src*", False),
        ("HERE/src/conv.cu", "src/*.cu", True), ("HERE/src/conv.cu", "HERE/*/conv.cu", True),
        ("HERE/src/conv.cu", "*/CONV.cu", False), ("/src/conv.cu", "src/conv.cu", False),
    ],
)  # fmt: skip
def test_a_pattern_matches_base_names_or_with_a_slash_whole_paths(
    tmp_path, monkeypatch, path, glob, is_match
):
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path)
    assert clean._matches(path.replace("HERE", here), glob.replace("HERE", here)) == is_match
