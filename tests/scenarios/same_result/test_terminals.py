"""On a terminal diagnostics are those that nvcc writes to a pipe, and shared with builds that use one."""

from __future__ import annotations

import time

import pytest

from installations import launcher_of_tree
from scenarios.support.terminals import MILLISECONDS, on_terminal
from scenarios.support.toolkits import HOST_OPTIONS
from workspaces import OLD_ENOUGH, Result, Workspace

pytestmark = pytest.mark.light_by_default

# A warning of the preprocessor, of both front ends, of ptxas and of the host compiler.
LOUD = (
    '#warning "look here"\n'
    "__global__ void k(int *p) { int unused; *p = 1; }\n"
    "static int never(int a) { int b; return a; }\n"
)
WORDS = (*HOST_OPTIONS, "-arch=sm_80", "-Xcompiler", "-Wall", "-Xptxas", "-v", "-c", "a.cu", "-o", "a.o")
COLOURED = {"TERM": "xterm-256color"}
ESCAPE = b"\x1b["


@pytest.fixture
def workspace(workspace: Workspace) -> Workspace:
    workspace.write("a.cu", LOUD)
    for name in ("TERM", "COLORTERM", "COLUMNS", "GCC_COLORS", "NO_COLOR"):
        workspace.environ.pop(name, None)
    return workspace


def cached_on_terminal(workspace: Workspace, *argv: str) -> tuple[Result, str]:
    """What nvccache shows on a terminal, and what became of the call."""
    time.sleep(OLD_ENOUGH)
    launched = [str(launcher_of_tree()), workspace.nvcc, *argv]
    found, counters = workspace.since(lambda: on_terminal(workspace, launched, COLOURED))
    # A terminal makes "\r\n" of line ends.
    return Result(found.status, found.stdout, found.stderr.replace(b"\r\n", b"\n")), counters.outcome


def through_pipe(workspace: Workspace, *argv: str) -> Result:
    plain = workspace.plain(*argv, **COLOURED)
    return Result(plain.status, plain.stdout, MILLISECONDS.sub(b"# ms", plain.stderr))


def test_a_terminal_shows_what_a_pipe_gets(workspace: Workspace) -> None:
    """As a miss, a replay, a stage hit and a direct hit; so a pipe and a terminal share a result."""
    expected = through_pipe(workspace, *WORDS)
    assert b"unused" in expected.stderr and ESCAPE not in expected.stderr
    assert cached_on_terminal(workspace, *WORDS) == (expected, "miss")
    assert cached_on_terminal(workspace, *WORDS) == (expected, "direct_hit")
    workspace.forget_calls()
    assert cached_on_terminal(workspace, *WORDS) == (expected, "stage_hit")
    (workspace.directory / "a.cu").touch()
    assert cached_on_terminal(workspace, *WORDS) == (expected, "direct_hit")
    _, counters = workspace.since(lambda: workspace.cached(*WORDS, **COLOURED))
    assert counters.outcome == "direct_hit"


def test_colours_that_an_option_asks_for(workspace: Workspace) -> None:
    argv = (*WORDS, "-Xcompiler", "-fdiagnostics-color=always")
    expected = through_pipe(workspace, *argv)
    assert ESCAPE in expected.stderr
    assert cached_on_terminal(workspace, *argv) == (expected, "miss")
    assert cached_on_terminal(workspace, *argv) == (expected, "direct_hit")


def test_a_bypass_has_the_terminal_itself(workspace: Workspace) -> None:
    argv = (*WORDS, "-objtemp")
    found, outcome = cached_on_terminal(workspace, *argv)
    plain = on_terminal(workspace, [workspace.nvcc, *argv], COLOURED)
    assert found.stderr == plain.stderr.replace(b"\r\n", b"\n")
    assert (found.stderr.count(ESCAPE) > 8, outcome) == (True, "bypass")
