"""The table of command lines over toolkits: its text and exit status."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import command_line_table

HIT = '<property name="cold" value="miss" /><property name="warm" value="direct_hit" />'
EDITED = '<property name="comment" value="stage_hit" /><property name="change" value="partial_hit" />'
BYPASSED = '<property name="cold" value="bypass:verbose" />'
MESSAGE = "AssertionError: a.o differs"


def _case(name: str, properties: str, rest: str = "") -> str:
    return f'<testcase name="test_x[{name}]"><properties>{properties}</properties>{rest}</testcase>'


def _report(path: Path, *cases: str) -> None:
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")


def test_the_test_that_is_run_is_there() -> None:
    assert command_line_table.TEST.exists()


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results of two toolkits, which are not run again."""
    releases = {"new": (13, 5), "old": (11, 8)}
    monkeypatch.setattr(command_line_table, "release_of", releases.__getitem__)
    old = _case("compile", "", '<skipped message="not in this release" />')
    _report(tmp_path / "13.5.xml", _case("compile", HIT + EDITED), _case("verbose", BYPASSED))
    _report(tmp_path / "11.8.xml", old, _case("verbose", BYPASSED))
    return tmp_path


def _print_table(results: Path) -> int:
    return command_line_table.main(["--results", str(results), "--nvcc", "new", "--nvcc", "old,g++-11"])


def _rows(text: str) -> dict[str, list[str]]:
    cells = [re.split(r" ?(?<!\\)\| ?", line)[1:-1] for line in text.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in cells}


def test_each_line_has_a_row_and_each_toolkit_a_column(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _print_table(results) == 0
    rows = _rows(capsys.readouterr().out)
    assert rows["name"] == ["command", "13.5", "11.8"]
    both = "miss / direct_hit / stage_hit / partial_hit"
    assert rows["compile"] == ["`` nvcc -c a.cu -o a.o ``", both, "not in this release"]
    assert rows["verbose"][1:] == ["bypass: verbose", "bypass: verbose"]
    assert rows["direct_hit"] == ["1", "0"]
    assert rows["bypass: verbose"] == ["1", "1"]
    assert rows["all lines"] == ["2", "2"]


@pytest.mark.parametrize(
    ("message", "kind"),
    [(MESSAGE, "**differs**"), ("warm: miss, and by the list direct_hit", "**not as listed**")],
)
def test_what_is_not_as_it_should_be_makes_the_status_nonzero(
    results: Path, capsys: pytest.CaptureFixture[str], message: str, kind: str
) -> None:
    _report(results / "13.5.xml", _case("compile", HIT, f'<failure message="{message}" />'))
    assert _print_table(results) == 1
    text = capsys.readouterr().out
    assert _rows(text)["compile"][1] == f"{kind} miss / direct_hit"
    assert f"- 13.5, compile: {message}" in text
