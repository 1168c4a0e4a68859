"""An nvcc that is a script: the call counts as one of the nvcc it becomes, where that can be determined."""

from __future__ import annotations

import re
import time

import pytest

from scenarios.support.cases import OLD_ENOUGH, Change, call, each
from scenarios.support.observed_wrappers import script
from workspaces import Workspace

pytestmark = pytest.mark.light

SOURCE = """#ifndef VALUE
#define VALUE 0
#endif
#define TEXT_OF(value) #value
#define TEXT(value) TEXT_OF(value)
__global__ void kernel(int *x) { *x = VALUE; }
const char *launch() { return "value-" TEXT(VALUE); }
"""
CALL = call("-arch=sm_75")
ONE, TWO = "-DVALUE=1", "-DVALUE=2"
LAST = 'if [ "$last" = -arch=sm_75 ] || [ "$last" = g++ ]; then set -- "$@" {more}; fi'


def putting(text: str, option: str, nvcc: str, name: str, first: str = "#!/bin/sh") -> Change:
    """A script called nvcc; `{nvcc}` in its text is the real one, `{more}` an option."""
    return script(text.replace("{nvcc}", nvcc).replace("{more}", option), name, first)


# Each becomes nvcc, with an option.
HANDS_ON = {
    "one line": 'exec "{nvcc}" {more} "$@"',
    "a search path": 'export LD_LIBRARY_PATH={work} PATH="$PATH:{work}"\nexec "{nvcc}" {more} "$@"',
    "a file that it sources": '. "$(dirname "$0")/settings"\nexec "{nvcc}" $FLAGS "$@"',
    "it waits for nvcc": '"{nvcc}" {more} "$@"',
    "the variables of nvcc": 'for word; do :; done\nunset NVCC_APPEND_FLAGS\nexec "{nvcc}" {more} "$@"',
    "an empty environment": 'for word; do :; done\nexec env - PATH="$PATH" "{nvcc}" {more} "$@"',
    # By properties of the call that it can see.
    "a loop over its arguments": (
        'for word; do case $word in -odir) exec "{nvcc}" "$@" ;; esac; done\nexec "{nvcc}" {more} "$@"'
    ),
    "whether it is a dry run": (
        'case " $* " in *" --dryrun "*) exec "{nvcc}" "$@" ;; esac\nexec "{nvcc}" {more} "$@"'
    ),
    "a script behind it that looks for the dry run": 'exec {work}/inner/nvcc "$@"',
}  # fmt: skip
# Each does what the dry run would not show, or what cannot be determined.
REMAINS = {
    "it works on afterwards": '"{nvcc}" {more} "$@"\nstatus=$?\necho > {work}/after\nexit $status',
    "it looks at what was made": '"{nvcc}" {more} "$@"\nif [ -s a.o ]; then echo > {work}/after; fi',
    "a library": 'LD_PRELOAD="{work}/none.so:$LD_PRELOAD" exec "{nvcc}" {more} "$@"',
    "a trap": 'trap "echo > {work}/after" EXIT\n"{nvcc}" {more} "$@"',
    "a pipeline": 'set -e; { "{nvcc}" {more} "$@"; } 2>&1 | cat\nexec test -e a.o',
    "a terminal": 'if [ -t 2 ]; then COLOUR={more}; fi\nexec "{nvcc}" $COLOUR {more} "$@"',
    "a terminal in a script behind it": 'exec {work}/inner/nvcc "$@"',
    "the mask of modes": 'umask 077\nexec "{nvcc}" {more} "$@"',
    "where messages go": 'exec "{nvcc}" {more} "$@" 2>&1',
}
INNER = {
    "a script behind it that looks for the dry run": HANDS_ON["whether it is a dry run"],
    "a terminal in a script behind it": REMAINS["a terminal"],
}


def put(what: str, option: str, nvcc: str) -> Change:
    text = (HANDS_ON | REMAINS)[what]
    changes = [putting(text, option, nvcc, "bin/nvcc"), script(f"FLAGS={option}", "bin/settings")]
    if what in INNER:
        changes.append(putting(INNER[what], option, nvcc, "inner/nvcc"))
    return each(*changes)


def use(workspace: Workspace, text: str, first: str = "#!/bin/sh") -> None:
    """Make a script with this text nvcc, and write a source."""
    script(text, "bin/nvcc", first)(workspace)
    workspace.nvcc = str(workspace.directory / "bin/nvcc")
    (workspace.directory / "a.cu").write_text(SOURCE)


def compiled(workspace: Workspace, *, cached: bool) -> tuple[bytes, bool, str]:
    """The value in the object, whether the script continued afterwards, and the outcome."""
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
    """The outcomes of two calls, and of two more after the script was edited."""
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


@pytest.mark.by_default("a search path", "it waits for nvcc", "a script behind it that looks for the dry run")
@pytest.mark.parametrize("what", HANDS_ON)
def test_a_script_that_becomes_nvcc_is_seen_through(workspace: Workspace, what: str) -> None:
    first, second, third, fourth = compile_and_edit(workspace, what)
    assert (first, second, fourth) == ("miss", "direct_hit", "direct_hit")
    assert third in ("partial_hit", "miss")


@pytest.mark.by_default("it looks at what was made", "a terminal in a script behind it", "where messages go")
@pytest.mark.parametrize("what", REMAINS)
def test_a_script_that_does_more_runs_as_it_is(workspace: Workspace, what: str) -> None:
    assert compile_and_edit(workspace, what) == ["bypass scripted_nvcc"] * 4


@pytest.mark.parametrize("first", ["#!{python}", "#!/usr/bin/perl"])
def test_a_script_for_something_else_than_a_shell(workspace: Workspace, first: str) -> None:
    perl = f'exec "{workspace.nvcc}", @ARGV;'
    python = f'import os, sys\nos.execv("{workspace.nvcc}", ["nvcc", *sys.argv[1:]])'
    use(workspace, perl if "perl" in first else python, first)
    for outcome in ("miss", "direct_hit"):
        assert compiled(workspace, cached=True) == (b"value-0", False, outcome)


def test_a_script_that_works_elsewhere_runs_as_it_is(workspace: Workspace) -> None:
    use(workspace, f'cd inner\nexec "{workspace.nvcc}" "$@"')
    (workspace.directory / "inner").mkdir()
    (workspace.directory / "inner" / "a.cu").write_text(SOURCE)
    result, counters = workspace.since(lambda: workspace.cached(*CALL.argv(workspace)))
    assert (result.status, counters.bypass_reasons) == (0, {"scripted_nvcc": 1}), result.stderr
    assert (workspace.directory / "inner" / "a.o").exists()
    assert not (workspace.directory / "a.o").exists()


def test_a_script_that_chooses_by_the_name_of_the_output(workspace: Workspace) -> None:
    use(workspace, f'case "$*" in *out/*) V=1 ;; *) V=2 ;; esac\nexec "{workspace.nvcc}" -DVALUE=$V "$@"')
    (workspace.directory / "out").mkdir()
    for output, value in ("a.o", b"value-2"), ("out/a.o", b"value-1"):
        argv = [output if word == "a.o" else word for word in CALL.argv(workspace)]
        assert workspace.cached(*argv).status == 0
        assert value in (workspace.directory / output).read_bytes()


def test_what_a_script_becomes_is_looked_for_again_on_another_path(workspace: Workspace) -> None:
    real = workspace.nvcc
    use(workspace, 'exec real-nvcc "$@"')
    for option in (ONE, TWO):
        putting('exec "{nvcc}" {more} "$@"', option, real, f"on{option}/real-nvcc")(workspace)
    path = workspace.environ["PATH"]
    for option, value in (ONE, b"value-1"), (TWO, b"value-2"):
        workspace.environ["PATH"] = f"{workspace.directory}/on{option}:{path}"
        assert compiled(workspace, cached=True)[0] == value
