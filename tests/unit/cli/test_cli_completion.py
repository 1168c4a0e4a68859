"""Completion in shells: a real shell loads the script and completes a word."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from nvccache.cli import group
from nvccache.cli.names import COMMANDS

START = "import sys; sys.argv[0] = 'nvccache'; from nvccache import shim; sys.exit(shim.main())"
PROGRAM = f'#!/bin/sh\nexec {sys.executable} -c "{START}" "$@"\n'


@pytest.fixture
def folder(tmp_path):
    """A directory with an executable `nvccache` and the scripts of all shells."""
    program = tmp_path / "nvccache"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    for shell in group.SHELLS:
        (tmp_path / shell).write_text(group.script_of(shell))
    (tmp_path / "unit.cu").write_text("")
    return tmp_path


def run(argv, folder, monkeypatch):
    if not shutil.which(argv[0]):
        pytest.skip(f"{argv[0]} is not installed")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split()


def of_bash(folder, monkeypatch, *words):
    line = " ".join(f"'{word}'" for word in words)
    script = (
        f"source ./bash; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; compopt() {{ echo compopt $*; }};"
        ' _nvccache_completion nvccache; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return run(["bash", "--norc", "-c", script], folder, monkeypatch)


def test_bash_completes_commands_and_options(folder, monkeypatch):
    assert of_bash(folder, monkeypatch, "nvccache", "st") == ["stats"]
    assert set(of_bash(folder, monkeypatch, "nvccache", "")) == set(COMMANDS)
    assert "--older-than" in of_bash(folder, monkeypatch, "nvccache", "clean", "--o")
    assert "ptxas" in of_bash(folder, monkeypatch, "nvccache", "clean", "--stage", "p")
    assert of_bash(folder, monkeypatch, "nvccache", "config", "un") == ["unset"]


def test_bash_completes_files_behind_a_compiler(folder, monkeypatch):
    assert of_bash(folder, monkeypatch, "nvccache", "nvcc", "un") == ["compopt", "-o", "default"]
    assert of_bash(folder, monkeypatch, "nvccache", "/usr/lo") == ["compopt", "-o", "default"]


def test_bash_takes_the_script_and_knows_when_to_call_it(folder, monkeypatch):
    shown = run(["bash", "--norc", "-c", "source ./bash; complete -p nvccache"], folder, monkeypatch)
    assert shown[-3:] == ["-F", "_nvccache_completion", "nvccache"]
    assert "default" in shown


def test_zsh_takes_the_script(folder, monkeypatch):
    script = "autoload -U compinit; compinit -u -D; source ./zsh; print $_comps[nvccache]"
    assert run(["zsh", "-f", "-c", script], folder, monkeypatch) == ["_nvccache_completion"]


def test_fish_completes_commands(folder, monkeypatch):
    shown = run(
        ["fish", "--no-config", "-c", "source ./fish; complete -C 'nvccache st'"], folder, monkeypatch
    )
    assert shown[0] == "stats"


@pytest.mark.parametrize("shell", group.SHELLS)
def test_the_script_is_printed_as_it_is(nvccache, shell):
    assert nvccache("completion", shell).output == group.script_of(shell).rstrip("\n") + "\n"
    assert nvccache("completion", SHELL=f"/usr/bin/{shell}").output == nvccache("completion", shell).output
    printed = nvccache.json("completion", shell)
    assert printed == {"shell": shell, "script": group.script_of(shell)}


def test_an_unknown_shell_is_wrong_usage(nvccache):
    for argv in (["completion", "ksh"], ["completion"]):
        assert nvccache(*argv, SHELL="/bin/ksh").exit_code == 2
