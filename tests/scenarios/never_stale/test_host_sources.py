"""Sources without device code: one compile of the host compiler, whose inputs are observed over that run."""

from __future__ import annotations

import time

import pytest

from scenarios.support.both_ways import rebuild
from scenarios.support.cases import OLD_ENOUGH, Case, call, check, write
from workspaces import Workspace

SOURCE = '#include "h.h"\nint value() { return VALUE; }\n'
HERE = call(line="-I first -I second -c a.cpp -o a.o", makes=("a.o",))


FILES = {"first": None, "second/h.h": "#define VALUE 1\n", "a.cpp": SOURCE}
CASES = {
    "header before it": Case(write("first/h.h", "#define VALUE 2\n"), "`first/h.h`", FILES, HERE),
    "what the assembler reads": Case(
        write("blob", "b"),
        "`blob` changed",
        {**FILES, "a.cpp": 'asm(".incbin \\"blob\\"");\n', "blob": "a"},
        HERE,
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_a_host_source_is_compiled_again_after_a_change(workspace: Workspace, what: str) -> None:
    check(workspace, CASES[what])


def test_a_host_source_in_another_directory_is_compiled_with_its_own_headers(workspace: Workspace) -> None:
    """Another directory has other headers of the same names, and is named in debug information."""
    text = '#include "h.h"\n#include <cassert>\nint f(int i) { assert(i); return VALUE + sizeof __FILE__; }\n'
    for number, place in enumerate(("one", "another")):
        workspace.write(f"{place}/a.cpp", text)
        workspace.write(f"{place}/h.h", f"#define VALUE {number}\n")
    for place in ("one", "another", "one"):
        directory = workspace.directory / place
        rebuild(workspace, "-g", "-c", "a.cpp", cwd=directory)
        time.sleep(OLD_ENOUGH)


def test_a_host_source_by_its_full_name_is_shared_between_directories(workspace: Workspace) -> None:
    source = workspace.write("a.cpp", "int f() { return 1; }\n")
    outcomes = []
    for place in ("one", "another"):
        (workspace.directory / place).mkdir()
        outcomes.append(rebuild(workspace, "-c", source, cwd=workspace.directory / place).outcome)
    assert outcomes == ["miss", "direct_hit"]
