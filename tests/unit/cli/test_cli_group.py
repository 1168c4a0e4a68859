"""The group of commands: found by name, loaded when asked for, errors in one sentence."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys

import click
import pytest

import nvccache as package
from nvccache import cli
from nvccache.cli import names
from nvccache.cli.group import commands
from nvccache.cli.names import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_name_is_a_command_with_a_description(name):
    command = commands.get_command(click.Context(commands), name)
    assert command.name == name
    assert command.help
    assert all(option.help for option in command.params if isinstance(option, click.Option))


def test_looking_up_a_name_loads_no_click():
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from nvccache.cli.names import COMMANDS\n"
        "print(*sorted(name for name in sys.modules if name.startswith(('click', 'nvccache'))))\n"
    )
    source = os.path.dirname(os.path.dirname(package.__file__))
    shown = subprocess.check_output([sys.executable, "-I", "-S", "-c", program, source])
    assert shown.split() == [
        b"nvccache",
        b"nvccache.cli",
        b"nvccache.cli.names",
        b"nvccache.config",
        b"nvccache.real_nvcc",
    ]


def every_command(command=commands, name="nvccache"):
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            yield from every_command(command.get_command(context, below), f"{name} {below}")


ALL = dict(every_command())


def test_help_lists_every_command_in_its_group(nvccache):
    lines = nvccache("--help", COLUMNS="80").output.splitlines()
    titles = [f"{title}:" for title in names.GROUPS]
    assert [line for line in lines if line in titles] == titles
    listed = [line.split()[0] for line in lines[lines.index(titles[0]) :] if line.startswith("  ")]
    assert listed[: len(COMMANDS)] == list(COMMANDS)


@pytest.mark.parametrize("name", ALL)
def test_no_summary_is_cut_at_80_columns(name):
    assert len(ALL[name].get_short_help_str(1000)) <= 60


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("name", ALL)
def test_help_fits_the_terminal(nvccache, name, columns):
    result = nvccache(*name.split()[1:], "--help", COLUMNS=str(columns))
    assert result.exit_code == 0
    assert not re.search(r"[a-z]\.\.\.", result.output)
    # A literal is not broken: choices, and commands to copy.
    long = [line for line in result.output.splitlines() if len(line) > columns]
    assert all("|" in line or line.startswith("  `nvccache ") for line in long), long


@pytest.mark.parametrize("name", ALL)
def test_the_example_of_each_command_is_understood(nvccache, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = [
        line for line in nvccache(*name.split()[1:], "--help").output.splitlines() if "Example: " in line
    ]
    argv = shlex.split(example.partition(": ")[2])
    if name == "nvccache":
        assert argv[:2] == ["nvccache", "nvcc"]
        return
    command, context = commands, None
    for depth in itertools.count(1):
        context = command.make_context(argv[depth - 1], argv[depth:], context)
        if not isinstance(command, click.Group):
            break
        command = command.get_command(context, argv[depth])
        assert command, argv[depth]
    assert " ".join(argv).startswith(name)


def test_main_returns_the_status(capsys):
    assert cli.main(["--version"]) == 0
    assert cli.main(["no-such-command"]) == 2
    assert capsys.readouterr().out.startswith(f"nvccache {package.__version__} (")


@pytest.mark.parametrize("argv", [["stats"], ["clean"], ["config"], ["events"]], ids=" ".join)
def test_what_draws_and_edits_is_loaded_only_where_it_is_needed(nvccache, cache_dir, argv):
    os.makedirs(cache_dir)
    program = "import sys; from nvccache.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", program, *argv],
        capture_output=True,
        text=True,
        check=False,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "nvccache.cli.group" in loaded
    assert not any(name.startswith(("rich", "tomllib", "zstandard")) for name in loaded)
