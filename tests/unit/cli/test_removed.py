"""What went: one sentence that names the substitute, status 2, and no trace in what is there."""

from __future__ import annotations

import os
import re

import click
import pytest

from nvccache import config, log, settings_file
from nvccache.cli import doctor, removed
from nvccache.cli.group import commands
from nvccache.cli.output import ODD


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


@pytest.mark.parametrize("name", settings_file.REMOVED)
def test_a_setting_that_went_is_ignored_and_doctor_says_what_replaces_it(cache_dir, nvccache, name):
    variable = f"NVCCACHE_{name.upper()}"
    path = config.config_file(os.environ)
    os.makedirs(os.path.dirname(path))
    with open(path, "w") as stream:
        stream.write(f'{name} = "1"\njobs = 2\n')
    environ = {**os.environ, variable: "1"}
    settings = config.load(environ)
    assert (settings.jobs, settings.dir) == (2, cache_dir)
    clause = f"any more: {settings_file.REMOVED[name]}"
    assert log.sentences(settings) == [
        f"`{path}` line 1: there is no setting `{name}` {clause}",
        f"`{variable}`: there is no such setting {clause}",
    ]
    assert [found.state for found in doctor.of_settings(settings, environ)] == [ODD, ODD]
    result = nvccache("config", name, "1")
    assert result.exit_code == 2 and f"there is no setting `{name}` {clause}" in result.output
