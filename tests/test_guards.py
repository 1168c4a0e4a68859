"""Each row of the guards names a check and a test that are there; guards.py takes the checks out in turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from guarded.places import Place, places_in
from guarded.rows import TABLES, Guard, read
from guards import GUARDS, ROOT, file_of_test, without


@pytest.fixture(scope="module")
def places() -> list[Place]:
    return places_in(ROOT / "src")


def where(guard: Guard, places: list[Place]) -> str:
    try:
        without(guard, places)
    except LookupError as error:
        return str(error)
    return "there"


@pytest.mark.parametrize("table", [table.stem for table in TABLES])
def test_each_guarded_check_is_in_one_file(table: str, places: list[Place]) -> None:
    checks = {guard.name: where(guard, places) for guard in GUARDS if guard.table == table}
    assert {name: found for name, found in checks.items() if found != "there"} == {}


def test_each_guard_has_a_name_and_a_test_of_its_own() -> None:
    files = {word for guard in GUARDS for word in guard.tests if word.endswith(".py")}
    assert all(file_of_test(name, ROOT).is_file() for name in files)
    assert all("-k" in guard.tests for guard in GUARDS)
    assert len({(guard.name, guard.definition) for guard in GUARDS}) == len(GUARDS)


SOURCE = """
class Store:
    def find(self, name):
        if (
            self.is_open  # not yet
            and name
        ):
            return "a b"
        return None


def find(name):
    return name if name else None
"""
MACRO = """#define FLAGS (OPEN | \\
    READ)
static int opens(const char *name) {
    return OPEN | READ; /* both */
}
"""


@pytest.mark.parametrize(
    ("definition", "expression", "found"),
    [
        (
            "Store.find",
            "if (self.is_open and name):",
            "if (\n            self.is_open  # not yet\n            and name\n        ):",
        ),
        ("a.find", "name", "name"),
        ("find", "return None", "return None"),
        ("Store.find", "a b", "a b"),
        ("FLAGS", "(OPEN | READ)", "(OPEN | \\\n    READ)"),
        ("opens", "OPEN | READ;", "OPEN | READ;"),
        ("Store.find", "name if name", None),
        ("Store.closes", "name", None),
    ],
)
def test_an_expression_is_found_however_it_is_laid_out(
    tmp_path: Path, definition: str, expression: str, found: str | None
) -> None:
    (tmp_path / "a.py").write_text(SOURCE)
    (tmp_path / "b.c").write_text(MACRO)
    guard = Guard("", "", definition, expression, "@", ())
    if found is None:
        with pytest.raises(LookupError, match="GONE"):
            without(guard, places_in(tmp_path))
        return
    path, text = without(guard, places_in(tmp_path))
    assert found in path.read_text()
    assert "@" in text


def test_a_definition_of_two_modules_is_named_with_its_module(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("def find():\n    return 1\n")
    with pytest.raises(LookupError, match="TWO"):
        without(Guard("", "", "find", "return 1", "", ()), places_in(tmp_path))
    assert without(Guard("", "", "b.find", "return 1", "pass", ()), places_in(tmp_path))[0].name == "b.py"


def test_a_line_that_is_no_row_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("# Checks.\nname\n    find: this => that\n    test.py -k this\nstray\n")
    with pytest.raises(ValueError, match="no row: stray"):
        read(tmp_path / "a.txt")
