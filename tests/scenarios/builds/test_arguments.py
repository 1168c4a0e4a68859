"""Command lines of build systems and projects: all are cached, and are what plain nvcc makes.

Messages, objects and depfiles are compared with plain nvcc in the same directory.

pytest --every-case tests/scenarios/builds/test_arguments.py    all of them, not two
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from scenarios.support.both_ways import Made, by_cache, by_plain, keep_of, rebuild
from scenarios.support.toolkits import HOST_COMPILER, SOURCE
from workspaces import Workspace

KERNEL = """\
#include "lib/shapes.h"
#include <scale.h>
__global__ void @NAME@(int *x) { *x = AREA(*x) * SCALE; }
int launch_@NAME@() { @NAME@<<<1, 1>>>(nullptr); return 0; }
"""
INPUTS = {
    "pkg/kernel.cu": KERNEL.replace("@NAME@", "kernel"),
    "lib/shapes.h": "#define AREA(side) ((side) * (side))\n",
    "external/scale/include/scale.h": "#define SCALE 2\n",
}
OUT = "bazel-out/k8-opt/bin/pkg/_objs/kernel"
OBJECT, RULE = f"{OUT}/kernel.pic.o", f"{OUT}/kernel.pic.d"
# As in the compile action of rules_cuda; other rules give each host option an -Xcompiler= of its own.
BAZEL = (
    *("-x", "cu", "-gencode", "arch=compute_80,code=compute_80", "-gencode", "arch=compute_80,code=sm_80"),
    *("-ccbin", HOST_COMPILER, "-I", ".", "-I", "bazel-out/k8-opt/bin", "-isystem", "external/scale/include"),
    *("-DBAZEL_CURRENT_REPOSITORY=\"\"", "-DEIGEN_USE_GPU=1", "-Xcompiler", "-fPIC", "-Xcompiler", "-g0"),
    *("-O2", "-DNDEBUG", "-Xcompiler", "-ffunction-sections", "-Xcompiler", "-fdata-sections"),
    *("-Xcompiler=-fstack-protector", "-Xcompiler=-Wall,-Wunused-but-set-parameter"),
    *("-Xcompiler=-no-canonical-prefixes",),
    *("-Xcompiler=-fno-omit-frame-pointer", "-Xcompiler=-Wno-builtin-macro-redefined"),
    *('-Xcompiler=-D__DATE__=\\"redacted\\"', '-Xcompiler=-D__TIME__=\\"redacted\\"'),
    *("-Xcompiler=-fmacro-prefix-map=external/=", "--expt-relaxed-constexpr", "-std=c++17"),
    *("-MD", "-MF", RULE, "-c", "pkg/kernel.cu"),
)  # fmt: skip


def sandbox(workspace: Workspace, number: int) -> Path:
    """A new directory with links to the inputs, as for each action that Bazel runs."""
    directory = workspace.directory.parent / "sandbox" / "linux-sandbox" / str(number) / "execroot" / "_main"
    shutil.rmtree(directory, ignore_errors=True)
    for name in INPUTS:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).symlink_to(workspace.directory / name)
    (directory / OUT).mkdir(parents=True)
    return directory


def test_a_bazel_action_hits_in_a_recreated_sandbox(workspace: Workspace) -> None:
    """In the same sandbox made again, and below a base directory in any; not where a link leads elsewhere."""
    for name, text in INPUTS.items():
        workspace.write(name, text)

    def compile_in(directory: Path, **variables: str) -> Made:
        variables["PWD"] = "/proc/self/cwd"
        return by_cache(workspace, *BAZEL, "-o", OBJECT, cwd=directory, makes=makes, **variables)

    base, makes = {"NVCCACHE_BASE_DIR": str(workspace.directory.parent / "sandbox")}, (OBJECT, RULE)
    made = [compile_in(sandbox(workspace, 1)) for _ in range(2)]
    # A record made without a base directory does not say whether a text contains its path.
    made += [compile_in(sandbox(workspace, number), **base) for number in (2, 3, 1)]
    assert [each.outcome for each in made] == ["miss", "direct_hit", "stage_hit", "direct_hit", "direct_hit"]
    line, keep = (*BAZEL, "-o", OBJECT), keep_of(workspace)
    expected = by_plain(workspace, *line, cwd=sandbox(workspace, 3), keep=keep, makes=makes)
    assert made == [expected] * len(made)
    other = workspace.write("other.h", INPUTS["lib/shapes.h"].replace("*", "+"))
    directory = sandbox(workspace, 4)
    (directory / "lib/shapes.h").unlink()
    (directory / "lib/shapes.h").symlink_to(other)
    changed = compile_in(directory, **base)
    assert changed.outcome == "miss" and changed[OBJECT] != expected[OBJECT]


GENCODE = "-gencode arch=compute_80,code=sm_80"
# Name -> options, as a shell takes them; `-x cu -c SOURCE -o OBJECT` and the like come on top.
PROJECTS = {
    "pytorch": f"""
        -forward-unknown-to-host-compiler -DAT_PER_OPERATOR_HEADERS -DFLASHATTENTION_DISABLE_ALIBI
        -D_GLIBCXX_USE_CXX11_ABI=1 -DLIBCUDACXX_ENABLE_SIMPLIFIED_COMPLEX_OPERATIONS -Xfatbin -compress-all
        -DONNX_NAMESPACE=onnx_torch {GENCODE} -Xcudafe
        --diag_suppress=cc_clobber_ignored,--diag_suppress=field_without_dll_interface,--diag_suppress=20012
        --expt-relaxed-constexpr --expt-extended-lambda -Wno-deprecated-gpu-targets -DCUDA_HAS_FP16=1
        -D__CUDA_NO_HALF_OPERATORS__ -D__CUDA_NO_HALF_CONVERSIONS__ -O3 -DNDEBUG -std=c++17 -Xcompiler=-fPIC
        -Xcompiler -Wall -Wextra -Wdeprecated -Wno-unused-parameter -Wno-missing-field-initializers
        -DMKL_HAS_SBGEMM -MD -MT a.o -MF a.o.d""",
    "cutlass": """
        -forward-unknown-to-host-compiler -DCUTLASS_VERSIONS_GENERATED -O3 -DNDEBUG -std=c++17
        "--generate-code=arch=compute_80,code=[compute_80,sm_80]" -Xcompiler=-fPIE
        -DCUTLASS_ENABLE_TENSOR_CORE_MMA=1 --expt-relaxed-constexpr -ftemplate-backtrace-limit=0
        -DCUTLASS_DEBUG_TRACE_LEVEL=0 -Xcompiler=-Wconversion -Xcompiler=-fno-strict-aliasing -MD -MT a.o
        -MF a.o.d""",
    "nccl": f"""
        -ccbin {HOST_COMPILER} -DCUDA_MAJOR=12 -Xcompiler -fPIC,-fvisibility=hidden
        -Xcompiler -Wall,-Wno-unused-function,-Wno-sign-compare -std=c++17 -I . -O3 -g {GENCODE}
        --expt-extended-lambda -Xptxas -maxrregcount=96 -Xfatbin -compress-all -dc""",
    "tensorflow": f"""
        --compiler-options " -fPIC -Wall -fno-omit-frame-pointer" --compiler-bindir={HOST_COMPILER} -I. -O2
        {GENCODE} -std=c++17 --expt-relaxed-constexpr -DGOOGLE_CUDA=1""",
    "kokkos": """
        -expt-extended-lambda -Wext-lambda-captures-this -arch=sm_80 -Xcudafe
        --diag_suppress=esa_on_defaulted_function_ignored -Xcompiler -fopenmp,-O2 -lineinfo
        -DKOKKOS_DEPENDENCE -std=c++17 -w""",
}


@pytest.mark.by_default("pytorch", "kokkos")
@pytest.mark.parametrize("name", PROJECTS)
def test_command_lines_of_real_projects_hit_the_second_time(
    workspace: Workspace, name: str, reference_directory: Path
) -> None:
    argv = shlex.split(PROJECTS[name])
    argv += ["a.cu"] if "-dc" in argv else ["-x", "cu", "-c", "a.cu"]
    workspace.write("a.cu", SOURCE)
    for outcome in ("miss", "direct_hit"):
        assert rebuild(workspace, *argv, keep=reference_directory).outcome == outcome
