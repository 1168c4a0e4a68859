"""Compile softmax.cu for each number of warps in a block, time each variant, and compile all variants again.

    python sweep.py [DIRECTORY]

The programs are written to DIRECTORY, by default `build` beside this file. Without a GPU, they are compiled
but not timed. The variable NVCC is the command to compile with, by default `nvccache nvcc`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
NVCC = shlex.split(os.environ.get("NVCC", "nvccache nvcc"))
WARPS = range(1, 33)
NO_GPU = 3  # the exit status of a program that finds no GPU


def compile_all(directory: Path) -> float:
    """Compile all variants, as many at a time as there are cores; returns the elapsed seconds."""
    directory.mkdir(parents=True, exist_ok=True)
    before = time.perf_counter()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(lambda warps: compile_one(directory, warps), WARPS))
    return time.perf_counter() - before


def compile_one(directory: Path, warps: int) -> None:
    options = ["-O3", "-arch=native", f"-DNUM_WARPS={warps}"]
    command = [*NVCC, *options, str(HERE / "softmax.cu"), "-o", str(directory / f"softmax{warps}")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{shlex.join(command)}\n{done.stderr}")


def microseconds(program: Path) -> float | None:
    """The microseconds that one run of the kernel takes; None without a GPU."""
    done = subprocess.run([program], check=False, capture_output=True, text=True)
    if done.returncode == NO_GPU:
        return None
    if done.returncode:
        sys.exit(f"{program}: {done.stderr}")
    return float(done.stdout)


def main() -> None:
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else HERE / "build").resolve()
    print(f"compiled {len(WARPS)} variants in {compile_all(directory):.1f} s")
    timed = {warps: microseconds(directory / f"softmax{warps}") for warps in WARPS}
    found = {warps: time for warps, time in timed.items() if time is not None}
    for warps, time_taken in found.items():
        print(f"{warps:3} warps {time_taken:8.1f} us")
    if found:
        print(f"the fastest has {min(found, key=lambda warps: found[warps])} warps")
    else:
        print("there is no GPU: nothing was timed")
    for warps in WARPS:
        (directory / f"softmax{warps}").unlink()
    print(f"compiled them again in {compile_all(directory):.1f} s")


if __name__ == "__main__":
    main()
