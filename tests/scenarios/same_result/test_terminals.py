"""On a terminal diagnostics look as nvcc's do, coloured and folded, whoever looked before and where.

Plain nvcc and nvccache each have a pseudo-terminal for their standard error. What the terminal is like is
varied in each thing that the compilers go by, and each time the same sources are compiled.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

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


def compare(
    workspace: Workspace, variables: dict[str, str], columns: int = 80, argv: Sequence[str] = WORDS
) -> tuple[Result, str]:
    """What nvccache says is what nvcc says; with it, what became of the call."""
    plain = on_terminal(workspace, [workspace.nvcc, *argv], variables, columns)
    (workspace.directory / "a.o").unlink(missing_ok=True)
    time.sleep(OLD_ENOUGH)
    launched = [str(launcher_of_tree()), workspace.nvcc, *argv]
    cached, counters = workspace.since(lambda: on_terminal(workspace, launched, variables, columns))
    assert cached == plain
    assert (workspace.directory / "a.o").exists() == (plain.status == 0)
    return cached, counters.outcome


def test_colours_cold_and_warm(workspace: Workspace) -> None:
    found, outcome = compare(workspace, COLOURED)
    assert (found.stderr.count(ESCAPE) > 8, outcome) == (True, "miss")
    assert compare(workspace, COLOURED)[1] == "direct_hit"
    workspace.forget_calls()
    assert compare(workspace, COLOURED)[1] == "stage_hit"


@pytest.mark.by_default("True")
@pytest.mark.parametrize("first_on_terminal", [True, False])
def test_a_pipe_and_a_terminal_do_not_share_diagnostics(
    workspace: Workspace, first_on_terminal: bool
) -> None:
    plain = MILLISECONDS.sub(b"", workspace.plain(*WORDS).stderr)
    for on_a_terminal in (first_on_terminal, not first_on_terminal, first_on_terminal):
        if on_a_terminal:
            assert compare(workspace, COLOURED)[0].stderr.count(ESCAPE) > 8
        else:
            assert MILLISECONDS.sub(b"", workspace.cached(*WORDS, **COLOURED).stderr) == plain
            workspace.forget_calls()
            assert MILLISECONDS.sub(b"", workspace.cached(*WORDS, **COLOURED).stderr) == plain


@pytest.mark.full
def test_a_touched_source(workspace: Workspace) -> None:
    """Without its replay record a call is answered by what it means."""
    plain = MILLISECONDS.sub(b"", workspace.plain(*WORDS).stderr)
    workspace.cached(*WORDS)
    os.utime(workspace.directory / "a.cu")
    assert compare(workspace, COLOURED)[0].stderr.count(ESCAPE) > 8
    os.utime(workspace.directory / "a.cu")
    assert MILLISECONDS.sub(b"", workspace.cached(*WORDS, **COLOURED).stderr) == plain
    os.utime(workspace.directory / "a.cu")
    assert compare(workspace, COLOURED)[1] == "direct_hit"


@pytest.mark.full
def test_without_diagnostics_they_share_everything(workspace: Workspace) -> None:
    workspace.write("a.cu", "__global__ void k(int *p) { *p = 1; }\n")
    argv = (*HOST_OPTIONS, "-arch=sm_80", "-c", "a.cu", "-o", "a.o")
    assert compare(workspace, COLOURED, argv=argv)[1] == "miss"
    _, counters = workspace.since(lambda: workspace.cached(*argv, **COLOURED))
    assert counters.outcome == "direct_hit"
    workspace.forget_calls()
    _, counters = workspace.since(lambda: workspace.cached(*argv, **COLOURED))
    assert counters.outcome == "stage_hit"
    assert compare(workspace, COLOURED, argv=argv)[1] == "direct_hit"


@pytest.mark.by_default("colours")
@pytest.mark.parametrize(
    "variables",
    [{"TERM": "dumb"}, {}, {**COLOURED, "GCC_COLORS": "warning=34"}, {**COLOURED, "NOCOLOR": "1"}],
    ids=["dumb", "unknown", "colours", "none"],
)
def test_what_the_terminal_understands(workspace: Workspace, variables: dict[str, str]) -> None:
    compare(workspace, COLOURED)
    compare(workspace, variables)
    workspace.forget_calls()
    assert compare(workspace, variables)[1] == "stage_hit"


def test_how_wide_it_is(workspace: Workspace) -> None:
    workspace.write("a.cu", f"/* {'far ' * 30}*/ {LOUD}")
    diagnostics = {columns: compare(workspace, COLOURED, columns)[0].stderr for columns in (80, 40, 0)}
    assert len(set(diagnostics.values())) > 1
    assert {columns: compare(workspace, COLOURED, columns) for columns in diagnostics} == {
        columns: (Result(0, b"", text), "direct_hit") for columns, text in diagnostics.items()
    }


@pytest.mark.full
def test_errors(workspace: Workspace) -> None:
    workspace.write("a.cu", LOUD + "int wrong = no_such_name;\n")
    assert compare(workspace, COLOURED)[1] == "failed"


@pytest.mark.full
def test_line_ends_are_not_doubled(workspace: Workspace) -> None:
    found, _ = compare(workspace, COLOURED)
    assert b"\r\r" not in found.stderr


def test_a_bypass_has_the_terminal_itself(workspace: Workspace) -> None:
    found, outcome = compare(workspace, COLOURED, argv=(*WORDS, "-objtemp"))
    assert (found.stderr.count(ESCAPE) > 8, outcome) == (True, "bypass")
