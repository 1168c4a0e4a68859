"""An nvcc that is a script: one that becomes nvcc is seen through, any other runs as it is."""

from __future__ import annotations

import re
import time

import pytest

from scenarios.observed_cases import bench, call, light
from scenarios.observed_wrappers import script
from scenarios.soundness_cases import OLD_ENOUGH, Change, each
from workspaces import Workspace

__all__ = ["bench", "light"]

SOURCE = """#ifndef VALUE
#define VALUE 0
#endif
#define TEXT_OF(value) #value
#define TEXT(value) TEXT_OF(value)
__global__ void kernel(int *x) { *x = VALUE; }
const char *launch() { return "value-" TEXT(VALUE); }
"""
CALL = call()
ONE, TWO = "-DVALUE=1", "-DVALUE=2"
LAST = 'if [ "$last" = -arch=sm_75 ] || [ "$last" = g++ ]; then set -- "$@" {more}; fi'


def putting(text: str, option: str, nvcc: str, name: str, first: str = "#!/bin/sh") -> Change:
    """A script called nvcc; `{nvcc}` in its text is the real one, `{more}` an option."""
    return script(text.replace("{nvcc}", nvcc).replace("{more}", option), name, first)


# Each becomes nvcc, with an option that it chooses by what it can see.
BECOMES = {
    "one line": 'exec "{nvcc}" {more} "$@"',
    "a variable for nvcc": 'NVCC_PREPEND_FLAGS={more} exec "{nvcc}" "$@"',
    "a file that it sources": '. "$(dirname "$0")/settings"\nexec "{nvcc}" $FLAGS "$@"',
    "a loop over its arguments": (
        'for word; do case $word in -odir) exec "{nvcc}" "$@" ;; esac; done\nexec "{nvcc}" {more} "$@"'
    ),
    "whether it is a dry run": (
        'case " $* " in *" --dryrun "*) exec "{nvcc}" "$@" ;; esac\nexec "{nvcc}" {more} "$@"'
    ),
    "whether files are kept": 'case $* in *-keep*) ;; *) set -- {more} "$@" ;; esac\nexec "{nvcc}" "$@"',
    "its first argument": 'if [ "$1" = -c ]; then set -- "$@" {more}; fi\nexec "{nvcc}" "$@"',
    "its last argument": f'for last; do :; done\n{LAST}\nexec "{{nvcc}}" "$@"',
    "the number of its arguments": 'if [ $# -lt 12 ]; then set -- {more} "$@"; fi\nexec "{nvcc}" "$@"',
    "a script behind it that looks for the dry run": 'exec {work}/inner/nvcc "$@"',
}  # fmt: skip
# Each does what the dry run would not show, or what cannot be told.
REMAINS = {
    "it works on afterwards": '"{nvcc}" {more} "$@"\nstatus=$?\necho > {work}/after\nexit $status',
    "it works on afterwards and execs": '"{nvcc}" {more} "$@" || exit\necho > {work}/after\nexec true',
    "it is the last command": '"{nvcc}" {more} "$@"',
    "a trap": 'trap "echo > {work}/after" EXIT\n"{nvcc}" {more} "$@"',
    "a pipeline": 'set -e; { "{nvcc}" {more} "$@"; } 2>&1 | cat\nexec test -e a.o',
    "a terminal": 'if [ -t 2 ]; then COLOUR={more}; fi\nexec "{nvcc}" $COLOUR {more} "$@"',
    "a terminal in a script behind it": 'exec {work}/inner/nvcc "$@"',
    "the variables of nvcc": 'for word; do :; done\nunset NVCC_APPEND_FLAGS\nexec "{nvcc}" {more} "$@"',
    "an empty environment": 'for word; do :; done\nexec env - PATH="$PATH" "{nvcc}" {more} "$@"',
    "another program": 'if [ -e b.cu ]; then exec "{nvcc}" "$@"; fi\nexec nice "{nvcc}" {more} "$@"',
}
INNER = {
    "a script behind it that looks for the dry run": BECOMES["whether it is a dry run"],
    "a terminal in a script behind it": REMAINS["a terminal"],
}


def put(what: str, option: str, nvcc: str) -> Change:
    text = (BECOMES | REMAINS)[what]
    changes = [putting(text, option, nvcc, "bin/nvcc"), script(f"FLAGS={option}", "bin/settings")]
    if what in INNER:
        changes.append(putting(INNER[what], option, nvcc, "inner/nvcc"))
    return each(*changes)


def compiled(workspace: Workspace, *, cached: bool) -> tuple[bytes, bool, str]:
    """The value that an object has, whether the script has worked on afterwards, and the outcome."""
    for name in ("a.o", "a.d", "after"):
        (workspace.directory / name).unlink(missing_ok=True)
    run = workspace.cached if cached else workspace.plain
    result, counters = workspace.since(lambda: run(*CALL.argv(workspace)))
    assert result.status == 0, result.stderr
    found = re.search(rb"value-\d", (workspace.directory / "a.o").read_bytes())
    assert found
    outcome = " ".join([counters.outcome, *counters.bypass_reasons]) if cached else ""
    return found[0], (workspace.directory / "after").exists(), outcome


def compile_and_edit(workspace: Workspace, what: str) -> list[str]:
    """The outcomes of two calls, and of two behind the script once it was edited."""
    real, workspace.nvcc = workspace.nvcc, str(workspace.directory / "bin/nvcc")
    (workspace.directory / "a.cu").write_text(SOURCE)
    outcomes, values = [], []
    for option in (ONE, TWO):
        put(what, option, real)(workspace)
        for _ in range(2):
            time.sleep(OLD_ENOUGH)
            *expected, _ = compiled(workspace, cached=False)
            *made, outcome = compiled(workspace, cached=True)
            assert made == expected, outcome
            outcomes.append(outcome)
        values.append(expected[0])
    assert values == [b"value-1", b"value-2"]
    return outcomes


@pytest.mark.by_default("a loop over its arguments", "a script behind it that looks for the dry run")
@pytest.mark.parametrize("what", BECOMES)
def test_a_script_that_becomes_nvcc_is_seen_through(bench: Workspace, what: str) -> None:
    first, second, third, fourth = compile_and_edit(bench, what)
    assert (first, second, fourth) == ("miss", "direct_hit", "direct_hit")
    assert third in ("partial_hit", "miss")


@pytest.mark.by_default("it works on afterwards and execs", "a terminal in a script behind it")
@pytest.mark.parametrize("what", REMAINS)
def test_a_script_that_does_more_runs_as_it_is(bench: Workspace, what: str) -> None:
    assert compile_and_edit(bench, what) == ["bypass scripted_nvcc"] * 4


@pytest.mark.full
@pytest.mark.parametrize("first", ["#!{python}", "#!/usr/bin/perl"])
def test_a_script_for_something_else_than_a_shell_runs_as_it_is(bench: Workspace, first: str) -> None:
    perl = f'exec "{bench.nvcc}", @ARGV;'
    python = f'import os, sys\nos.execv("{bench.nvcc}", ["nvcc", *sys.argv[1:]])'
    script(perl if "perl" in first else python, "bin/nvcc", first)(bench)
    bench.nvcc = str(bench.directory / "bin/nvcc")
    (bench.directory / "a.cu").write_text(SOURCE)
    assert compiled(bench, cached=True) == (b"value-0", False, "bypass scripted_nvcc")
