"""The host compiler: all ways to name it, scripts in its place, its options in every spelling.

Each command line gives what plain nvcc gives, cold, warm, and with the stages alone; and a compiler that
changes behind the same name is noticed. One of each kind runs by default, all with --every-case. More
cases are in never_stale/test_tools.py and test_host_compiler.py.
"""

from __future__ import annotations

import os
import shlex
import shutil

import pytest

from scenarios.support.both_ways import both_ways
from scenarios.support.toolkits import CCBIN, HOST_COMPILER, cuda_release, replace
from workspaces import Workspace

pytestmark = pytest.mark.light

LINE = ("-c", "a.cu", "-o", "a.o", "-arch=sm_80")
SOURCE = """
#ifndef ADDED
#define ADDED 0
#endif
__global__ void kernel(int *x) { x[0] = 1; }
int launch(int *x) { kernel<<<1, 1>>>(x); return ADDED + __cplusplus / 100; }
"""
REAL = os.path.realpath(HOST_COMPILER)


@pytest.fixture
def workspace(workspace: Workspace) -> Workspace:
    """With a directory of compilers, one of which has the name that nvcc looks up: g++."""
    workspace.write("a.cu", SOURCE)
    compilers = workspace.directory / "compilers"
    compilers.mkdir()
    for name in ("gcc", "g++", "my-g++"):
        found = HOST_COMPILER if name != "gcc" or CCBIN else shutil.which("gcc")
        (compilers / name).symlink_to(os.path.realpath(str(found)))
    return workspace


def cold_and_warm(workspace: Workspace, *argv: str, warm: str = "direct_hit", **variables: str) -> bytes:
    """What was made, each time."""
    made = both_ways(workspace, *argv, **variables)
    assert made.status == 0, made.stderr
    again = both_ways(workspace, *argv, **variables)
    assert (again, again.outcome) == (made, warm)
    if warm == "direct_hit":
        workspace.forget_calls()
        again = both_ways(workspace, *argv, **variables)
        assert (again, again.outcome) == (made, "stage_hit")
    return made["a.o"]


NAMES = (
    "-ccbin {real}",
    "--compiler-bindir={real}",
    "-ccbin {work}/compilers",
    "-ccbin compilers/my-g++",
    "-ccbin my-g++",
)


@pytest.mark.by_default("-ccbin compilers/my-g++")
@pytest.mark.parametrize("name", NAMES)
def test_every_way_to_name_it(workspace: Workspace, name: str) -> None:
    argv = name.replace("{real}", REAL).replace("{work}", str(workspace.directory)).split()
    path = f"{workspace.directory}/compilers:{workspace.environ['PATH']}"
    cold_and_warm(workspace, *argv, *LINE, PATH=path)


@pytest.mark.full
@pytest.mark.parametrize("option", ["", "-ccbin {other}"])
def test_the_variable_that_names_it(workspace: Workspace, option: str) -> None:
    """The option is stronger; and up to CUDA 12 nvcc knows no such variable."""
    for name, number in (("one", 1), ("two", 2)):
        script = f'#!/bin/sh\nexec {HOST_COMPILER} -DADDED={number} "$@"\n'
        (workspace.directory / name).mkdir()
        replace(workspace.directory / name / "g++", script)
    argv = option.replace("{other}", f"{workspace.directory}/two/g++").split()
    made = [
        both_ways(workspace, *argv, *LINE, NVCC_CCBIN=f"{workspace.directory}/{name}/g++")["a.o"]
        for name in ("one", "two", "one")
    ]
    assert made[0] == made[2]
    if not CCBIN:
        assert (made[0] != made[1]) == (not option and cuda_release(workspace) >= (13, 0))


@pytest.mark.full
@pytest.mark.parametrize("is_link", [True, False])
def test_ccache_in_its_place(workspace: Workspace, is_link: bool) -> None:
    ccache = shutil.which("ccache")
    if not ccache:
        pytest.skip("there is no ccache")
    path = workspace.directory / "masked" / "g++"
    path.parent.mkdir()
    if is_link:
        path.symlink_to(ccache)
    else:
        replace(path, f'#!/bin/sh\nexec ccache {HOST_COMPILER} "$@"\n')
    for _ in ("cold", "warm", "once more"):
        both_ways(
            workspace, "-ccbin", str(path), *LINE, CCACHE_DIR=str(workspace.directory.parent / "ccache")
        )


def test_a_link_that_leads_to_another_compiler(workspace: Workspace) -> None:
    others = [found for found in map(shutil.which, ("g++-11", "g++-12", "g++-13", "g++-14")) if found]
    others = [found for found in others if os.path.realpath(found) != REAL]
    if not others:
        pytest.skip("there is only one compiler")
    link = workspace.directory / "compilers" / "linked-g++"
    made = []
    for target in (REAL, others[0], REAL):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        made.append(both_ways(workspace, "-ccbin", str(link), *LINE)["a.o"])
    assert made[0] == made[2] != made[1]


OPTIONS = (
    "-Xcompiler -O2,-fPIC",
    "-Xcompiler -march=native",
    "-forward-unknown-to-host-compiler -fno-rtti",
    "--forward-unknown-opts -fPIC",
)


@pytest.mark.by_default("-forward-unknown-to-host-compiler -fno-rtti")
@pytest.mark.parametrize("options", OPTIONS)
def test_options_for_it(workspace: Workspace, options: str) -> None:
    """After a compile without them, and before another."""
    plain = both_ways(workspace, *LINE)
    cold_and_warm(workspace, *LINE, *shlex.split(options))
    assert both_ways(workspace, *LINE) == plain
