"""The group of commands: found by name, loaded when asked for; misspelt names, and names that went."""

from __future__ import annotations

import itertools
import os
import pathlib
import re
import shlex
import subprocess
import sys

import click
import pytest

import nvccache as package
from nvccache import config, log
from nvccache.cli import group, names
from nvccache.cli.group import commands
from nvccache.cli.names import COMMANDS

SOURCE = os.path.dirname(os.path.dirname(package.__file__))
PROGRAM = "import sys; sys.argv[0] = 'nvccache'; from nvccache import shim; sys.exit(shim.main())"


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


def test_every_status_is_documented():
    text = (pathlib.Path(SOURCE).parent / "docs" / "reference" / "commands.md").read_text()
    for status, meaning in group.STATUSES.items():
        assert f"\n- `{status}`: {meaning}\n" in text


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
    named = f"import sys; sys.path[:0] = [{SOURCE!r}]; import nvccache.cli.names"
    ours = {name for name in loaded_by("-I", "-S", "-c", named) if name.startswith(("click", "nvccache"))}
    assert ours == {"nvccache", "nvccache.cli", "nvccache.cli.names", "nvccache.config", "nvccache.real_nvcc"}
    os.makedirs(cache_dir)
    loaded = loaded_by("-c", PROGRAM, "stats")
    assert "nvccache.cli.group" in loaded
    assert not any(name.startswith(("tomllib", "zstandard")) for name in loaded)


@pytest.mark.parametrize(
    ("incomplete", "completed"),
    [("nvccache st", "plain,stats"), ("nvccache nvcc -c a", "file,a"), ("nvccache ./b", "file,./b")],
)
def test_commands_are_completed_and_files_after_a_compiler(capsys, monkeypatch, incomplete, completed):
    words = shlex.split(incomplete)
    monkeypatch.setenv("_NVCCACHE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", incomplete)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    assert group.run([]) == 0
    assert capsys.readouterr().out.split() == [completed]


@pytest.mark.parametrize("words", names.REMOVED)
def test_what_went_names_a_substitute_that_exists(nvccache, words):
    result = nvccache(*words.split())
    error = result.output.splitlines()[0]
    assert result.exit_code == 2 and error.endswith(f" any more: {names.REMOVED[words]}")
    for line in re.findall(r"`nvccache ([^`]+)`", names.REMOVED[words]):
        typed = [word for word in line.split() if word in ("remote", *COMMANDS) or word in ("status", "push")]
        command = ALL[" ".join(["nvccache", *typed])]
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in line.split() if word[:2] == "--"} <= options, line


def test_a_setting_that_went_is_ignored(cache_dir, nvccache):
    path = pathlib.Path(config.config_file(os.environ))
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{name} = 1\n" for name in log.REMOVED) + "jobs = 2\n")
    settings = config.load(os.environ)
    assert (settings.jobs, settings.dir) == (2, cache_dir)
    for (name, clause), sentence in zip(log.REMOVED.items(), log.sentences(settings), strict=True):
        assert sentence == f"`{path}`: there is no setting `{name}` any more: {clause}"


def run(argv, path):
    environ = {"PATH": path, "HOME": "/nonexistent", "NVCCACHE_DISABLE": "1", "PYTHONPATH": SOURCE}
    started = [sys.executable, "-c", PROGRAM, *argv]
    return subprocess.run(started, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("word", ["clang-18", "x86_64-linux-gnu-g++-12", "cl", "nvc++"])
def test_a_compiler_that_is_missing_is_reported_as_one(word):
    done = run([word, "-c", "a.cu"], "/nonexistent")
    assert done.returncode == 127
    assert done.stderr == f"nvccache: there is no compiler `{word}` on PATH besides nvccache\n"


def test_a_compiler_of_a_name_like_a_command_is_run(tmp_path):
    program = tmp_path / "cleen"
    program.write_text("#!/bin/sh\necho compiled $1\n")
    program.chmod(0o755)
    assert run(["cleen", "a.cu"], str(tmp_path)).stdout == "compiled a.cu\n"
    assert "did you mean `clean`?" in run(["cleen"], str(tmp_path)).stderr
