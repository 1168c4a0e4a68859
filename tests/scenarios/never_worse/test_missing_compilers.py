"""A compiler that is not there, or cannot be run, is not replaced by another: it ends as without nvccache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

MODULE = [sys.executable, "-m", "nvccache"]
# what is typed -> how a shell that runs it ends
TYPED = {
    "missing/bin/nvcc": 127,
    "file/nvcc": 126,
    "./directory": 126,
    "dangling/nvcc": 127,
    "nvcc-99.9": 127,
}


@pytest.fixture
def place(workspace: Workspace) -> Workspace:
    """Has an nvcc and a g++ on PATH, which must not be used instead."""
    workspace.write("file", "")
    workspace.write("plain-file", "#!/bin/sh\n")
    (workspace.directory / "directory").mkdir()
    (workspace.directory / "dangling").mkdir()
    (workspace.directory / "dangling" / "nvcc").symlink_to("/nowhere/nvcc")
    workspace.write("a.cu", "__global__ void k() {}\n")
    return workspace


def trouble_in(diagnostics: bytes) -> str:
    """The last part of a message, such as `No such file or directory`."""
    return diagnostics.decode().strip().rpartition(": ")[2]


@pytest.mark.parametrize(("typed", "status"), TYPED.items(), ids=TYPED)
def test_what_was_typed_is_run_or_nothing(typed: str, status: int, place: Workspace) -> None:
    plain = place.run(["bash", "-c", '"$@"', "bash", typed, "-c", "a.cu"])
    for variables in ({}, {"NVCCACHE_DISABLE": "1"}):
        result = place.run([*MODULE, typed, "-c", "a.cu"], **variables)
        assert result.status == plain.status == status
        assert typed.encode() in result.stderr and result.stdout == b""
        if "/" in typed:
            assert trouble_in(result.stderr) == trouble_in(plain.stderr)
    assert not (place.directory / "a.o").exists()


@pytest.fixture
def shim(place: Workspace, launcher: Path) -> str:
    assert place.run([launcher, "install", "shims"]).status == 0
    return str(place.directory / "shims" / "nvcc")


def test_a_setting_that_leads_nowhere_is_named(place: Workspace, shim: str) -> None:
    for value, status in (("/nope", 127), ("./directory", 126), ("nvcc-99.9", 127)):
        result = place.run([shim, "-c", "a.cu"], NVCCACHE_NVCC=value)
        assert (result.status, result.stdout) == (status, b"")
        assert b"NVCCACHE_NVCC" in result.stderr and os.fsencode(value.lstrip(".")) in result.stderr
    place.environ["XDG_CONFIG_HOME"] = str(place.directory / "settings")
    file = place.write("settings/nvccache/config.toml", 'nvcc = "/nope"\n')
    result = place.run([shim, "-c", "a.cu"])
    assert (result.status, result.stdout) == (127, b"")
    assert b"/nope" in result.stderr and os.fsencode(file) in result.stderr


def test_a_typed_path_that_is_nvccache_leads_to_what_stands_behind_it(place: Workspace, shim: str) -> None:
    result, counters = place.since(lambda: place.run([*MODULE, shim, "-c", "a.cu", "-o", "a.o"]))
    assert (result.status, result.stderr, counters.outcome) == (0, b"", "miss")


def test_a_launcher_that_is_set_twice_compiles(place: Workspace, launcher: Path) -> None:
    """As by CMake, and by a CC of the environment."""
    twice = place.directory / "twice"
    twice.symlink_to(launcher)
    for argv in ([*MODULE, launcher, "nvcc"], [launcher, twice, "nvccache", place.nvcc]):
        result, counters = place.since(lambda argv=argv: place.run([*argv, "-c", "a.cu", "-o", "a.o"]))
        assert (result.status, result.stderr, sum(counters.calls.values())) == (0, b"", 1)
        assert counters.outcome in ("miss", "direct_hit", "stage_hit")
    assert place.run([launcher, launcher, "--version"]).stdout.startswith(b"nvccache ")


def test_a_compiler_that_calls_nvccache_with_itself_ends(place: Workspace) -> None:
    count = "echo once >>calls"
    wrapper = place.write("wrapper/nvcc", f'#!/bin/sh\n{count}\nexec {" ".join(MODULE)} "$0" "$@"\n')
    wrapper.chmod(0o755)
    result = place.run([*MODULE, wrapper, "--version"])
    assert result.status == 0 and b"Cuda compilation tools" in result.stdout
    assert len((place.directory / "calls").read_bytes().split()) < 10


def test_a_script_without_an_interpreter_line_is_started_as_by_a_shell(place: Workspace) -> None:
    script = place.write("scripts/g++", 'echo said "$@"\n')
    script.chmod(0o755)
    result = place.run([*MODULE, "scripts/g++", "a b"])
    assert (result.status, result.stdout, result.stderr) == (0, b"said a b\n", b"")


def test_a_fifo_in_place_of_a_compiler_does_not_hang(place: Workspace) -> None:
    os.mkfifo(place.directory / "nvcc")
    done = subprocess.run(
        [*MODULE, "./nvcc", "-c", "a.cu"], cwd=place.directory, env=place.environ, timeout=30, check=False
    )
    assert done.returncode == 126
