"""The marks choose what they are documented to choose, by name: nothing is left out by its position."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import installations
import marks

TESTS = Path(__file__).parent
# What pytest would run, as a line of JSON for each test; with `both`, also what it would by default.
LISTER = """
import json, sys, pytest, conftest, marks
class Lister:
    def pytest_collection_finish(self, session):
        kept = list(session.items)
        if BOTH:
            session.config.option.every_case = False
            conftest.pytest_collection_modifyitems(session.config, kept)
        kept = {id(item) for item in kept}
        for item in session.items:
            chosen = item.get_closest_marker("by_default")
            print("LISTED", json.dumps({
                "id": item.nodeid,
                "test": item.nodeid.partition("[")[0],
                "case": marks.case_of(item),
                "is_full": marks.is_full(item),
                "runs": id(item) in kept,
                "smoke": [mark.args[0] for mark in item.iter_markers("smoke")],
                "by_default": list(chosen.args) if chosen else [],
            }))
BOTH = "both" in sys.argv
words = [word for word in sys.argv[1:] if word != "both"]
sys.exit(pytest.main(["--collect-only", *words], plugins=[Lister()]))
"""
Listing = list[dict]


def start(*arguments: str) -> subprocess.Popen[str]:
    environ = {name: value for name, value in os.environ.items() if name != "NVCCACHE_TEST_SEED"}
    return subprocess.Popen(
        [sys.executable, "-c", LISTER, "-p", "no:xdist", *arguments],
        cwd=TESTS.parent,
        env={**environ, "PYTHONPATH": os.pathsep.join([str(TESTS), environ.get("PYTHONPATH", "")])},
        stdout=subprocess.PIPE,
        text=True,
    )


def listed(run: subprocess.Popen[str]) -> Listing:
    text = run.communicate()[0]
    assert run.returncode in (0, 5), text
    return [json.loads(line[len("LISTED ") :]) for line in text.splitlines() if line.startswith("LISTED ")]


@pytest.fixture(scope="module")
def both(workers_base: Path) -> tuple[Listing, Listing]:
    """What runs by default, and everything; listed once for all workers."""

    def make(folder: Path) -> None:
        everything = listed(start("both", "--every-case"))
        by_default = [item for item in everything if item["runs"]]
        folder.mkdir()
        (folder / "listings").write_text(json.dumps([by_default, everything]))

    folder = installations.shared(workers_base, "listings", make)
    by_default, everything = json.loads((folder / "listings").read_text())
    return by_default, everything


def test_by_default_all_runs_but_what_is_marked_full(both: tuple[Listing, Listing]) -> None:
    by_default, everything = both
    assert len(by_default) > 1000
    assert [item["id"] for item in by_default] == [item["id"] for item in everything if not item["is_full"]]


def test_a_file_with_full_cases_has_some_by_default(both: tuple[Listing, Listing]) -> None:
    by_default, everything = both
    assert {path_of(item) for item in everything} == {path_of(item) for item in by_default}


def test_cases_that_run_by_default_are_there_and_leave_others_to_a_full_run(
    both: tuple[Listing, Listing],
) -> None:
    """A renamed case is renamed in the mark, too."""
    tests: dict[str, Listing] = defaultdict(list)
    for item in both[1]:
        tests[item["test"]].append(item)
    for test, items in tests.items():
        chosen, cases = items[0]["by_default"], [item["case"] for item in items]
        assert len(set(chosen)) == len(chosen), test
        assert set(chosen) <= set(cases), test
        assert not chosen or any(item["is_full"] for item in items), test


def test_the_quick_set_has_one_case_of_each_kind(both: tuple[Listing, Listing]) -> None:
    by_default, everything = both
    kinds = Counter(kind for item in everything for kind in item["smoke"])
    assert kinds == dict.fromkeys(marks.KINDS, 1)
    assert kinds == Counter(kind for item in by_default for kind in item["smoke"])
    page = (TESTS.parent / "docs" / "development" / "testing.md").read_text()
    (described,) = re.findall(r"^- `smoke` (.*?)(?=^- |^$)", page, re.MULTILINE | re.DOTALL)
    assert [kind for kind in marks.KINDS if kind not in " ".join(described.split())] == []


@pytest.mark.parametrize(
    ("arguments", "are_full"),
    [
        (("tests/test_marks.py",), {False}),
        (("tests/test_marks.py", "--every-case"), {False, True}),
        (("tests/test_marks.py", "-m", "full"), {True}),
        (("tests/test_marks.py", "-k", "test_a_row_of_a_full_run"), {False, True}),
        (("tests/test_marks.py::test_a_row_of_a_full_run",), {False, True}),
        (("tests/test_marks.py", "-k", "test_a_row_of_a_full_run and left"), {True}),
    ],
)
def test_what_is_named_runs_whatever_its_mark(arguments: tuple[str, ...], are_full: set[bool]) -> None:
    assert {item["is_full"] for item in listed(start(*arguments))} == are_full


@pytest.mark.by_default("by default")
@pytest.mark.parametrize("row", ["by default", "left to a full run"])
def test_a_row_of_a_full_run(row: str, request: pytest.FixtureRequest) -> None:
    """An example for the test above."""
    assert (request.node.get_closest_marker("full") is None) == (row == "by default")


def path_of(item: dict) -> str:
    return item["id"].partition("::")[0]
