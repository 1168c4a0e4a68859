"""What went: one sentence that names the substitute, status 2, and no trace in what is there."""

from __future__ import annotations

import re

import click
import pytest

from nvccache.cli import removed
from nvccache.cli.group import commands


@pytest.mark.parametrize("words", [*removed.COMMANDS, *removed.OPTIONS])
def test_what_went_names_its_substitute(nvccache, words):
    result = nvccache(*words.split())
    error, hint = result.output.splitlines()
    clause = removed.COMMANDS.get(words) or removed.OPTIONS[words]
    assert result.exit_code == 2
    assert error.startswith("Error: ") and error.endswith(f"{words.split()[-1]}` any more: {clause}")
    assert hint.startswith("Hint: ")


@pytest.mark.parametrize("clause", [*removed.COMMANDS.values(), *removed.OPTIONS.values()])
def test_every_substitute_exists(clause):
    for line in re.findall(r"`nvccache ([^`]+)`", clause):
        command: click.Command = commands
        for word in line.split():
            if isinstance(command, click.Group) and word[:1] != "-":
                found = command.get_command(click.Context(command), word)
                assert found, line
                command = found
            elif word[:2] == "--":
                assert any(word in parameter.opts for parameter in command.params), line
