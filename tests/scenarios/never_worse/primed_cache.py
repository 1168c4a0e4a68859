"""A cache that has one source's object, which each test may damage: for the tests of faults."""

from __future__ import annotations

from pathlib import Path

from scenarios.support.toolkits import HOST_OPTIONS
from workspaces import Result, Workspace


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
    """The call has a record; without it all stages hit."""
    for outcome in ("direct_hit", "stage_hit"):
        result, counters = workspace.since(lambda: compile_cached(workspace))
        assert (result.status, result.stderr) == (0, b"")
        assert (counters.outcome, counters.ran()) == (outcome, {})
        assert (workspace.directory / "a.o").read_bytes() == expected
        (workspace.directory / "a.o").unlink()
        workspace.forget_calls()


def check_heals(workspace: Workspace, expected: bytes) -> None:
    """The object is right whatever is left of the cache, also by stages alone; then all hit again."""
    check_compiles(workspace, expected)
    workspace.forget_calls()
    check_compiles(workspace, expected)
    check_hits(workspace, expected)
