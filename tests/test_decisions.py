"""The pages of `docs/development/decisions/`: one a topic, short, and named in code as they are called."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "development" / "decisions").iterdir())


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_has_at_most_400_words(path: Path) -> None:
    assert len(path.read_text().split()) <= 400


def test_pages_that_code_names_are_there() -> None:
    texts = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"development/decisions/([\w.-]+\.md)", text)}
    assert named and named <= {path.name for path in PAGES}
