"""A CMake project whose files call each other's device code: objects, device link and link-time optimization.

CMake lets its launcher start compiles alone, so the shim of `nvccache install` is its compiler. The objects,
the device link and the device code of the program are those of plain nvcc; when one file is edited, its own
stages and those of the device link run, and nothing else.

    pytest --every-case tests/scenarios/builds/test_separable_projects.py    22 files instead of 3
    NVCCACHE_TEST_NVCC=/path/to/nvcc                                  with another toolkit
    NVCCACHE_TEST_CCBIN=/path/to/g++                                  and host compiler
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest

from nvccache.store.event_line import Event
from scenarios.builds.builds import Build, outcomes, prepare, stages_run
from scenarios.builds.small_project import CMAKE_NINJA, SHIM
from scenarios.support.toolkits import HOST_OPTIONS
from workspaces import Workspace

FEW, ALL = 3, 22
# The stub of a device function needs ::exit, which the small headers of these tests do not declare.
UNIT = """\
#include <stdlib.h>
extern __device__ int value_@BEFORE@(int);
__device__ int value_@NUMBER@(int x) { return value_@BEFORE@(x) * @FACTOR@ + x; }
"""
FIRST = "#include <stdlib.h>\n__device__ int value_0(int x) { return x + 1; }\n"
MAIN = """\
extern __device__ int value_@LAST@(int);
__global__ void kernel(int *x) { *x = value_@LAST@(*x); }
int main(int count, char **) {
  if (count > 9) kernel<<<1, 1>>>(nullptr);
  return 0;
}
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.25)
project(separable LANGUAGES CUDA)
set(CMAKE_CUDA_SEPARABLE_COMPILATION ON)
set(CMAKE_INTERPROCEDURAL_OPTIMIZATION @OPTIMIZATION@)
add_library(values STATIC @UNITS@)
add_executable(program main.cu)
target_link_libraries(program values)
"""
# What an edit of device code runs: its own stages, and those of the device link.
OF_A_UNIT = ["host_preprocess", "device_preprocess", "cudafe", "cicc", "ptxas", "fatbinary", "host_compile"]
OF_A_LINK = ["nvlink", "fatbinary", "host_compile"]


def unit(number: int, factor: int = 3) -> str:
    if number == 0:
        return FIRST
    text = UNIT.replace("@BEFORE@", str(number - 1)).replace("@NUMBER@", str(number))
    return text.replace("@FACTOR@", str(factor))


@pytest.fixture
def count(request: pytest.FixtureRequest) -> int:
    """How many files the project has."""
    return ALL if request.config.getoption("--every-case") else FEW


@pytest.fixture(params=["OFF", "ON"], ids=["separable", "optimized"])
def project(workspace: Workspace, tmp_path: Path, count: int, request: pytest.FixtureRequest) -> Build:
    names = [f"unit_{number}.cu" for number in range(count - 1)]
    for number, name in enumerate(names):
        workspace.write(name, unit(number))
    workspace.write("main.cu", MAIN.replace("@LAST@", str(count - 2)))
    listing = CMAKE.replace("@OPTIMIZATION@", request.param).replace("@UNITS@", " ".join(names))
    system = dataclasses.replace(CMAKE_NINJA, files={"CMakeLists.txt": listing}, ours=SHIM)
    prepare(workspace, system, tmp_path)
    if request.param == "ON":
        skip_without_optimization(workspace)
    return Build(workspace, system, tmp_path / "keep")


def skip_without_optimization(workspace: Workspace) -> None:
    """In some toolkits libnvvm, which compiles at link time, is not next to nvlink."""
    workspace.write("probe.cu", FIRST)
    argv = ("-dlto", "-arch=sm_80", *HOST_OPTIONS)
    assert workspace.plain("-dc", *argv, "probe.cu", "-o", "probe.o").status == 0
    if workspace.plain("-dlink", *argv, "probe.o", "-o", "linked.o").status:
        pytest.skip("this toolkit cannot link with -dlto")


def linked(calls: list[Event]) -> str:
    """What became of the device link."""
    (outcome,) = [outcome for name, outcome in outcomes(calls).items() if "device_link" in name]
    return outcome


def test_a_project_with_device_code_across_files(project: Build, count: int) -> None:
    plain, edited = project.plainly_and_edited("unit_1.cu", unit(1, factor=5))
    assert "CMakeFiles/program.dir/cmake_device_link.o" in plain.objects

    project.begin(ours=True)
    made, calls = project.cached()
    assert made.differing(plain) == []
    assert len(outcomes(calls)) == count + 1
    assert linked(calls) == "miss"
    assert Counter(stages_run(calls))["cicc"] == count
    assert Counter(stages_run(calls))["nvlink"] == 1

    project.begin(ours=True)
    made, calls = project.cached()
    assert made.differing(plain) == []
    assert list(outcomes(calls).values()) == ["direct_hit"] * (count + 1)
    assert project.is_done(ours=True)

    project.workspace.write("unit_1.cu", unit(1, factor=5))
    made, calls = project.cached()
    assert made.differing(edited) == []
    found = outcomes(calls)
    assert len(found) == 2 and any("unit_1.cu" in name for name in found)
    ran = Counter(stages_run(calls))
    assert ran <= Counter([*OF_A_UNIT, *OF_A_LINK])
    assert ran["nvlink"] == ran["cicc"] == 1
    assert project.is_done(ours=True)
