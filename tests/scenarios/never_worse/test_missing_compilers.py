"""A compiler that is not there, or cannot be run, is not replaced by another: it ends as without nvccache."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

MODULE = [sys.executable, "-m", "nvccache"]
# what is typed -> how a shell that runs it ends
TYPED = {"missing/bin/nvcc": 127, "file/nvcc": 126, "nvcc-99.9": 127}


@pytest.fixture
def place(workspace: Workspace) -> Workspace:
    """Has an nvcc and a g++ on PATH, which must not be used instead."""
    workspace.write("file", "")
    workspace.write("a.cu", "__global__ void k() {}\n")
    return workspace


def trouble_in(diagnostics: bytes) -> str:
    """The last part of a message, such as `No such file or directory`."""
    return diagnostics.decode().strip().rpartition(": ")[2]


@pytest.mark.parametrize(("typed", "status"), TYPED.items(), ids=TYPED)
def test_a_missing_compiler_fails_with_the_status_of_the_shell(
    typed: str, status: int, place: Workspace
) -> None:
    plain = place.run(["bash", "-c", '"$@"', "bash", typed, "-c", "a.cu"])
    for variables in ({}, {"NVCCACHE_DISABLE": "1"}):
        result = place.run([*MODULE, typed, "-c", "a.cu"], **variables)
        assert result.status == plain.status == status
        assert typed.encode() in result.stderr and result.stdout == b""
        if "/" in typed:
            assert trouble_in(result.stderr) == trouble_in(plain.stderr)
    assert not (place.directory / "a.o").exists()


def test_a_wrong_nvccache_nvcc_setting_is_named_in_the_error(place: Workspace, launcher: Path) -> None:
    assert place.run([launcher, "install", "shims"]).status == 0
    result = place.run(["shims/nvcc", "-c", "a.cu"], NVCCACHE_NVCC="/nope")
    assert (result.status, result.stdout) == (127, b"")
    assert b"NVCCACHE_NVCC" in result.stderr and b"/nope" in result.stderr


def test_nvccache_in_front_of_nvccache_compiles_and_counts_once(place: Workspace, launcher: Path) -> None:
    """As by CMake, and by a CC of the environment."""
    twice = place.directory / "twice"
    twice.symlink_to(launcher)
    for argv in ([*MODULE, launcher, "nvcc"], [launcher, twice, "nvccache", place.nvcc]):
        result, counters = place.since(lambda argv=argv: place.run([*argv, "-c", "a.cu", "-o", "a.o"]))
        assert (result.status, result.stderr, sum(counters.calls.values())) == (0, b"", 1)
        assert counters.outcome in ("miss", "direct_hit", "stage_hit")


def test_a_script_without_an_interpreter_line_is_started_as_by_a_shell(place: Workspace) -> None:
    script = place.write("scripts/g++", 'echo said "$@"\n')
    script.chmod(0o755)
    result = place.run([*MODULE, "scripts/g++", "a b"])
    assert (result.status, result.stdout, result.stderr) == (0, b"said a b\n", b"")
