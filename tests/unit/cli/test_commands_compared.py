"""The page that compares commands names all of ours, and all options of the others."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess

import pytest

from nvccache.cli.names import COMMANDS

PAGE = (pathlib.Path(__file__).parents[3] / "docs" / "reference" / "commands-compared.md").read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_ours_is_there(name):
    assert re.search(rf"[`, ]{name}[` ]", PAGE)


@pytest.mark.parametrize("program", ["ccache", "sccache"])
def test_every_option_of_theirs_is_there(program):
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    shown = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    lines = [line for line in shown.splitlines() if re.match(r" +-", line)]
    options = {line: re.findall(r"(?<!\w)--?[a-zA-Z-]+", line) for line in lines if "help" not in line}
    assert [line for line, words in options.items() if not any(word in PAGE for word in words)] == []


def test_a_purpose_without_a_command_has_a_reason():
    rows = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    without = [row for row in rows if row[1] == "none"]
    assert len(without) > 3
    assert all(row[-1].strip("| ") for row in without)
