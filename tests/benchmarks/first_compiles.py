"""What first compiles cost whose passes begin with other external definitions: CPU time and wall time.

    python tests/benchmarks/first_compiles.py [--units 16] [--jobs N] [--rounds 3] [--one-core] [--alike]

So many Thrust units for two architectures are compiled from an empty cache, N at a time, by plain nvcc and by
nvccache in turn. Above the headers each has a function that only the host's pass sees, so that the module id
which cicc makes up is not the one of nvcc (`--alike` leaves it out). `--one-core` pins all to one core.

Printed are CPU seconds (user and system, of all processes), wall seconds, their ratios to plain nvcc, and how
many stages of ours ran in vain. Before that one unit is compiled by each, which reads the headers.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import workbench
from workbench import OURS, PLAIN, Bench

from nvccache.store import event_totals
from nvccache.toolkit import discovery

_FIRST = "#ifndef __CUDA_ARCH__\nint only_for_the_host_{number}() {{ return 1; }}\n#endif\n"
_TEXT = """#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
int run_{number}(int n) {{
    thrust::device_vector<int> v(n);
    thrust::sort(v.begin(), v.end());
    thrust::inclusive_scan(v.begin(), v.end(), v.begin());
    return thrust::reduce(v.begin(), v.end()) + {number};
}}
"""
_EMPTY = "empty"  # a cache that knows the tools, and nothing of the units
_CODE = ("-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=sm_90")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one-core", action="store_true")
    parser.add_argument("--alike", action="store_true")
    options = parser.parse_args()
    if options.one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        options.jobs = 1
    nvcc = discovery.find_nvcc(os.environ)
    if not nvcc:
        parser.error("there is no nvcc")
    work = Path(tempfile.mkdtemp(prefix="first-compiles-"))
    try:
        measure(workbench.set_up(work, nvcc, ()), options)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 0


def measure(bench: Bench, options: argparse.Namespace) -> None:
    text = ("" if options.alike else _FIRST) + _TEXT
    sources = [
        workbench.write(bench, f"unit{number}.cu", text.format(number=number))
        for number in range(options.units)
    ]
    workbench.settle()
    workbench.save_cache(bench, _EMPTY)
    programs = {PLAIN: bench.nvcc, OURS: bench.shim}
    costs: dict[str, list[tuple[float, float]]] = {PLAIN: [], OURS: []}
    for number in range(options.rounds + 1):
        for place in sorted(programs, reverse=bool(number % 2)):
            workbench.restore_cache(bench, _EMPTY)
            chosen = sources if number else sources[:1]
            cost = build(bench, programs[place], bench.work / place, chosen, options.jobs)
            note = f", {in_vain(bench)} stages in vain" if place == OURS else ""
            if number:
                costs[place].append(cost)
                print(f"{number} {place:5}  CPU {cost[0]:8.1f} s  wall {cost[1]:8.1f} s{note}", flush=True)
    for name, index in (("CPU", 0), ("wall", 1)):
        pairs = [ours[index] / plain[index] for plain, ours in zip(costs[PLAIN], costs[OURS], strict=True)]
        shown = ", ".join(f"{pair:.2f}" for pair in pairs)
        print(f"{name:4} ours / plain: median {statistics.median(pairs):.2f} of {shown}")


def build(
    bench: Bench, program: str, folder: Path, sources: Sequence[Path], jobs: int
) -> tuple[float, float]:
    """CPU and wall seconds for compiling all sources, so many at a time."""
    commands = [[program, *_CODE, "-c", str(source), "-o", f"{source.stem}.o"] for source in sources]
    before, started = _cpu_seconds(), time.monotonic()
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda command: workbench.timed(command, folder, bench.environ), commands))
    return _cpu_seconds() - before, time.monotonic() - started


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def in_vain(bench: Bench) -> int:
    """How many stages ran in vain since the cache was emptied."""
    return event_totals.read(str(bench.cache))["in_vain"]["runs"]


if __name__ == "__main__":
    sys.exit(main())
