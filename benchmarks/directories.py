"""A second build directory and another checkout, without settings: wall time as a ratio to plain nvcc.

    python benchmarks/directories.py [--nvcc NVCC]

Compiles four units, one after the other: by plain nvcc, by nvccache into an empty cache, and then by nvccache
in the directory that a row names. Each row begins with an empty cache, and each object is compared with plain
nvcc's from the same directory.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

UNITS = {
    "scale": '#include "check.h"\n__global__ void scale(float *a, float f) { a[threadIdx.x] *= f; }\n'
    "void run_scale(float *p, int n) { scale<<<1, rounded(n)>>>(p, 2.0f); CHECK(cudaGetLastError()); }\n",
    "unrolled": '#include "check.h"\n#include <map>\n#include <string>\n#include <vector>\n'
    "template <int N> __global__ void unrolled(float *a) {\n#pragma unroll\n"
    "  for (int i = 0; i < N; i++) a[i * threadIdx.x] = sinf(a[i]) * expf(a[i]); }\n"
    "void run_unrolled(float *p, std::map<std::string, std::vector<int>> &m) {\n"
    '  unrolled<4><<<1, 32>>>(p); unrolled<64><<<1, 32>>>(p); m["a"].push_back(1); }\n',
    "counted": '#include "check.h"\nnamespace { __device__ int counter;\n'
    "__global__ void count() { atomicAdd(&counter, 1); } }\n"
    "void run_count() { count<<<1, 1>>>(); CHECK(cudaGetLastError()); }\n",
    "sorted": "#include <thrust/device_vector.h>\n#include <thrust/sort.h>\n"
    "int smallest(const std::vector<int> &in) {\n"
    "  thrust::device_vector<int> v(in.begin(), in.end());\n"
    "  thrust::sort(v.begin(), v.end()); return v[0]; }\n",
}
HEADER = """#pragma once
#include <cstdio>
#define CHECK(x) if (cudaError_t e = x) std::printf("%d: %s\\n", __LINE__, cudaGetErrorString(e))
inline int rounded(int n) { return (n + 31) / 32 * 32; }
"""
ABSOLUTE = ("{root}/src/{unit}.cu", "-I{root}/include")
RELATIVE = ("../src/{unit}.cu", "-I../include")
# Where the second build is, how it names its sources, and options for both.
ROWS = {
    "second build directory, absolute paths": ("one/b2", ABSOLUTE, ()),
    "second build directory, relative paths": ("one/b2", RELATIVE, ()),
    "second build directory, `-g`": ("one/b2", ABSOLUTE, ("-g",)),
    "other checkout, absolute paths": ("two/b1", ABSOLUTE, ()),
    "other checkout, relative paths": ("two/b1", RELATIVE, ()),
}


def compile_all(
    program: Sequence[str], folder: Path, arguments: Sequence[str], environ: dict[str, str]
) -> tuple[dict[str, float], dict[str, bytes]]:
    """The seconds of each unit, and its object."""
    folder.mkdir(parents=True, exist_ok=True)
    seconds, objects = {}, {}
    for unit in UNITS:
        named = [argument.format(root=folder.parent, unit=unit) for argument in arguments]
        argv = [*program, "-O2", "-arch=sm_80", "-c", *named, "-o", f"{unit}.o"]
        began = time.monotonic()
        subprocess.run(argv, cwd=folder, env=environ | {"PWD": str(folder)}, check=True)
        seconds[unit] = time.monotonic() - began
        objects[unit] = (folder / f"{unit}.o").read_bytes()
    return seconds, objects


def measure(work: Path, nvcc: str, row: str) -> str:
    """The ratios of one row: of each unit, and of all."""
    second, arguments, options = ROWS[row]
    shutil.rmtree(work / "cache", ignore_errors=True)
    environ = os.environ | {"NVCCACHE_DIR": str(work / "cache")}
    cached = [sys.executable, "-m", "nvccache", nvcc]
    (keep := work / "keep").mkdir(exist_ok=True)
    arguments = (*arguments, *options)
    compile_all(cached, work / "one/b1", arguments, environ)
    time.sleep(1)
    ours, made = compile_all(cached, work / second, arguments, environ)
    plain, _ = compile_all([nvcc], work / second, arguments, environ)
    if "-g" not in options:  # with which objects contain the directory of intermediates
        _, expected = compile_all([nvcc, "-keep", "-keep-dir", str(keep)], work / second, arguments, environ)
        assert made == expected, row
    ratios = [f"{ours[unit] / plain[unit]:.2f}" for unit in UNITS]
    return " | ".join([row, *ratios, f"{sum(ours.values()) / sum(plain.values()):.2f}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nvcc", default="nvcc")
    chosen = parser.parse_args()
    print(" | ".join(["", *UNITS, "all"]))
    with tempfile.TemporaryDirectory() as folder:
        work = Path(os.path.realpath(folder))
        for name in ("one", "two"):
            (work / name / "src").mkdir(parents=True)
            (work / name / "include").mkdir()
            (work / name / "include/check.h").write_text(HEADER)
            for unit, text in UNITS.items():
                (work / name / "src" / f"{unit}.cu").write_text(text)
        for row in ROWS:
            print(measure(work, chosen.nvcc, row), flush=True)


if __name__ == "__main__":
    main()
