"""The fragments in `docs/changes/`: named as towncrier expects, of a known kind, a line for each change."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
KINDS = [kind["name"] for kind in SETTINGS["type"]]


def faults_of(name: str, text: str) -> list[str]:
    """What is wrong with a fragment of this name and text."""
    found = []
    parts = re.fullmatch(r"[a-z0-9-]+\.([a-z]+)\.md", name)
    if not parts:
        found.append("its name is not NAME.KIND.md, of lower-case letters, digits and hyphens")
    elif parts[1] not in KINDS:
        found.append(f"its kind is none of {', '.join(KINDS)}")
    for line in text.splitlines() or [""]:
        if not line.strip():
            found.append("a line is blank")
        elif line != line.strip() or re.match(rf"[-*#]\s|({'|'.join(KINDS)}):", line):
            found.append(f"towncrier puts the bullet and the kind before a line: {line}")
        elif line.endswith(".") or line.count("`") % 2:
            found.append(f"a line ends with a period, or a backquote has no other: {line}")
    return found


def test_every_fragment_has_a_known_kind_and_a_line_for_each_change() -> None:
    others = ("README.md", *SETTINGS["ignore"])
    paths = [path for path in (ROOT / SETTINGS["directory"]).iterdir() if path.name not in others]
    faults = {path.name: faults_of(path.name, path.read_text()) for path in paths}
    assert {name: found for name, found in faults.items() if found} == {}


def test_a_fragment_may_have_several_lines() -> None:
    assert faults_of("full-disks-2.fixed.md", "`-o x` appears whole\n`-MF` too\n") == []


@pytest.mark.parametrize(
    "name", ["full.md", "full.better.md", "full.fixed", "Full Disk.fixed.md", "full.fixed.1.md"]
)
def test_a_name_without_a_known_kind_is_found(name: str) -> None:
    assert faults_of(name, "a product appears whole\n")


@pytest.mark.parametrize(
    "text", ["", "one\n\nother\n", "- one\n", "fixed: one\n", "  one\n", "One thing.\n", "an `x\n"]
)
def test_a_text_that_is_not_a_line_for_each_change_is_found(text: str) -> None:
    assert faults_of("full-disks.fixed.md", text)


def test_the_changelog_explains_the_kinds_and_has_the_line_that_towncrier_looks_for() -> None:
    changelog = (ROOT / SETTINGS["filename"]).read_text()
    head, marker, _ = changelog.partition(SETTINGS["start_string"])
    assert marker
    assert re.findall(r"^\| (\w+) \|", head, re.MULTILINE) == ["kind", *KINDS]
