"""What a hit costs that runs no tool: the floor, nvccache, ccache and sccache, side by side.

    python tests/benchmarks/direct_hits.py [--rounds N] [--only small|thrust] [--growth] [--sccache PATH]

Two units are compiled with the arguments that CMake gives, for two architectures: a small one (some 185
headers) and one that uses Thrust (some 1600 headers of the toolkit). The contenders take turns in every
round, each with a cache and a directory of its own. Printed are medians of whole processes, the targets,
and how a hit grows with headers and with the object's size (`--growth` measures only that).

Fails when a call was no hit or made other bytes than the first compile. A missed target is only printed:
it depends on the machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

import hit_growth
from contenders import CCACHE, FLOOR, HOW_TO_INSTALL, LAUNCHER, SCCACHE, SCRIPT, SHIM, Contender, contenders
from hit_rounds import Lane, Unit, measure

from nvccache.toolkit import discovery

SMALL = """\
#include <cstdio>

__global__ void kernel(int *p) { *p = 1; }

int main() {
  kernel<<<1, 1>>>(nullptr);
  return std::puts("done") < 0;
}
"""
THRUST = """\
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>

int main() {
  thrust::device_vector<int> values(1000, 1);
  thrust::sort(values.begin(), values.end());
  return thrust::reduce(values.begin(), values.end());
}
"""
SOURCES = {"small": SMALL, "thrust": THRUST}
GENERATE_CODE = tuple(f"--generate-code=arch=compute_{n},code=[compute_{n},sm_{n}]" for n in (80, 90))
MOST_OVER_FLOOR = {"small": 4.0, "thrust": 8.0}  # ms
LEAST_FASTER_THAN_SCCACHE = 20
NAMES = (FLOOR, SHIM, LAUNCHER, SCRIPT, CCACHE, SCCACHE)


def hits_of(name: str, present: list[Contender], rounds: int, work: Path) -> list[Lane]:
    source = work / f"{name}.cu"
    source.write_text(SOURCES[name])
    return measure(present, [Unit(name, source, GENERATE_CODE)], rounds, work)


def report(name: str, lanes: list[Lane], rounds: int) -> bool:
    """Print the table of one unit; whether all calls were hits."""
    print(f"{name}, {rounds} rounds, {_size(lanes)}")
    print(f"  {'':28}{'median ms':>10}{'quartiles':>16}{'x floor':>9}{'ms over floor':>15}")
    floor = lanes[0].median
    for row in NAMES:
        lane = next((lane for lane in lanes if lane.contender.name == row), None)
        if not lane:
            print(f"  {row:28} not installed ({HOW_TO_INSTALL[row]})")
            continue
        low, median, high = statistics.quantiles(lane.milliseconds, n=4, method="inclusive")
        quartiles = f"{low:.2f}-{high:.2f}"
        print(f"  {row:28}{median:10.2f}{quartiles:>16}{median / floor:9.2f}{median - floor:15.2f}")
        for fault in dict.fromkeys(lane.faults):
            print(f"    WRONG: {fault}")
    print(flush=True)
    return not any(lane.faults for lane in lanes)


def _size(lanes: list[Lane]) -> str:
    """How many files the unit reads and how large its object is."""
    first = next(lane.first for lane in lanes if lane.first)
    object_, rule = (first[name] for name in sorted(first))
    files = [word for word in rule.split()[1:] if word != b"\\"]
    return f"{len(files)} files read, an object of {len(object_) / 1000:.0f} KB"


def targets(medians: dict[str, dict[str, float]]) -> list[str]:
    """A line for each target; `medians` has the milliseconds of each unit and contender."""
    lines = []
    for unit, times in medians.items():
        shim = times[SHIM]
        limit = MOST_OVER_FLOOR[unit]
        lines.append(_target(f"{unit} <= floor + {limit:.0f} ms", shim, times[FLOOR] + limit))
        if unit == "thrust":
            lines.append(_target(f"{unit} <= ccache", shim, times.get(CCACHE)))
        sccache = times[SCCACHE] / LEAST_FASTER_THAN_SCCACHE if SCCACHE in times else None
        lines.append(_target(f"{unit} {LEAST_FASTER_THAN_SCCACHE} x faster than sccache", shim, sccache))
    return lines


def _target(name: str, measured: float, limit: float | None) -> str:
    if limit is None:
        return f"  {name:34} not measured"
    return f"  {name:34} {measured:8.2f} <= {limit:8.2f} ms  {'met' if measured <= limit else 'missed'}"


def compete(options: argparse.Namespace, nvcc: str, work: Path) -> bool:
    """Measure and print what was asked for; whether all calls were hits."""
    is_right = True
    with contenders(work, nvcc, options.sccache) as present:
        medians = {}
        for unit in () if options.growth else [options.only] if options.only else SOURCES:
            lanes = hits_of(unit, present, options.rounds, work)
            is_right &= report(unit, lanes, options.rounds)
            medians[unit] = {lane.contender.name: lane.median for lane in lanes}
        if options.growth or not options.only:
            growing = [one for one in present if one.name in (SHIM, CCACHE)]
            is_right &= hit_growth.report(growing, max(options.rounds // 2, 1), work / "growth")
    if medians:
        print("targets, for the shim\n" + "\n".join(targets(medians)))
    return is_right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="sccache takes part in every fifth one")
    parser.add_argument("--only", choices=SOURCES, help="measure one unit and no growth")
    parser.add_argument("--growth", action="store_true", help="measure only how the cost grows")
    parser.add_argument("--sccache", metavar="PATH", help="an sccache that is not on PATH")
    options = parser.parse_args()
    nvcc = discovery.find_nvcc(os.environ)
    if not nvcc:
        parser.error("no nvcc found")
    if options.rounds < 6:
        parser.error("fewer than 6 rounds leave sccache without a median")
    with tempfile.TemporaryDirectory() as temporary:
        is_right = compete(options, nvcc, Path(temporary))
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
