"""The group of commands: found by name, loaded when asked for; and what is no command."""

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
from nvccache.cli import COMMANDS
from nvccache.cli.group import commands

SOURCE = os.path.dirname(os.path.dirname(package.__file__))
PROGRAM = "import sys; sys.argv[0] = 'nvccache'; from nvccache.entry_point import main; sys.exit(main())"


def every_command(command=commands, name="nvccache"):
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            yield from every_command(command.get_command(context, below), f"{name} {below}")


ALL = dict(every_command())


def test_every_command_and_option_is_described_and_most_print_json():
    assert {name.partition(" ")[2] for name in ALL} >= set(COMMANDS)
    for name, command in ALL.items():
        options = [option for option in command.params if isinstance(option, click.Option)]
        assert command.help and all(option.help for option in options), name
        assert len(command.get_short_help_str(1000)) <= 60, name
        has_json = any("--json" in option.opts for option in options)
        assert has_json != (name in ("nvccache report", "nvccache remote")), name


@pytest.mark.parametrize("name", list(ALL)[1:])
def test_the_example_of_each_command_is_understood(nvccache, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall("Example: (.*)", nvccache(*name.split()[1:], "--help").output)
    argv = shlex.split(example)
    command, context = commands, None
    for depth in itertools.count(1):
        context = command.make_context(argv[depth - 1], argv[depth:], context)
        if not isinstance(command, click.Group):
            break
        command = command.get_command(context, argv[depth])
        assert command, argv[depth]
    assert example.startswith(name)


def loaded_by(*argv):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *argv], capture_output=True, text=True, check=False
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


def test_a_command_loads_no_more_than_it_needs(cache_dir):
    named = f"import sys; sys.path[:0] = [{SOURCE!r}]; import nvccache.cli"
    ours = {name for name in loaded_by("-I", "-S", "-c", named) if name.startswith(("click", "nvccache"))}
    assert ours == {"nvccache", "nvccache.cli"}
    os.makedirs(cache_dir)
    loaded = loaded_by("-c", PROGRAM, "stats")
    assert "nvccache.cli.group" in loaded
    assert not any(name.startswith(("tomllib", "zstandard")) for name in loaded)


def run(argv, path="/nonexistent", before=""):
    environ = {"PATH": path, "HOME": "/nonexistent", "NVCCACHE_DISABLE": "1", "PYTHONPATH": SOURCE}
    started = [sys.executable, "-c", before + PROGRAM, *argv]
    done = subprocess.run(started, env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr.splitlines()


def write_program(path):
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\necho compiled $1\n")
    path.chmod(0o755)


def test_an_nvcc_that_is_not_on_path_is_named_with_the_line_that_puts_it_there(tmp_path):
    """The child finds it as `discovery` finds that of a toolkit which is installed, but not on PATH."""
    nvcc = tmp_path / "cuda 13" / "nvcc"
    write_program(nvcc)
    before = f"from nvccache.toolkit import discovery; discovery._DEFAULT_NVCC = {str(nvcc)!r}; "
    status, _, (missing, hint) = run(["nvcc", "-c", "a.cu"], before=before)
    sentence = "nvccache: there is no compiler `nvcc` on PATH besides nvccache"
    assert (status, missing) == (127, sentence)
    line = hint.removeprefix(f"hint: to use `{nvcc}`, run `").removesuffix("`")
    assert subprocess.check_output(["/bin/sh", "-c", f"{line}; exec nvcc"], text=True) == "compiled\n"


@pytest.mark.parametrize(
    ("argv", "status", "sentence"),
    [
        (["nvcc-12", "-c"], 127, "nvccache: there is no compiler `nvcc-12` on PATH besides nvccache"),
        (["clang-18", "-c", "a.cu"], 2, "Error: no such command `clang-18`"),
        (["cleen"], 2, "Error: no such command `cleen`; did you mean `clean`?"),
        (["-c", "a.cu", "-o", "a.o"], 2, "Error: No such option '-c'"),
        (["-forward-unknown-to-host-compiler"], 2, "Error: No such option '-f'"),
    ],
)
def test_a_first_argument_that_is_no_compiler_or_command_is_an_error(argv, status, sentence):
    found, output, lines = run(argv)
    assert (found, output, lines[0]) == (status, "", sentence)
    assert status != 2 or lines[1].startswith("Hint: to compile, put nvcc first")


def test_a_program_on_path_is_run_even_if_its_name_resembles_a_command(tmp_path):
    write_program(tmp_path / "cleen")
    assert run(["cleen", "a.cu"], str(tmp_path))[:2] == (0, "compiled a.cu\n")
    assert run(["cleen"], str(tmp_path))[0] == 2
