"""The group of commands: found by name, loaded when asked for, errors in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest

import nvccache as package
from nvccache import cli
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


def test_help_names_every_command(nvccache):
    result = nvccache("--help")
    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)


def test_main_returns_the_status(capsys):
    assert cli.main(["--version"]) == 0
    assert cli.main(["no-such-command"]) == 2
    assert capsys.readouterr().out == f"nvccache {package.__version__}\n"


@pytest.mark.parametrize(
    "argv", [["stats"], ["clean"], ["config"], ["verify"], ["completion", "bash"]], ids=" ".join
)
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
    assert not any(name.startswith(("rich", "tomlkit", "zstandard")) for name in loaded)
