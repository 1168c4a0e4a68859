"""The tools of a compile, the parts of the host compiler and nvcc's profile: when they change, stages run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import stored_records
from scenarios.support.both_ways import by_cache, rebuild
from scenarios.support.cases import (
    DEFAULT,
    Call,
    Case,
    Change,
    behind,
    call,
    check,
    each,
    link,
    own_toolkit,
    set_up,
    swap,
    toolkit,
    value,
    write,
)
from scenarios.support.toolkits import CCBIN, HOST_COMPILER, HOST_OPTIONS, SOURCE, copy_toolkit, edit, wrap
from workspaces import Workspace

CODE = {"a.cu": "__global__ void kernel(float *x) { x[0] = x[1] * 2.5f / x[2]; x[3] = x[0] + x[4]; }\n"}
CUBIN = Call("-arch=sm_80", line="-cubin a.cu -o a.cubin", makes=("a.cubin",))
PTXAS = "bin/ptxas"


def wrapping(*options: str) -> Change:
    """A script around ptxas."""

    def apply(workspace: Workspace) -> None:
        tool = toolkit(workspace) / PTXAS
        wrap(tool, tool.resolve(), options=options)

    return apply


def real_part(workspace: Workspace) -> str:
    """The program of gcc's driver that compiles C++."""
    asked = workspace.run([HOST_COMPILER, "-print-prog-name=cc1plus"]).stdout.decode().strip()
    return str(shutil.which(asked))


def edit_profile(workspace: Workspace) -> None:
    edit(toolkit(workspace) / "bin/nvcc.profile", "\nPTXAS_FLAGS += -O0\n")


def add_compiler(workspace: Workspace) -> None:
    """A cc1plus that adds an option for the real one."""
    wrap(workspace.directory / "parts/cc1plus", real_part(workspace), options=["-DVALUE=2"])


def two_toolkits(workspace: Workspace) -> None:
    """Reached by a link, as `/usr/local/cuda` is: the tools are the same, a header differs."""
    first = own_toolkit(workspace)
    second = first.with_name("second")
    shutil.copytree(first, second, symlinks=True)
    edit(second / "include/crt/host_defines.h", "\n#define VALUE 2\n")
    link("cuda", str(first))(workspace)
    workspace.nvcc = str(workspace.directory / "cuda/bin/nvcc")


TOOLS = {
    "the profile of nvcc": Case(edit_profile, "nvcc.profile` changed", CODE, CUBIN, has_own_toolkit=True),
    "a part of gcc that appears": Case(
        add_compiler, (), {"a.cu": DEFAULT, "parts": None}, call(COMPILER_PATH="{work}/parts")
    ),
    "a toolkit that is a link": Case(link("cuda", "../second"), (), {"a.cu": DEFAULT}, prepare=two_toolkits),
}


@pytest.mark.parametrize("rule", TOOLS)
def test_a_changed_tool_is_noticed(workspace: Workspace, rule: str) -> None:
    check(workspace, TOOLS[rule])


def gcc_of(version: int, number: int) -> Change:
    """The parts of a gcc that clang looks up, with a header in its C++ library."""
    return each(
        write(f"gcc/lib/gcc/x86_64-linux-gnu/{version}/crtbegin.o", ""),
        write(f"gcc/include/c++/{version}/h.h", value(number)),
    )


def test_a_newer_gcc_installed_for_clang_is_noticed(workspace: Workspace) -> None:
    """Which it finds by listing a directory."""
    clang = shutil.which("clang++")
    if not clang:
        pytest.skip("there is no clang++")
    workspace.write("probe.cu", CODE["a.cu"])
    probe = workspace.plain("-ptx", "probe.cu", "-ccbin", clang, "-arch=sm_75", "-o", "probe.ptx")
    if probe.status != 0:
        pytest.skip(f"this nvcc does not take {clang}: {probe.stderr.decode()}")
    options = f"-ccbin {clang} -Xcompiler --gcc-toolchain={{work}}/gcc"
    files = {"a.cu": behind("#include <h.h>")}
    check(workspace, Case(gcc_of(12, 2), (), files, call(options), prepare=gcc_of(11, 1)))


def test_a_tool_replaced_by_one_of_equal_size_and_date_is_noticed(workspace: Workspace) -> None:
    """Both are scripts; one says `-O0` where the other says `-O3`."""
    set_up(workspace, Case(files=CODE, has_own_toolkit=True))
    wrapping("-O3")(workspace)
    text = (toolkit(workspace) / PTXAS).read_text().replace("-O3", "-O0")
    check(workspace, Case(swap(f"../toolkit/{PTXAS}", text), "/ptxas` changed", CODE, CUBIN))


PROGRAMS = {"cudafe": "bin/cudafe++", "cicc": "nvvm/bin/cicc", "ptxas": PTXAS, "fatbinary": "bin/fatbinary"}


@pytest.fixture
def own_tools(workspace: Workspace, tmp_path: Path) -> Path:
    workspace.write("a.cu", SOURCE)
    return copy_toolkit(workspace, tmp_path / "toolkit")


def test_a_replaced_tool_reruns_only_its_own_stage(workspace: Workspace, own_tools: Path) -> None:
    """By one that does the same: only its own stage runs, since later ones read the same bytes."""
    first = by_cache(workspace, "-c", "a.cu", "-o", "a.o")
    for stages in ({"cudafe", "ptxas"}, {"cicc", "fatbinary"}):  # none reads what another has made
        for path in map(PROGRAMS.__getitem__, stages):
            wrap(own_tools / path, (own_tools / path).resolve())
        made = by_cache(workspace, "-c", "a.cu", "-o", "a.o")
        assert (made, set(made.compiled())) == (first, stages)


def test_a_replaced_cc1plus_reruns_the_stages_of_the_host_compiler(
    workspace: Workspace, tmp_path: Path
) -> None:
    """The driver stays the same file; a program it starts does not."""
    workspace.write("a.cu", SOURCE)
    driver, part = tmp_path / "g++", tmp_path / "parts/cc1plus"
    wrap(driver, HOST_COMPILER, options=["-B", str(part.parent)])
    part.parent.mkdir()
    wrap(part, real_part(workspace))
    by_cache(workspace, "-c", "a.cu", "-ccbin", driver, "-o", "a.o")
    wrap(part, real_part(workspace), options=["-fno-ident"])
    assert set(rebuild(workspace, "-c", "a.cu", "-ccbin", driver).compiled()) == {"host_compile"}


def test_a_changed_or_shadowed_toolkit_header_reruns_the_host_compile_only(
    workspace: Workspace, own_tools: Path
) -> None:
    """Edited, and in a directory that is searched earlier and was not there."""
    line = ("-c", "a.cu", "-Iown", "-o", "a.o")
    by_cache(workspace, *line)
    probe = "\n#ifndef GUARD_{0}\n#define GUARD_{0}\nint {0};\n#endif\n"
    edit(own_tools / "include/crt/host_runtime.h", probe.format("edited_in_toolkit"))
    assert set(by_cache(workspace, *line).compiled()) == {"host_compile"}
    workspace.write("own/crt/host_runtime.h", "#include_next <crt/host_runtime.h>\n" + probe.format("in_own"))
    assert set(rebuild(workspace, *line[:-2]).compiled()) == {"host_compile"}


@pytest.mark.skipif(bool(CCBIN), reason="this toolkit takes only the compiler it is given")
def test_another_host_compiler_earlier_on_path_reruns_the_host_compile(
    workspace: Workspace, tmp_path: Path
) -> None:
    workspace.write("a.cu", SOURCE)
    second = tmp_path / "bin/gcc"
    second.parent.mkdir()
    wrap(second, str(shutil.which("gcc")), options=["-fno-ident"])
    by_cache(workspace, "-c", "a.cu", "-o", "a.o")
    path = f"{second.parent}:{workspace.environ['PATH']}"
    assert set(rebuild(workspace, "-c", "a.cu", PATH=path).compiled()) == {"host_compile"}


def test_every_stage_records_the_inputs_that_it_read_itself(workspace: Workspace) -> None:
    """Including ptxas's checks of PTX, which write nothing; an empty input record would always hold."""
    workspace.write("a.cu", SOURCE)
    virtual = [f"-gencode=arch=compute_{number},code=compute_{number}" for number in (80, 90)]
    assert workspace.cached("-c", "a.cu", *virtual, "-o", "a.o", *HOST_OPTIONS).status == 0
    found = list(stored_records.bodies_of(workspace.cache).values())
    assert sum(map(stored_records.is_of_stage, found)) > 4
    for body in found:
        for made in stored_records.inputs_in(body):
            assert "LANG" in [name for name, _ in made.variables], made.files
