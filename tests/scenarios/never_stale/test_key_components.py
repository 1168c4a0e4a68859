"""A changed dependency makes the right stages miss, and the object is plain nvcc's.

Options, environment and working directory here; the tools and files that are read in
test_key_components_files.py; the walk that makes a key, without running a tool, in
test_key_components_units.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.support.both_ways import rebuild
from scenarios.support.toolkits import CCBIN, HOST_COMPILER, HOST_OPTIONS, SOURCE, cuda_release, wrap
from workspaces import Workspace, make_workspace

pytestmark = pytest.mark.light_by_default

DEVICE = {"cicc", "ptxas", "fatbinary", "host_compile"}
ALL = {"cudafe", *DEVICE}
FRONT = {"cudafe", "cicc", "host_compile"}  # and PTX that stays the same


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory, nvcc: str) -> Workspace:
    """One source, compiled once without options; every test compiles it in its own way."""
    workspace = make_workspace(tmp_path_factory.mktemp("warm"), nvcc)
    workspace.write("a.cu", SOURCE)
    workspace.write("extra/extra.h", "extern int extra;\n")
    workspace.write("options.txt", "-DSTEP=8")
    assert set(rebuild(workspace, "-c", "a.cu").compiled()) == ALL
    workspace.forget_calls()
    assert rebuild(workspace, "-c", "a.cu").ran() == {}
    return workspace


@pytest.mark.by_default(
    "-DSTEP=2-ran0",
    "-DUNUSED-ran1",
    "-include extra/extra.h-ran3",
    "-Xcompiler -march=native-ran7",
    "-Xptxas -O1-ran8",
    "-lineinfo-ran10",
    "--options-file options.txt-ran15",
)
@pytest.mark.parametrize(
    ("options", "ran"),
    [
        ("-DSTEP=2", ALL),
        ("-DUNUSED", set()),
        ("-Iextra", {"host_compile"}),
        ("-include extra/extra.h", FRONT),
        ("-O3", FRONT),
        ("-std=c++14", FRONT),
        ("-Xcompiler -Wall,-fPIC", {"host_compile"}),
        ("-Xcompiler -march=native", {"host_compile"}),
        ("-Xptxas -O1", {"ptxas", "fatbinary", "host_compile"}),
        ("-rdc=true", ALL),
        ("-lineinfo", DEVICE),
        ("-G", ALL),
        ("-use_fast_math", DEVICE),
        ("-gencode arch=compute_75,code=[sm_75,sm_80]", {"ptxas", "fatbinary", "host_compile"}),
        ("-default-stream per-thread", FRONT),
        ("--options-file options.txt", ALL),
    ],
)
def test_an_option_makes_its_stages_miss(warm: Workspace, options: str, ran: set[str]) -> None:
    argv = ("-c", "a.cu", *options.split())
    if "sm_75" in options:
        rebuild(warm, "-c", "a.cu", "-gencode", "arch=compute_75,code=sm_75")
    assert set(rebuild(warm, *argv).compiled()) == ran
    warm.forget_calls()
    assert not warm.since(lambda: warm.cached(*argv, *HOST_OPTIONS, "-o", "a.o"))[1].ran()


def test_an_option_of_cicc_makes_it_miss(warm: Workspace) -> None:
    if cuda_release(warm) < (12, 0):
        pytest.skip("-Xcicc is not an option of this nvcc")
    assert "cicc" in rebuild(warm, "-c", "a.cu", "-Xcicc", "-O1").compiled()


def test_the_mode_matters(warm: Workspace) -> None:
    """-c, -dc and -dw make three kinds of object; -dw and -c differ only where an object is linked."""
    assert set(rebuild(warm, "-dc", "a.cu", "-DSTEP=3").compiled()) == ALL
    assert set(rebuild(warm, "-c", "a.cu", "-DSTEP=3").compiled()) == ALL
    rebuild(warm, "-dw", "a.cu", "-DSTEP=3")
    for options in (["-ptx"], ["-cubin", "-rdc=true"], ["-cubin"]):
        rebuild(warm, *options, "a.cu", "-DSTEP=3", product="a.device")


@pytest.mark.by_default("NVCC_APPEND_FLAGS--DSTEP=4-ran0", "PTXAS_FLAGS--O2-ran3", "INCLUDES--DSTEP=6-ran2")
@pytest.mark.parametrize(
    ("variable", "value", "ran"),
    [
        ("NVCC_APPEND_FLAGS", "-DSTEP=4", ALL),
        ("NVCC_PREPEND_FLAGS", "-DSTEP=5", ALL),
        ("INCLUDES", "-DSTEP=6", ALL),
        ("PTXAS_FLAGS", "-O2", {"ptxas", "fatbinary", "host_compile"}),
        ("CUDAFE_FLAGS", "--diag_suppress=178", {"cudafe", "cicc"}),
    ],
)
def test_the_environment_that_nvcc_reads(warm: Workspace, variable: str, value: str, ran: set[str]) -> None:
    assert set(rebuild(warm, "-c", "a.cu", **{variable: value}).compiled()) == ran


@pytest.mark.by_default("-g", "-G")
@pytest.mark.parametrize("option", ["-g", "-G", "-lineinfo"])
def test_debug_information_names_the_working_directory(
    warm: Workspace, option: str, reference_directory: Path
) -> None:
    """Including that of a header found through a relative directory."""
    for name in ("here", "there"):
        warm.write(f"{name}/inc/twice.h", "__device__ inline int twice(int x) { return x + x; }\n")
        warm.write(f"{name}/.keep", "")
    source = warm.write("g.cu", "#include <twice.h>\n__global__ void kernel(int *x) { *x = twice(*x); }\n")
    for name in ("here", "there"):
        directory = warm.directory / name
        rebuild(
            warm, "-c", source, option, "-Iinc", cwd=directory, keep=reference_directory, PWD=str(directory)
        )


def test_the_host_compiler_by_option_and_by_environment(warm: Workspace, tmp_path: Path) -> None:
    first, second = tmp_path / "first-g++", tmp_path / "second-g++"
    wrap(first, HOST_COMPILER)
    wrap(second, HOST_COMPILER, options=["-fno-ident"])
    rebuild(warm, "-c", "a.cu", "-ccbin", first)
    assert set(rebuild(warm, "-c", "a.cu", "-ccbin", second).compiled()) == {"host_compile"}
    if not CCBIN and cuda_release(warm) >= (13, 0):
        assert set(rebuild(warm, "-c", "a.cu", NVCC_CCBIN=str(second)).compiled()) == set()


@pytest.mark.skipif(bool(CCBIN), reason="this toolkit takes only the compiler it is given")
def test_the_host_compiler_that_is_first_on_path(warm: Workspace, tmp_path: Path) -> None:
    rebuild(warm, "-c", "a.cu")
    wrap(tmp_path / "gcc", warm.run(["which", "gcc"]).stdout.decode().strip(), options=["-fno-ident"])
    path = f"{tmp_path}:{warm.environ['PATH']}"
    assert set(rebuild(warm, "-c", "a.cu", PATH=path).compiled()) == {"host_compile"}
