"""CUTLASS from the package index, and checkouts of it for remote.py.

    WORK/wheel                  the PyPI wheel `nvidia-cutlass`, unpacked
    WORK/checkouts/NAME/        a checkout: CMakeLists.txt, cutlass/ and, made by CMake, build/

Nothing in a checkout contains its path, so that two checkouts differ only in path.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

_EXAMPLES = (
    "00_basic_gemm/basic_gemm.cu",
    "04_tile_iterator/tile_iterator.cu",
    "05_batched_gemm/batched_gemm.cu",
    "08_turing_tensorop_gemm/turing_tensorop_gemm.cu",
    "12_gemm_bias_relu/gemm_bias_relu.cu",
    "14_ampere_tf32_tensorop_gemm/ampere_tf32_tensorop_gemm.cu",
)
_CMAKE_LISTS = """\
cmake_minimum_required(VERSION 3.20)
project(cutlass_examples LANGUAGES CXX CUDA)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
add_library(examples OBJECT {sources})
include_directories(cutlass/include cutlass/tools/util/include cutlass/examples/common)
target_compile_options(examples PRIVATE --expt-relaxed-constexpr)
"""


def cutlass(work: Path) -> Path:
    """The sources of CUTLASS; downloads them into the work directory if missing."""
    wheel = work / "wheel"
    if not wheel.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
        subprocess.run([*pip, "--target", str(wheel), "nvidia-cutlass==4.2.0.0"], check=True)
    return wheel / "cutlass_library" / "source"


def make(work: Path, name: str, examples: int) -> Path:
    """A fresh checkout of that name, with the first `examples` of the examples."""
    checkout = work / "checkouts" / name
    shutil.rmtree(checkout, ignore_errors=True)
    shutil.copytree(cutlass(work), checkout / "cutlass")
    sources = " ".join(f"cutlass/examples/{example}" for example in _EXAMPLES[:examples])
    (checkout / "CMakeLists.txt").write_text(_CMAKE_LISTS.format(sources=sources))
    return checkout


def configure(checkout: Path, environ: dict[str, str], *settings: str) -> list[str]:
    """Configure a fresh `build` with CMake for Ninja; returns the command that builds it."""
    directory = checkout / "build"
    shutil.rmtree(directory, ignore_errors=True)
    argv = ["cmake", "-G", "Ninja", "-S", str(checkout), "-B", str(directory), *settings]
    subprocess.run(argv, check=True, env=environ, stdout=subprocess.DEVNULL)
    return ["ninja", "-C", str(directory), "--quiet", "-d", "keepdepfile"]
