"""Every option that `nvcc --help` lists is in the list of command lines that are compared with plain nvcc."""

from __future__ import annotations

import re
import shlex
import subprocess

from scenarios.same_result.command_lines import BY_DEFAULT, EDITED_BY_DEFAULT, LINES
from scenarios.same_result.lines.line import Line

# `--long <value> (-short)`; the short name has two dashes where it is the same as the long one.
_DOCUMENTED = re.compile(r"^(--\S+)\s*.*?\s+\(?(--?[^()\s]+)\)?\s*$", re.MULTILINE)
# One-letter options whose value may follow without a blank.
_GLUED = re.compile(r"(-[DIULlOt])[^-=]")


def _words(line: Line) -> list[str]:
    argv = shlex.split(line.command)
    for text in (*line.environ.values(), *line.files.values()):
        argv += text.split()
    return argv


def _names(word: str) -> set[str]:
    glued = _GLUED.match(word)
    return {word, word.partition("=")[0], glued[1] if glued else word}


def test_the_command_lines_use_every_documented_option(nvcc: str) -> None:
    text = subprocess.run([nvcc, "--help"], capture_output=True, text=True, check=True).stdout
    documented = _DOCUMENTED.findall(text)
    assert len(documented) > 100
    used = {name for line in LINES for word in _words(line) for name in _names(word)}
    assert [names for names in documented if used.isdisjoint(names)] == []


def test_the_command_lines_that_run_by_default_show_every_outcome() -> None:
    names = {line.name for line in LINES}
    assert names >= BY_DEFAULT
    assert EDITED_BY_DEFAULT <= BY_DEFAULT
    assert {line.warm for line in LINES if line.name in BY_DEFAULT} == {line.warm for line in LINES}
