"""Command lines of build systems and projects: all are cached, and are what plain nvcc makes.

Messages, objects and depfiles are compared with plain nvcc in the same directory.

pytest --every-case tests/scenarios/builds/test_arguments.py    all of them, not two
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from scenarios.support.both_ways import Made, by_cache, by_plain, keep_of, rebuild
from scenarios.support.toolkits import CCBIN, HOST_COMPILER, SOURCE, cuda_release
from workspaces import Counters, Result, Workspace

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
PARAMETERS = f"{OUT}/kernel.pic.o-2.params"


@pytest.fixture
def inputs(workspace: Workspace, toolkit: Path) -> Workspace:
    for name, text in INPUTS.items():
        workspace.write(name, text)
    return workspace


def sandbox(inputs: Workspace, number: int) -> Path:
    """A new directory with links to the inputs, as for each action that Bazel runs."""
    directory = inputs.directory.parent / "sandbox" / "linux-sandbox" / str(number) / "execroot" / "_main"
    shutil.rmtree(directory, ignore_errors=True)
    for name in INPUTS:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).symlink_to(inputs.directory / name)
    (directory / OUT).mkdir(parents=True)
    return directory


def compile_in(inputs: Workspace, directory: Path, argv: tuple[str, ...], **variables: str) -> Made:
    """Compile in a sandbox; the object, the messages and the depfile are those of plain nvcc."""
    made, again = (
        rebuild(inputs, *argv, product=OBJECT, cwd=directory, PWD="/proc/self/cwd", **variables)
        for _ in ("new", "known")
    )
    assert again == made
    return made


@pytest.mark.by_default("parameters")
@pytest.mark.parametrize("through", ["words", "parameters"])
def test_an_action_of_bazel(inputs: Workspace, through: str) -> None:
    argv = BAZEL
    first = sandbox(inputs, 1)
    if through == "parameters":
        argv = ("--options-file", PARAMETERS)
        parameters = "\n".join(word for word in BAZEL if '"' not in word)
        (first / PARAMETERS).write_text(parameters)
    assert compile_in(inputs, first, argv).outcome == "miss"
    # The same sandbox, created again: other links and directories, the same files behind them.
    again = sandbox(inputs, 1)
    if through == "parameters":
        (again / PARAMETERS).write_text(parameters)
    assert compile_in(inputs, again, argv).outcome == "direct_hit"


def test_another_sandbox_below_a_base_directory(inputs: Workspace) -> None:
    """The object is the same in every sandbox; but not where a link leads to another header."""
    made = [compile_below_base(inputs, sandbox(inputs, number)) for number in (1, 2, 3)]
    assert [outcome for outcome, _ in made] == ["miss", "direct_hit", "direct_hit"]
    assert made[0][1] == made[1][1] == made[2][1]
    other = inputs.write("other.h", INPUTS["lib/shapes.h"].replace("*", "+"))
    directory = sandbox(inputs, 4)
    (directory / "lib/shapes.h").unlink()
    (directory / "lib/shapes.h").symlink_to(other)
    outcome, content = compile_below_base(inputs, directory)
    assert outcome == "miss"
    assert content != made[0][1]


def test_a_base_directory_that_is_set_later(inputs: Workspace) -> None:
    """A record made without one does not say whether a text contains its path: the passes run once more."""
    compile_in(inputs, sandbox(inputs, 1), BAZEL)
    made = [compile_below_base(inputs, sandbox(inputs, number))[0] for number in (2, 3)]
    assert made == ["stage_hit", "direct_hit"]
    assert compile_below_base(inputs, sandbox(inputs, 1))[0] == "direct_hit"


def compile_below_base(inputs: Workspace, directory: Path) -> tuple[str, bytes]:
    """Compile in a sandbox with a base directory above all of them: outcome and object."""
    how = {"cwd": directory, "makes": [OBJECT, RULE], "PWD": "/proc/self/cwd", **base_of(inputs)}
    made = by_cache(inputs, *BAZEL, "-o", OBJECT, **how)
    assert made.result == Result(0, b"", b"")
    plain = by_plain(inputs, *BAZEL, "-o", OBJECT, keep=keep_of(inputs), **how)
    assert without_place(plain[OBJECT]) == without_place(made[OBJECT])
    assert plain[RULE] == made[RULE]
    return made.outcome, made[OBJECT]


def base_of(inputs: Workspace) -> dict[str, str]:
    return {"NVCCACHE_BASE_DIR": str(inputs.directory.parent / "sandbox")}


def without_place(content: bytes) -> bytes:
    """An object without the checksum of its source's path: below a base directory, of the relative path."""
    return re.sub(rb"_[0-9a-f]{8}_(\d+_)", rb"_00000000_\1", content)


def test_the_wrapper_script_of_tensorflow(inputs: Workspace) -> None:
    """It queries the dependencies by a separate call, and then compiles."""
    directory = sandbox(inputs, 1)
    common = (
        *("--compiler-options", " -fPIC -Wall -fno-omit-frame-pointer", f"--compiler-bindir={HOST_COMPILER}"),
        *("-I.", "-x", "cu", "-O2", "-gencode=arch=compute_80,code=sm_80", "-I", "external/scale/include"),
        *("-std=c++17", "--expt-relaxed-constexpr", "-DGOOGLE_CUDA=1", "pkg/kernel.cu"),
    )
    listed, counters = inputs.since(lambda: inputs.cached(*common, "-M", "-o", RULE, cwd=directory))
    assert counters.outcome == "query_miss"
    found = (directory / RULE).read_bytes()
    assert listed == inputs.plain(*common, "-M", "-o", RULE, cwd=directory)
    assert found == (directory / RULE).read_bytes()
    for outcome in ("miss", "direct_hit"):
        words = (*common, "-c", "-ccbin", HOST_COMPILER)
        assert rebuild(inputs, *words, product=OBJECT, cwd=directory).outcome == outcome


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
    "kokkos": """
        -expt-extended-lambda -Wext-lambda-captures-this -arch=sm_80 -Xcudafe
        --diag_suppress=esa_on_defaulted_function_ignored -Xcompiler -fopenmp,-O2 -lineinfo
        -DKOKKOS_DEPENDENCE -std=c++17 -w""",
}
TIME = re.compile(rb"Compile time = [\d.]+ ms")  # ptxas tells how long it took
SINCE = {"tensorrt-llm": (11, 8), "cudf": (11, 5)}


@pytest.mark.by_default("pytorch", "kokkos")
@pytest.mark.parametrize("name", PROJECTS)
def test_a_project(workspace: Workspace, toolkit: Path, name: str, reference_directory: Path) -> None:
    if cuda_release(workspace) < SINCE.get(name, (11, 0)):
        pytest.skip("this toolkit is too old for it")
    argv = shlex.split(PROJECTS[name])
    if CCBIN and not any(word.startswith("-ccbin") for word in argv):
        argv += ["-ccbin", CCBIN]
    workspace.write("a.cu", SOURCE)
    argv += ["a.cu"] if "-dc" in argv else ["-x", "cu", "-c", "a.cu"]
    for outcome in ("miss", "direct_hit"):
        made, counters = compiled(workspace, [*argv, "-o", "a.o"], "")
        plain, _ = compiled(workspace, [*argv, "-o", "a.o"], str(reference_directory))
        assert made == plain
        assert counters.outcome == outcome


def compiled(workspace: Workspace, argv: list[str], keep: str) -> tuple[list[object], Counters]:
    """Compile through the cache, or by plain nvcc with its files in `keep`; all outputs and messages."""
    files = [workspace.directory / name for name in ("a.o", "a.o.d")]
    for path in files:
        path.unlink(missing_ok=True)
    if keep:
        result, counters = workspace.since(lambda: workspace.plain(*argv, "-keep", "-keep-dir", keep))
    else:
        result, counters = workspace.since(lambda: workspace.cached(*argv))
    assert result.status == 0, result.stderr
    contents = [path.read_bytes() if path.exists() else b"" for path in files]
    messages = TIME.sub(b"Compile time", result.stderr).splitlines()
    return [result.stdout, sorted(messages), *contents], counters  # with -t nvcc's own order is any
