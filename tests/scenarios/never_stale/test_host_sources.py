"""Sources without device code: one compile of the host compiler, whose inputs are observed over that run."""

from __future__ import annotations

import time

import pytest

from scenarios.support.both_ways import rebuild
from scenarios.support.cases import OLD_ENOUGH, Case, Change, Files, call, check, write
from workspaces import Workspace

pytestmark = pytest.mark.light
SOURCE = '#include "h.h"\nint value() { return VALUE; }\n'
HERE = call(line="-I first -I second -c a.cpp -o a.o", makes=("a.o",))


def case(
    change: Change, cause: str, source: str = SOURCE, files: Files | None = None, line: str = ""
) -> Case:
    both: Files = {"first": None, "second/h.h": "#define VALUE 1\n", "a.cpp": source, **(files or {})}
    which = call(line=line, makes=("a.o", "a.d")) if line else HERE
    return Case(change, cause, both, which)


CASES = {
    "header before it": case(write("first/h.h", "#define VALUE 2\n"), "`first/h.h`"),
    "what the assembler reads": case(
        write("blob", "b"), "`blob` changed", 'asm(".incbin \\"blob\\"");\n', {"blob": "a"}
    ),
    "header, in C, with a depfile": case(
        write("second/h.h", "#define VALUE 2\n"),
        "`second/h.h` changed",
        files={"a.c": SOURCE.replace("()", "(void)")},
        line="-I second -x c -MMD -MF a.d -c a.c -o a.o",
    ),
}


@pytest.mark.by_default("header before it", "what the assembler reads")
@pytest.mark.parametrize("what", CASES)
def test_a_host_source_is_compiled_again_after_a_change(workspace: Workspace, what: str) -> None:
    check(workspace, CASES[what])


def test_a_host_source_that_reads_the_clock_is_compiled_each_time(workspace: Workspace) -> None:
    workspace.write("a.cpp", 'extern const char when[] = "" __TIME__;\n')
    for _ in range(2):
        _, counters = workspace.since(lambda: workspace.cached("-c", "a.cpp"))
        assert counters.ran() == {"host_compile": 1}


def test_a_host_source_elsewhere(workspace: Workspace) -> None:
    """Another directory has other headers of the same names, and is named in debug information."""
    text = '#include "h.h"\n#include <cassert>\nint f(int i) { assert(i); return VALUE + sizeof __FILE__; }\n'
    for number, place in enumerate(("one", "another")):
        workspace.write(f"{place}/a.cpp", text)
        workspace.write(f"{place}/h.h", f"#define VALUE {number}\n")
    for place in ("one", "another", "one"):
        directory = workspace.directory / place
        for source in ("a.cpp", directory / "a.cpp"):
            rebuild(workspace, "-g", "-c", source, cwd=directory)
            time.sleep(OLD_ENOUGH)


def test_a_host_source_by_its_full_name_is_shared_between_directories(workspace: Workspace) -> None:
    source = workspace.write("a.cpp", "int f() { return 1; }\n")
    outcomes = []
    for place in ("one", "another"):
        (workspace.directory / place).mkdir()
        outcomes.append(rebuild(workspace, "-c", source, cwd=workspace.directory / place).outcome)
    assert outcomes == ["miss", "direct_hit"]
