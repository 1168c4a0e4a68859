"""Build CUTLASS examples with CMake and Ninja, plain and through nvccache, and compare every object.

    python tests/benchmarks/cutlass_build.py [--examples N] [--keep DIR]

The sources come from the PyPI wheel `nvidia-cutlass`, which is downloaded into the work directory.
Each round configures and builds in a fresh build directory of the same path. Printed for each: seconds
on the wall, the ratio to the plain build, how often each stage ran and was reused, and whether all
objects equal those of `nvcc -keep`, byte for byte. Fails when a round ran a stage that it must not run.
Needs CMake and Ninja on PATH, and a real nvcc.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from nvccache import journal, nvcc_search

EXAMPLES = (
    "00_basic_gemm/basic_gemm.cu",
    "04_tile_iterator/tile_iterator.cu",
    "05_batched_gemm/batched_gemm.cu",
    "08_turing_tensorop_gemm/turing_tensorop_gemm.cu",
    "12_gemm_bias_relu/gemm_bias_relu.cu",
    "14_ampere_tf32_tensorop_gemm/ampere_tf32_tensorop_gemm.cu",
)
COMPILE_STAGES = ("cudafe", "cicc", "ptxas", "fatbinary", "host_compile")
CMAKE_LISTS = """\
cmake_minimum_required(VERSION 3.20)
project(cutlass_examples LANGUAGES CXX CUDA)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
add_library(examples OBJECT {sources})
target_include_directories(examples PRIVATE {root}/include {root}/tools/util/include {root}/examples/common)
target_compile_options(examples PRIVATE --expt-relaxed-constexpr)
"""


@dataclass(frozen=True)
class Round:
    """One configure and build: its name, its CMake settings, and the stages that must not run."""

    name: str
    settings: tuple[str, ...]
    must_not_run: tuple[str, ...] = ()
    uses_shim: bool = False
    has_cache: bool = True


def rounds(nvcc: str, architectures: str, fewer: str) -> list[Round]:
    launcher = f"-DCMAKE_CUDA_COMPILER_LAUNCHER={sys.executable};-m;nvccache"
    full, dropped = (f"-DCMAKE_CUDA_ARCHITECTURES={value}" for value in (architectures, fewer))
    compiler = f"-DCMAKE_CUDA_COMPILER={nvcc}"
    return [
        Round("plain", (compiler, full), has_cache=False),
        Round("cold", (compiler, full, launcher)),
        Round("warm", (compiler, full, launcher), COMPILE_STAGES),
        Round("one architecture dropped", (compiler, dropped, launcher), ("cicc", "ptxas")),
        Round("warm, shim on PATH", ("-DCMAKE_CUDA_COMPILER=nvcc", full), COMPILE_STAGES, uses_shim=True),
    ]


def fetch_sources(work: Path) -> Path:
    target = work / "cutlass"
    if not target.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
        subprocess.run([*pip, "--target", str(target), "nvidia-cutlass==4.2.0.0"], check=True)
    return target / "cutlass_library" / "source"


def build(work: Path, round_: Round, nvcc: str) -> float:
    """Configure and build; the seconds of the build alone."""
    directory = work / "build"
    shutil.rmtree(directory, ignore_errors=True)
    environ = {**os.environ, "NVCCACHE_DIR": str(work / "cache"), "NVCCACHE_STRICT": "1"}
    if round_.uses_shim:
        shims = work / "shims"
        subprocess.run([sys.executable, "-m", "nvccache", "install", str(shims)], check=True)
        environ["PATH"] = f"{shims}:{Path(nvcc).parent}:{environ['PATH']}"
    configure = ["cmake", "-G", "Ninja", "-S", str(work), "-B", str(directory), *round_.settings]
    subprocess.run(configure, check=True, env=environ, stdout=subprocess.DEVNULL)
    journal.reset(str(work / "cache"))
    started = time.monotonic()
    subprocess.run(["ninja", "-C", str(directory), "--quiet"], check=True, env=environ)
    return time.monotonic() - started


def compare(work: Path, round_: Round, nvcc: str) -> int:
    """Compile each file again with `nvcc -keep`; how many objects differ."""
    directory = work / "build"
    listing = subprocess.check_output(["ninja", "-C", str(directory), "-t", "compdb"])
    differing = 0
    for command in json.loads(listing):
        words = shlex.split(command["command"])
        if not command["file"].endswith(".cu"):
            continue
        position = next(index for index, word in enumerate(words) if word.endswith("nvcc"))
        arguments = words[position + 1 :]
        output = arguments.index("-o") + 1
        made = directory / arguments[output]
        reference = work / "reference" / made.name
        (work / "reference" / "kept").mkdir(parents=True, exist_ok=True)
        arguments[output] = str(reference)
        arguments[arguments.index("-MF") + 1] = str(reference) + ".d"
        keep = ["-keep", "-keep-dir", str(work / "reference" / "kept")]
        subprocess.run([nvcc, *arguments, *keep], check=True, cwd=directory)
        differing += made.read_bytes() != reference.read_bytes()
    return differing


def report(work: Path, round_: Round, seconds: float, plain_seconds: float, differing: str) -> bool:
    line = f"{round_.name:26} {seconds:7.1f} s  ratio {seconds / plain_seconds:5.2f}"
    if not round_.has_cache:
        print(line, flush=True)
        return True
    stages = journal.totals(str(work / "cache"))["stages"]
    assert isinstance(stages, dict)
    ran = {name: int(stage["miss"]) for name, stage in stages.items() if stage["miss"]}
    reused = {name: int(stage["hit"]) for name, stage in stages.items() if stage["hit"]}
    print(f"{line}  objects that differ: {differing}\n    ran {ran}\n    reused {reused}", flush=True)
    forbidden = [name for name in round_.must_not_run if ran.get(name)]
    if forbidden:
        print(f"    WRONG: {', '.join(forbidden)} ran")
    return not forbidden and differing in ("0", "not compared")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--examples", type=int, default=4, help="how many of the examples to build")
    parser.add_argument("--architectures", default="80;90")
    parser.add_argument("--fewer", default="80", help="the architectures that remain when one is dropped")
    parser.add_argument("--keep", type=Path, help="work here, and leave everything")
    options = parser.parse_args()
    nvcc = nvcc_search.find_nvcc(os.environ)
    if not nvcc:
        parser.error("no nvcc found")
    with tempfile.TemporaryDirectory() as temporary:
        work = (options.keep or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(work / "cache", ignore_errors=True)
        root = fetch_sources(work)
        sources = " ".join(str(root / "examples" / name) for name in EXAMPLES[: options.examples])
        (work / "CMakeLists.txt").write_text(CMAKE_LISTS.format(sources=sources, root=root))
        is_right = True
        plain_seconds = 0.0
        for round_ in rounds(nvcc, options.architectures, options.fewer):
            seconds = build(work, round_, nvcc)
            plain_seconds = plain_seconds or seconds
            differing = str(compare(work, round_, nvcc)) if round_.has_cache else "not compared"
            is_right &= report(work, round_, seconds, plain_seconds, differing)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
