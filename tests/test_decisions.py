"""The pages of `docs/development/decisions/`: numbered, listed in the index, each with a status."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "development" / "decisions"
PAGES = sorted(FOLDER.glob("[0-9]*.md"))
STATUS = re.compile(r"accepted|not done|superseded by \[.+", re.DOTALL)
MARKS = {"accepted": "", "not done": " (not done)", "superseded": " (superseded)"}


def parts_of(path: Path) -> list[str]:
    return path.read_text().split("\n\n")


def status_of(path: Path) -> str:
    return parts_of(path)[1].removeprefix("Status: ")


def test_numbers_are_given_once() -> None:
    assert len({path.name[:4] for path in PAGES}) == len(PAGES)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_has_a_status_a_context_and_a_decision(path: Path) -> None:
    title, status, context, decision = parts_of(path)[:4]
    assert title.startswith("# ") and "\n" not in title
    assert status.startswith("Status: ") and STATUS.fullmatch(status_of(path))
    assert context.startswith("**Context.** ") and decision.startswith("**Decision.** ")


def test_the_index_lists_each_page_once_by_its_title_and_status() -> None:
    listed = re.findall(r"^- .*$", (FOLDER / "index.md").read_text(), re.MULTILINE)
    expected = [
        f"- {path.name[:3]} [{parts_of(path)[0].removeprefix('# ')}]({path.name})"
        + next(mark for word, mark in MARKS.items() if status_of(path).startswith(word))
        for path in PAGES
    ]
    assert sorted(listed) == expected


def test_decisions_that_code_and_tests_name_are_there() -> None:
    pages = {path.name for path in PAGES} | {path.name[:3] for path in PAGES}
    named = set()
    for folder, pattern in (("src", "*.py"), ("src", "*.[ch]"), ("tests", "*.py"), ("docs", "*.md")):
        for path in (ROOT / folder).rglob(pattern):
            text = path.read_text(encoding="utf-8", errors="replace")
            named |= set(re.findall(r"\bdevelopment/decisions/(\d[\w.-]*\.md)", text))
            named |= set(re.findall(r"\bdecision (\d{3})\b", text))
    assert len(named) >= 3
    assert named <= pages
