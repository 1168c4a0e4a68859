"""A cache that has one source's object, which each test may damage: for the tests of faults."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scenarios.support.both_ways import object_by_plain
from scenarios.support.toolkits import HOST_OPTIONS, SOURCE
from workspaces import Result, Workspace, make_workspace


def compile_cached(workspace: Workspace, *others: str | Path, **variables: str) -> Result:
    return workspace.cached("-c", "a.cu", "-o", "a.o", *HOST_OPTIONS, *others, **variables)


def compile_plain(workspace: Workspace, *others: str | Path, **variables: str) -> Result:
    return workspace.plain("-c", "a.cu", "-o", "a.o", *HOST_OPTIONS, *others, **variables)


def check_compiles(workspace: Workspace, expected: bytes, **variables: str) -> None:
    result = compile_cached(workspace, **variables)
    assert (result.status, result.stdout, result.stderr) == (0, b"", b"")
    assert (workspace.directory / "a.o").read_bytes() == expected
    (workspace.directory / "a.o").unlink()


def check_hits(workspace: Workspace, expected: bytes) -> None:
    """There is a record of the call; and without it all stages hit."""
    for outcome in ("direct_hit", "stage_hit"):
        result, counters = workspace.since(lambda: compile_cached(workspace))
        assert (result.status, result.stderr) == (0, b"")
        assert (counters.outcome, counters.ran()) == (outcome, {})
        assert (workspace.directory / "a.o").read_bytes() == expected
        (workspace.directory / "a.o").unlink()
        workspace.forget_calls()


def check_heals(workspace: Workspace, expected: bytes) -> None:
    """The object is right whatever is left of the cache, of the stages alone too; then all hit again."""
    check_compiles(workspace, expected)
    workspace.forget_calls()
    check_compiles(workspace, expected)
    check_hits(workspace, expected)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, nvcc: str) -> tuple[Workspace, bytes, Path]:
    workspace = make_workspace(tmp_path_factory.mktemp("shared"), nvcc)
    workspace.write("a.cu", SOURCE)
    expected = object_by_plain(workspace, "a.cu")
    check_compiles(workspace, expected)
    saved = workspace.cache.parent / "saved"
    shutil.copytree(workspace.cache, saved)
    return workspace, expected, saved


@pytest.fixture
def primed(shared: tuple[Workspace, bytes, Path]) -> tuple[Workspace, bytes]:
    """A source, its object by plain nvcc, and a cache that has it."""
    workspace, expected, saved = shared
    workspace.write("a.cu", SOURCE)
    workspace.environ["NVCCACHE_DIR"] = str(saved.parent / "cache")
    shutil.rmtree(workspace.cache, ignore_errors=True)
    shutil.copytree(saved, workspace.cache)
    return workspace, expected
