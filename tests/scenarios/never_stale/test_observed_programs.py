"""The programs that a compile starts and what these read for themselves: gcc's parts, nvcc's profile."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from scenarios.never_stale.gcc_trees import gcc_tree, own_headers, own_part
from scenarios.support.cases import (
    COMMAND,
    FLOATS,
    KERNEL,
    Case,
    Change,
    Link,
    behind,
    both,
    call,
    check_both,
    own_toolkit,
    value,
)
from scenarios.support.toolkits import HOST_COMPILER, edit, replace
from workspaces import Workspace

pytestmark = pytest.mark.light

SOURCE = {"a.cu": "#ifndef VALUE\n#define VALUE 1\n#endif\n" + KERNEL}
OWN = "-ccbin {work}/gcc"  # a link to the driver of a tree
DEFINING = "*cpp_unique_options:\n+ -DVALUE=2\n\n"
WITHOUT_IDENT = "*cc1plus:\n+ -fno-ident\n\n"
MORE = """
#if !defined(__CUDACC__) && !defined(MORE)
#define MORE
extern const int more;
const int more = 2;
#endif
"""


def tree(workspace: Workspace, name: str = "tree") -> Path:
    """The driver of a gcc of the workspace's own, and a link to it."""
    driver = gcc_tree(workspace.directory / name)
    (workspace.directory / "gcc").unlink(missing_ok=True)
    (workspace.directory / "gcc").symlink_to(driver)
    return driver


def driver_of(workspace: Workspace) -> Path:
    return (workspace.directory / "gcc").resolve()


def beside_compiler(name: str, text: str, mode: int = 0o644) -> Change:
    """A file beside cc1plus."""
    return lambda workspace: replace(own_part(driver_of(workspace), "cc1plus").parent / name, text, mode)


def talking(real: str) -> str:
    """A script in the place of a program, whose voice is heard."""
    return f'#!/bin/sh\necho said >&2\nexec "{shutil.which(real)}" "$@"\n'


def unidentified(workspace: Workspace, place: Path) -> None:
    """A cc1plus that adds an option to what the real one is given."""
    asked = workspace.run([HOST_COMPILER, "-print-prog-name=cc1plus"]).stdout.decode().strip()
    replace(place, f'#!/bin/sh\nexec "{shutil.which(asked)}" "$@" -fno-ident\n')


TREES = {
    "specs that define a macro": Case(change=beside_compiler("specs", DEFINING), call=COMMAND),
    "specs that add an option": Case(change=beside_compiler("specs", WITHOUT_IDENT), call=COMMAND),
    "specs that are edited": Case(
        change=beside_compiler("specs", DEFINING),
        prepare=beside_compiler("specs", DEFINING.replace("2", "3")),
        call=COMMAND,
    ),
    "an assembler": Case(change=beside_compiler("as", talking("as"), 0o755), call=COMMAND),
    "a header of its own": Case(
        change=lambda workspace: edit(own_headers(driver_of(workspace)) / "stddef.h", "#define VALUE 2\n"),
        call=COMMAND,
    ),
}


@pytest.mark.by_default("specs that add an option")
@pytest.mark.parametrize("what", TREES)
def test_what_lies_beside_the_parts_of_gcc(workspace: Workspace, what: str) -> None:
    case = TREES[what]

    def put(workspace: Workspace) -> None:
        tree(workspace)
        if case.prepare:
            case.prepare(workspace)

    source = {"a.cu": "#include <stddef.h>\n" + SOURCE["a.cu"]}
    check_both(workspace, Case(change=case.change, files=source, call=call(OWN), prepare=put))


@pytest.mark.full
def test_an_assembler_that_appears_earlier_on_path(workspace: Workspace) -> None:
    def appear(workspace: Workspace) -> None:
        replace(workspace.directory / "early" / "as", talking("as"))

    check_both(
        workspace, Case(change=appear, files={**SOURCE, "early": None}, call=call(PATH="{work}/early:{path}"))
    )


@pytest.mark.by_default("cc1plus")
@pytest.mark.parametrize("part", ["cc1plus", "as", "specs"])
def test_a_part_that_appears_in_a_directory_of_compiler_path(workspace: Workspace, part: str) -> None:
    def appear(workspace: Workspace) -> None:
        place = workspace.directory / "parts" / part
        if part == "cc1plus":
            unidentified(workspace, place)
        elif part == "as":
            replace(place, talking("as"))
        else:
            replace(place, DEFINING, 0o644)

    variable = "LIBRARY_PATH" if part == "specs" else "COMPILER_PATH"
    check_both(
        workspace,
        Case(change=appear, files={**SOURCE, "parts": None}, call=call(**{variable: "{work}/parts"})),
    )


@pytest.mark.full
def test_another_cc1plus_in_compiler_path(workspace: Workspace) -> None:
    def put(workspace: Workspace) -> None:
        (workspace.directory / "one").mkdir()
        (workspace.directory / "two").mkdir()
        unidentified(workspace, workspace.directory / "two" / "cc1plus")

    lines = [call(COMPILER_PATH=f"{{work}}/{name}") for name in ("one", "two")]
    check_both(workspace, Case(change=None, files=SOURCE, call=lines[0], then=lines[1], prepare=put))


def two_trees(workspace: Workspace) -> None:
    """The same programs; and headers of gcc's own that differ where only the last compile sees it."""
    edit(own_toolkit(workspace) / "include/crt/common_functions.h", "\n#include <iso646.h>\n")
    for name in ("two", "one"):
        headers = own_headers(tree(workspace, name))
        if name == "two":
            edit(headers / "iso646.h", MORE)


def relocate(workspace: Workspace) -> None:
    (workspace.directory / "one").rename(workspace.directory / "away")
    (workspace.directory / "two").rename(workspace.directory / "one")


def relink(workspace: Workspace) -> None:
    two = workspace.directory / "two" / driver_of(workspace).relative_to(workspace.directory / "one")
    (workspace.directory / "gcc").unlink()
    (workspace.directory / "gcc").symlink_to(two)


@pytest.mark.by_default("relocate")
@pytest.mark.parametrize("change", [relink, relocate])
def test_two_trees_with_the_same_programs(workspace: Workspace, change: Change) -> None:
    check_both(workspace, Case(change=change, files=SOURCE, call=call(OWN), prepare=two_trees))


@pytest.mark.full
def test_two_trees_by_their_names(workspace: Workspace) -> None:
    """As stages they have the same commands but for the name of the compiler."""
    two_trees(workspace)
    own = driver_of(workspace)
    lines = [
        call(f"-ccbin {{work}}/{name}/{own.relative_to(workspace.directory / 'one')}")
        for name in ("one", "two")
    ]
    check_both(workspace, Case(change=None, files=SOURCE, call=lines[0], then=lines[1]))


@pytest.mark.full
def test_a_compiler_that_is_a_link_and_leads_to_a_script(workspace: Workspace) -> None:
    real = os.path.realpath(HOST_COMPILER)

    def swap(workspace: Workspace) -> None:
        replace(workspace.directory / "other", f'#!/bin/sh\nexec {real} -DVALUE=2 "$@"\n')
        (workspace.directory / "linked-g++").unlink()
        (workspace.directory / "linked-g++").symlink_to("other")

    check_both(
        workspace,
        Case(change=swap, files={**SOURCE, "linked-g++": Link(real)}, call=call("-ccbin {work}/linked-g++")),
    )


@pytest.mark.full
def test_a_directory_of_compilers_that_is_a_link(workspace: Workspace) -> None:
    def put(workspace: Workspace) -> None:
        for number in (1, 2):
            (workspace.directory / f"bin{number}").mkdir()
            for name in ("gcc", "g++"):
                text = f'#!/bin/sh\nexec {HOST_COMPILER} -DVALUE={number} "$@"\n'
                replace(workspace.directory / f"bin{number}" / name, text)

    def swap(workspace: Workspace) -> None:
        (workspace.directory / "bin").unlink()
        (workspace.directory / "bin").symlink_to("bin2")

    check_both(
        workspace,
        Case(change=swap, files={**SOURCE, "bin": Link("bin1")}, call=call("-ccbin {work}/bin"), prepare=put),
    )


def test_a_variable_of_a_site_in_the_profile(workspace: Workspace) -> None:
    def put(workspace: Workspace) -> None:
        edit(own_toolkit(workspace) / "bin/nvcc.profile", '\nINCLUDES += "-I$(SITE)" $(_SPACE_)\n')

    files = {"a.cu": behind("#include <h.h>"), **both("one/h.h"), "two/h.h": value(2)}
    check_both(
        workspace,
        Case(
            change=None, files=files, call=call(SITE="{work}/one"), then=call(SITE="{work}/two"), prepare=put
        ),
    )


@pytest.mark.full
def test_a_variable_of_a_site_for_ptxas(workspace: Workspace) -> None:
    def put(workspace: Workspace) -> None:
        edit(own_toolkit(workspace) / "bin/nvcc.profile", "\nPTXAS_FLAGS += $(SITE_LEVEL)\n")

    check_both(
        workspace,
        Case(
            change=None,
            files={"a.cu": FLOATS},
            call=call(SITE_LEVEL="-O3"),
            then=call(SITE_LEVEL="-O0"),
            prepare=put,
        ),
    )


@pytest.mark.full
def test_a_toolkit_that_is_a_link(workspace: Workspace) -> None:
    """As `/usr/local/cuda` is: the tools are the same, a header is another."""
    first = own_toolkit(workspace)
    second = first.with_name("second")
    shutil.copytree(first, second, symlinks=True)
    edit(second / "include/crt/host_defines.h", "\n#define VALUE 2\n")
    chosen = workspace.directory / "cuda"
    chosen.symlink_to(first)
    workspace.nvcc = str(chosen / "bin" / "nvcc")

    def swap(workspace: Workspace) -> None:
        chosen.unlink()
        chosen.symlink_to(second)

    check_both(workspace, Case(change=swap, files=SOURCE, call=COMMAND))
