"""The tools of a compile, the parts of the host compiler and nvcc's profile: when they change, stages run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from scenarios.support.both_ways import by_cache, rebuild
from scenarios.support.cases import Call, Case, Change, check, set_up, swap, toolkit
from scenarios.support.toolkits import (
    CCBIN,
    HOST_COMPILER,
    HOST_OPTIONS,
    SOURCE,
    copy_toolkit,
    cuda_release,
    edit,
    replace,
    wrap,
)
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default
CODE = {"a.cu": "__global__ void kernel(float *x) { x[0] = x[1] * 2.5f / x[2]; x[3] = x[0] + x[4]; }\n"}
SM_80 = Call("-arch=sm_80")
PTXAS = "bin/ptxas"


def wrapping(before: str = "", options: tuple[str, ...] = ()) -> Change:
    """A script around ptxas."""

    def apply(workspace: Workspace) -> None:
        tool = toolkit(workspace) / PTXAS
        wrap(tool, tool.resolve(), before, "", options)

    return apply


def edit_profile(workspace: Workspace) -> None:
    edit(toolkit(workspace) / "bin/nvcc.profile", "\nPTXAS_FLAGS += -O0\n")


TOOLS = {
    "a tool that talks now": Case(
        wrapping(before="echo said >&2"), "/ptxas` changed", CODE, has_own_toolkit=True
    ),
    "the profile of nvcc": Case(edit_profile, "nvcc.profile` changed", CODE, SM_80, has_own_toolkit=True),
}


@pytest.mark.by_default("the profile of nvcc")
@pytest.mark.parametrize("rule", TOOLS)
def test_a_tool_that_changes_is_seen(workspace: Workspace, rule: str) -> None:
    check(workspace, TOOLS[rule])


def test_a_tool_replaced_under_the_same_size_and_date_is_seen(workspace: Workspace) -> None:
    """Both are scripts; one says `-O0` where the other says `-O3`."""
    set_up(workspace, Case(files=CODE, has_own_toolkit=True))
    wrapping(options=("-O3",))(workspace)
    text = (toolkit(workspace) / PTXAS).read_text().replace("-O3", "-O0")
    check(workspace, Case(swap(f"../toolkit/{PTXAS}", text), "/ptxas` changed", CODE, SM_80))


PROGRAMS = {"cudafe": "bin/cudafe++", "cicc": "nvvm/bin/cicc", "ptxas": PTXAS, "fatbinary": "bin/fatbinary"}
# What a replaced tool does to its output, and which stages then run.
OTHER_OUTPUT = {
    "cudafe": ("--gen_c_file_name", "\nint added;\n", {"cudafe", "host_compile"}),
    "cicc": ("-o", "\n// added\n", {"cicc", "ptxas", "fatbinary", "host_compile"}),
    "ptxas": ("", "-O1", {"ptxas", "fatbinary", "host_compile"}),
    "fatbinary": ("", "-compress-all", {"fatbinary", "host_compile"}),
}


@pytest.fixture
def own_tools(workspace: Workspace, tmp_path: Path) -> Path:
    workspace.write("a.cu", SOURCE)
    return copy_toolkit(workspace, tmp_path / "toolkit")


def test_each_tool_that_is_replaced(workspace: Workspace, own_tools: Path) -> None:
    """By one that does the same: only its own stage runs, since later ones read the same bytes."""
    first = rebuild(workspace, "-c", "a.cu")
    for stage, path in PROGRAMS.items():
        wrap(own_tools / path, (own_tools / path).resolve())
        made = by_cache(workspace, "-c", "a.cu", "-o", "a.o")
        assert (made, set(made.compiled())) == (first, {stage})


@pytest.mark.by_default("cicc")
@pytest.mark.parametrize("stage", PROGRAMS)
def test_a_tool_that_makes_something_else(workspace: Workspace, own_tools: Path, stage: str) -> None:
    rebuild(workspace, "-c", "a.cu")
    option, added, ran = OTHER_OUTPUT[stage]
    tool = own_tools / PROGRAMS[stage]
    if option:
        find = f'while [ "$1" != {option} ]; do shift; done\nprintf "%s" "{added}" >> "$2"'
        wrap(tool, tool.resolve(), after=find)
    else:
        wrap(tool, tool.resolve(), options=[added])
    assert set(rebuild(workspace, "-c", "a.cu").compiled()) == ran


def test_the_parts_of_the_host_compiler(workspace: Workspace, tmp_path: Path) -> None:
    """The driver stays the same file; a program it starts does not."""
    workspace.write("a.cu", SOURCE)
    driver, part = tmp_path / "g++", tmp_path / "parts/cc1plus"
    wrap(driver, HOST_COMPILER, options=["-B", str(part.parent)])
    part.parent.mkdir()
    asked = workspace.run([HOST_COMPILER, "-print-prog-name=cc1plus"]).stdout.decode().strip()
    wrap(part, str(shutil.which(asked)))
    rebuild(workspace, "-c", "a.cu", "-ccbin", driver)
    wrap(part, str(shutil.which(asked)), options=["-fno-ident"])
    assert set(rebuild(workspace, "-c", "a.cu", "-ccbin", driver).compiled()) == {"host_compile"}


def test_a_toolkit_header_that_the_host_compiler_reads_again(workspace: Workspace, own_tools: Path) -> None:
    rebuild(workspace, "-c", "a.cu", "-Iown")
    probe = "\n#ifndef GUARD_{0}\n#define GUARD_{0}\nint {0};\n#endif\n"
    edit(own_tools / "include/crt/host_runtime.h", probe.format("edited_in_toolkit"))
    assert set(rebuild(workspace, "-c", "a.cu", "-Iown").compiled()) == {"host_compile"}
    # One that appears in a directory searched earlier, and one where even the directory is new.
    workspace.write("own/crt/host_runtime.h", "#include_next <crt/host_runtime.h>\n" + probe.format("in_own"))
    assert set(rebuild(workspace, "-c", "a.cu", "-Iown").compiled()) == {"host_compile"}
    shutil.rmtree(workspace.directory / "own")
    assert set(rebuild(workspace, "-c", "a.cu", "-Iown").compiled()) == set()


def test_a_header_that_changes_as_it_is_read(workspace: Workspace, own_tools: Path, tmp_path: Path) -> None:
    """An object made from the old header is not stored under the new one."""
    header = own_tools / "include/crt/host_runtime.h"
    text = header.read_text()
    replace(header, text)
    compiler = tmp_path / "g++"
    late_edit = f'case " $* " in *" -c "*) printf "\\nextern int late;\\n" >> "{header}";; esac'
    wrap(compiler, HOST_COMPILER, after=late_edit)
    options = ("-c", "a.cu", "-o", "a.o", "-ccbin", compiler)
    os.utime(header, (1e9, 1e9))
    workspace.cached(*options)
    edited = header.read_text()
    assert edited != text
    _, counters = workspace.since(lambda: workspace.cached(*options))
    assert set(counters.compiled()) == {"host_compile"}


def test_profiles_of_earlier_runs_are_read_each_time(workspace: Workspace) -> None:
    workspace.write("a.cu", SOURCE)
    argv = ("-c", "a.cu", "-o", "a.o", *HOST_OPTIONS, "-Xcompiler", "-fprofile-use")
    for outcome in ("miss", "partial_hit"):
        _, counters = workspace.since(lambda: workspace.cached(*argv))
        assert counters.outcome == outcome


@pytest.mark.skipif(bool(CCBIN), reason="this toolkit takes only the compiler it is given")
def test_a_host_compiler_counts_however_it_is_named(workspace: Workspace, tmp_path: Path) -> None:
    """By an option, by a variable, or as the first on PATH."""
    workspace.write("a.cu", SOURCE)
    first, second = tmp_path / "first-g++", tmp_path / "bin/gcc"
    second.parent.mkdir()
    wrap(first, HOST_COMPILER)
    wrap(second, str(shutil.which("gcc")), options=["-fno-ident"])
    rebuild(workspace, "-c", "a.cu", "-ccbin", first)
    assert set(rebuild(workspace, "-c", "a.cu", "-ccbin", second).compiled()) == {"host_compile"}
    if cuda_release(workspace) >= (13, 0):
        assert set(rebuild(workspace, "-c", "a.cu", NVCC_CCBIN=str(second)).compiled()) == set()
    rebuild(workspace, "-c", "a.cu")
    path = f"{second.parent}:{workspace.environ['PATH']}"
    assert set(rebuild(workspace, "-c", "a.cu", PATH=path).compiled()) == {"host_compile"}
