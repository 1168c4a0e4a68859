"""The programs that host compilers start and what these read for themselves."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from scenarios.never_stale.gcc_trees import gcc_tree, own_headers, own_part
from scenarios.support.cases import (
    KERNEL,
    Case,
    Change,
    behind,
    both,
    call,
    check,
    each,
    link,
    move,
    own_toolkit,
    value,
    write,
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
    """The driver of the workspace's own gcc, and a link to it."""
    driver = gcc_tree(workspace.directory / name)
    link("gcc", str(driver))(workspace)
    return driver


def driver_of(workspace: Workspace) -> Path:
    return (workspace.directory / "gcc").resolve()


def beside_compiler(name: str, text: str, mode: int = 0o644) -> Change:
    """A file next to cc1plus."""
    return lambda workspace: replace(own_part(driver_of(workspace), "cc1plus").parent / name, text, mode)


def talking(real: str) -> str:
    """A script in place of a program, whose message is visible."""
    return f'#!/bin/sh\necho said >&2\nexec "{shutil.which(real)}" "$@"\n'


def unidentified() -> str:
    """A cc1plus that adds an option for the real one."""
    asked = subprocess.run(
        [HOST_COMPILER, "-print-prog-name=cc1plus"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return f'#!/bin/sh\nexec "{shutil.which(asked)}" "$@" -fno-ident\n'


TREES = {
    "specs that add an option": Case(change=beside_compiler("specs", WITHOUT_IDENT)),
    "an assembler": Case(change=beside_compiler("as", talking("as"), 0o755)),
    "a header of its own": Case(
        change=lambda workspace: edit(own_headers(driver_of(workspace)) / "stddef.h", "#define VALUE 2\n"),
    ),
}


@pytest.mark.by_default("specs that add an option")
@pytest.mark.parametrize("what", TREES)
def test_what_lies_beside_the_parts_of_gcc(workspace: Workspace, what: str) -> None:
    case = TREES[what]
    source = {"a.cu": "#include <stddef.h>\n" + SOURCE["a.cu"]}
    put = each(tree, case.prepare) if case.prepare else tree
    check(workspace, Case(change=case.change, files=source, call=call(OWN), prepare=put))


# The file that appears, its content, and the variables that lead to it.
APPEARING = {
    "cc1plus": (unidentified, {"COMPILER_PATH": "{work}/parts"}),
    "specs": (lambda: DEFINING, {"LIBRARY_PATH": "{work}/parts"}),
    "as on PATH": (lambda: talking("as"), {"PATH": "{work}/parts:{path}"}),
}


@pytest.mark.by_default("cc1plus")
@pytest.mark.parametrize("part", APPEARING)
def test_a_part_of_gcc_that_appears(workspace: Workspace, part: str) -> None:
    text, variables = APPEARING[part]
    place = workspace.directory / "parts" / part.partition(" ")[0]
    files = {**SOURCE, "parts": None}
    check(workspace, Case(lambda _: replace(place, text()), files=files, call=call(**variables)))


def two_trees(workspace: Workspace) -> None:
    """The same programs; and gcc headers that differ only for the last compile."""
    edit(own_toolkit(workspace) / "include/crt/common_functions.h", "\n#include <iso646.h>\n")
    for name in ("two", "one"):
        headers = own_headers(tree(workspace, name))
        if name == "two":
            edit(headers / "iso646.h", MORE)


def relocate(workspace: Workspace) -> None:
    each(move("one", "away"), move("two", "one"))(workspace)


def relink(workspace: Workspace) -> None:
    two = workspace.directory / "two" / driver_of(workspace).relative_to(workspace.directory / "one")
    link("gcc", str(two))(workspace)


@pytest.mark.by_default("relocate")
@pytest.mark.parametrize("change", [relink, relocate])
def test_two_trees_with_the_same_programs(workspace: Workspace, change: Change) -> None:
    check(workspace, Case(change=change, files=SOURCE, call=call(OWN), prepare=two_trees))


# A line of the profile that names a site's variable, the source, and the variable's values in turn.
IN_PROFILE = {
    "headers": (
        'INCLUDES += "-I$(SITE)" $(_SPACE_)',
        {"a.cu": behind("#include <h.h>"), **both("one/h.h"), "two/h.h": value(2)},
        ("{work}/one", "{work}/two"),
    ),
}


@pytest.mark.parametrize("what", IN_PROFILE)
def test_a_variable_of_a_site_in_the_profile(workspace: Workspace, what: str) -> None:
    line, files, (one, two) = IN_PROFILE[what]

    def put(workspace: Workspace) -> None:
        edit(own_toolkit(workspace) / "bin/nvcc.profile", f"\n{line}\n")

    check(workspace, Case(files=files, call=call(SITE=one), then=call(SITE=two), prepare=put))


@pytest.mark.full
def test_a_toolkit_that_is_a_link(workspace: Workspace) -> None:
    """As `/usr/local/cuda` is: the tools are the same, a header differs."""
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

    check(workspace, Case(change=swap, files=SOURCE))


OWN_CLANG = "-ccbin {work}/clang/bin/clang++"


@pytest.fixture
def clang(workspace: Workspace) -> str:
    names = ("clang++", *(f"clang++-{version}" for version in range(21, 10, -1)))
    found = next(filter(None, map(shutil.which, names)), None)
    if not found:
        pytest.skip("there is no clang++")
    workspace.write("probe.cu", KERNEL.replace("VALUE", "1"))
    probe = workspace.plain("-c", "probe.cu", "-ccbin", found, "-arch=sm_75", "-o", "probe.o")
    if probe.status != 0:
        pytest.skip(f"this nvcc does not take {found}: {probe.stderr.decode()}")
    return found


def own_clang(real: str) -> Change:
    """A copy of the driver, in a directory for a configuration file."""

    def apply(workspace: Workspace) -> None:
        original = Path(os.path.realpath(real))
        bin_directory = workspace.directory / "clang" / "bin"
        bin_directory.mkdir(parents=True)
        shutil.copy2(original, bin_directory / "clang++")
        (bin_directory.parent / "lib").symlink_to(original.parents[1] / "lib")

    return apply


def gcc_of(version: int, number: int) -> Change:
    """The parts of a gcc that clang looks up, with a header in its C++ library."""
    return each(
        write(f"gcc/lib/gcc/x86_64-linux-gnu/{version}/crtbegin.o", ""),
        write(f"gcc/include/c++/{version}/h.h", value(number)),
    )


@pytest.mark.by_default("another")
@pytest.mark.parametrize("before", ["nothing", "another"])
def test_a_configuration_beside_clang(workspace: Workspace, clang: str, before: str) -> None:
    version = re.search(rb"version (\d+)", workspace.run([clang, "--version"]).stdout)
    if not version or int(version[1]) < 16:
        pytest.skip("this clang reads no configuration unasked")
    name = "clang/bin/clang++.cfg"
    prepare = [own_clang(clang), *([write(name, "-DVALUE=3\n")] if before == "another" else [])]
    check(
        workspace,
        Case(change=write(name, "-DVALUE=2\n"), files=SOURCE, call=call(OWN_CLANG), prepare=each(*prepare)),
    )


def test_a_newer_gcc_in_the_toolchain_of_clang(workspace: Workspace, clang: str) -> None:
    options = f"-ccbin {clang} -Xcompiler --gcc-toolchain={{work}}/gcc"
    files = {"a.cu": behind("#include <h.h>")}
    check(workspace, Case(change=gcc_of(12, 2), files=files, call=call(options), prepare=gcc_of(11, 1)))


@pytest.mark.by_default("True")
@pytest.mark.parametrize("becomes_one", [False, True])
def test_headers_that_are_one_file_or_not(workspace: Workspace, clang: str, becomes_one: bool) -> None:
    """Under `#pragma once` clang identifies files by device and inode."""
    text = "#pragma once\n#ifdef VALUE\n#undef VALUE\n#define VALUE 2\n#else\n#define VALUE 1\n#endif\n"
    files = {"a.cu": behind('#include "x/h.h"\n#include "y/h.h"'), "x/h.h": text, "y/h.h": text}

    def one(workspace: Workspace) -> None:
        (workspace.directory / "y/h.h").unlink()
        os.link(workspace.directory / "x/h.h", workspace.directory / "y/h.h")

    def two(workspace: Workspace) -> None:
        (workspace.directory / "y/h.h").unlink()
        workspace.write("y/h.h", text)

    change, prepare = (one, two) if becomes_one else (two, one)
    check(workspace, Case(change=change, files=files, call=call(f"-ccbin {clang}"), prepare=prepare))
