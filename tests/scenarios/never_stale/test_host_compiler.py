"""The programs that host compilers start and what these read for themselves."""

from __future__ import annotations

import os
import re
import shutil
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


def add_specs(workspace: Workspace) -> None:
    """A file next to cc1plus that adds an option."""
    place = own_part((workspace.directory / "gcc").resolve(), "cc1plus").parent
    replace(place / "specs", "*cc1plus:\n+ -fno-ident\n\n", 0o644)


def add_compiler(workspace: Workspace) -> None:
    """A cc1plus that adds an option for the real one."""
    asked = workspace.run([HOST_COMPILER, "-print-prog-name=cc1plus"]).stdout.decode().strip()
    text = f'#!/bin/sh\nexec "{shutil.which(asked)}" "$@" -fno-ident\n'
    replace(workspace.directory / "parts/cc1plus", text)


def two_trees(workspace: Workspace) -> None:
    """The same programs; and gcc headers that differ only for the last compile."""
    edit(own_toolkit(workspace) / "include/crt/common_functions.h", "\n#include <iso646.h>\n")
    for name in ("two", "one"):
        headers = own_headers(tree(workspace, name))
        if name == "two":
            edit(headers / "iso646.h", MORE)


def put_site_into_profile(workspace: Workspace) -> None:
    edit(own_toolkit(workspace) / "bin/nvcc.profile", '\nINCLUDES += "-I$(SITE)" $(_SPACE_)\n')


def two_toolkits(workspace: Workspace) -> None:
    """Reached by a link, as `/usr/local/cuda` is: the tools are the same, a header differs."""
    first = own_toolkit(workspace)
    second = first.with_name("second")
    shutil.copytree(first, second, symlinks=True)
    edit(second / "include/crt/host_defines.h", "\n#define VALUE 2\n")
    link("cuda", str(first))(workspace)
    workspace.nvcc = str(workspace.directory / "cuda/bin/nvcc")


CASES = {
    "specs beside the parts of gcc": Case(add_specs, (), SOURCE, call(OWN), prepare=tree),
    "a part of gcc that appears": Case(
        add_compiler, (), {**SOURCE, "parts": None}, call(COMPILER_PATH="{work}/parts")
    ),
    "a gcc that is replaced by one with the same programs": Case(
        each(move("one", "away"), move("two", "one")), (), SOURCE, call(OWN), prepare=two_trees
    ),
    "a variable of a site in the profile": Case(
        files={"a.cu": behind("#include <h.h>"), **both("one/h.h"), "two/h.h": value(2)},
        call=call(SITE="{work}/one"),
        then=call(SITE="{work}/two"),
        prepare=put_site_into_profile,
    ),
    "a toolkit that is a link": Case(link("cuda", "../second"), (), SOURCE, prepare=two_toolkits),
}


@pytest.mark.by_default(
    "specs beside the parts of gcc",
    "a part of gcc that appears",
    "a variable of a site in the profile",
    "a toolkit that is a link",
)
@pytest.mark.parametrize("what", CASES)
def test_what_belongs_to_a_compiler_counts(workspace: Workspace, what: str) -> None:
    check(workspace, CASES[what])


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


def test_a_configuration_beside_clang(workspace: Workspace, clang: str) -> None:
    version = re.search(rb"version (\d+)", workspace.run([clang, "--version"]).stdout)
    if not version or int(version[1]) < 16:
        pytest.skip("this clang reads no configuration unasked")
    change, line = write("clang/bin/clang++.cfg", "-DVALUE=2\n"), call("-ccbin {work}/clang/bin/clang++")
    check(workspace, Case(change, (), SOURCE, line, prepare=own_clang(clang)))


def test_a_newer_gcc_in_the_toolchain_of_clang(workspace: Workspace, clang: str) -> None:
    options = f"-ccbin {clang} -Xcompiler --gcc-toolchain={{work}}/gcc"
    files = {"a.cu": behind("#include <h.h>")}
    check(workspace, Case(gcc_of(12, 2), (), files, call(options), prepare=gcc_of(11, 1)))


def test_headers_that_become_one_file(workspace: Workspace, clang: str) -> None:
    """Under `#pragma once` clang identifies files by device and inode."""
    text = "#pragma once\n#ifdef VALUE\n#undef VALUE\n#define VALUE 2\n#else\n#define VALUE 1\n#endif\n"
    files = {"a.cu": behind('#include "x/h.h"\n#include "y/h.h"'), "x/h.h": text, "y/h.h": text}

    def become_one(workspace: Workspace) -> None:
        (workspace.directory / "y/h.h").unlink()
        os.link(workspace.directory / "x/h.h", workspace.directory / "y/h.h")

    check(workspace, Case(become_one, (), files, call(f"-ccbin {clang}")))
