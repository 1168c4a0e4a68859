"""Command lines of build systems that tests cannot run: Bazel in its sandboxes, PyTorch's setup.py.

Messages, objects and depfiles are compared with plain nvcc in the same directory.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from scenarios.support.both_ways import Made, by_cache, by_plain, keep_of, rebuild
from scenarios.support.toolkits import HOST_COMPILER
from workspaces import Result, Workspace

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


def test_explain_names_a_base_directory_that_is_set_later(inputs: Workspace) -> None:
    directory = sandbox(inputs, 1)
    argv = (*BAZEL, "-o", OBJECT)
    assert inputs.cached(*argv, cwd=directory).status == 0
    inputs.write("lib/shapes.h", INPUTS["lib/shapes.h"].replace("*", "+"))
    assert inputs.cached(*argv, cwd=directory, **base_of(inputs)).status == 0
    explained = inputs.run([sys.executable, "-m", "nvccache", "explain", OBJECT], cwd=directory).stdout
    assert b"`NVCCACHE_BASE_DIR` was set" in explained


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
