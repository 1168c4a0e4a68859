"""What clang reads for itself as the host compiler: its configuration, and the gcc whose headers it uses."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from scenarios.support.cases import KERNEL, Case, Change, behind, call, check, each, value, write
from workspaces import Workspace

pytestmark = pytest.mark.light

SOURCE = {"a.cu": "#ifndef VALUE\n#define VALUE 1\n#endif\n" + KERNEL}
OWN = "-ccbin {work}/clang/bin/clang++"


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
        Case(change=write(name, "-DVALUE=2\n"), files=SOURCE, call=call(OWN), prepare=each(*prepare)),
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
