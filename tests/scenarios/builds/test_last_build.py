"""What counts as the last build, after CMake has tried the compiler and after queries."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from workspaces import Workspace

PROJECT = """\
cmake_minimum_required(VERSION 3.20)
project(small LANGUAGES CUDA)
add_library(small OBJECT a.cu)
"""
NVCCACHE = f"{sys.executable} -m nvccache"
# Through a link named nvcc, all of CMake's checks are calls of nvccache.
CONFIGURE = "cmake -S. -GNinja -DCMAKE_CUDA_ARCHITECTURES=80-real -DCMAKE_CUDA_COMPILER=$PWD/shim/nvcc -B"


def shell(workspace: Workspace, script: str) -> str:
    """Run a script as if it had been typed into a shell of its own."""
    result = workspace.run(["setsid", "-w", "sh", "-c", 'sh -c "$0" && true', script])
    assert result.status == 0, result.stdout.decode() + result.stderr.decode()
    return result.stdout.decode()


def check_compile_is_last(workspace: Workspace) -> None:
    product = str(workspace.directory / "build/CMakeFiles/small.dir/a.cu.o")
    last = json.loads(shell(workspace, f"{NVCCACHE} report --trace trace.json >&2; {NVCCACHE} stats --json"))
    assert last["last_build"]["compiles"] == 1
    shown = json.loads((workspace.directory / "trace.json").read_text())["traceEvents"]
    made = [event["args"].get("product") for event in shown if event.get("cat", "").startswith("call")]
    assert set(made) <= {product, None}  # None: `nvcc -v` in a configure of the same build
    assert json.loads(workspace.explain("--json"))["causes"][0]["objects"] == [product]


def test_checks_of_a_configure_and_later_queries_are_not_in_the_last_build(workspace: Workspace) -> None:
    workspace.environ["PATH"] += f":{Path(sys.executable).parent}"
    for program in ("cmake", "ninja"):
        if not shutil.which(program, path=workspace.environ["PATH"]):
            pytest.skip(f"needs {program}")
    workspace.begin_with_digests({})
    workspace.write("CMakeLists.txt", PROJECT)
    workspace.write("a.cu", "int one;\n")
    shell(workspace, f"{NVCCACHE} install shim && {CONFIGURE} build && ninja -C build")
    check_compile_is_last(workspace)
    shell(workspace, "shim/nvcc --version && shim/nvcc -E a.cu && shim/nvcc -M a.cu")
    check_compile_is_last(workspace)
