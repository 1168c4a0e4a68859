"""What queries (-M, -E, --version) cost if nothing has changed, as ratios to plain nvcc.

    python tests/benchmarks/queries.py [--runs 5] [--sources 6] [--nvcc PATH]

Plain nvcc and nvccache answer in turn, in alternating order. Prints a Markdown table of medians, and the
median and range of ratios of pairs. The last rows are a Makefile that lists the dependencies of each source
with `nvcc -M` and then compiles it: the whole run, and only the lists.

Fails if an answer differs from nvcc's, or a query was not answered from a record.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import workbench
from rows import MARKDOWN, Cost, Row, markdown
from workbench import OURS, PLAIN, Bench

from nvccache.toolkit import discovery

_SOURCE = """\
#include <thrust/device_vector.h>
#include <thrust/sort.h>
__global__ void kernel_@NUMBER@(int *values) { values[threadIdx.x] *= @NUMBER@; }
"""
_MAKEFILE = """\
SOURCES := $(wildcard *.cu)
all: $(SOURCES:.cu=.o)
lists: $(SOURCES:.cu=.d)
%.d: %.cu ; @$(NVCC) -M $< > $@.tmp && mv $@.tmp $@
%.o: %.cu %.d ; @$(NVCC) -arch=sm_80 -c $< -o $@
clean: ; @rm -f *.o *.d
"""
_QUERIES = (("--version",), ("-M", "small.cu"), ("-M", "unit0.cu"), ("-E", "unit0.cu"))


def prepared(work: Path, options: argparse.Namespace) -> Bench:
    bench = workbench.set_up(work, options.nvcc)
    for name in (PLAIN, OURS):
        folder = bench.work / name
        (folder / "Makefile").write_text(_MAKEFILE)
        (folder / "small.cu").write_text("__global__ void small() {}\n")
        for number in range(options.sources):
            (folder / f"unit{number}.cu").write_text(_SOURCE.replace("@NUMBER@", str(number)))
    return bench


def answer(bench: Bench, compiler: str, argv: tuple[str, ...], folder: str) -> bytes:
    return subprocess.check_output([compiler, *argv], cwd=bench.work / folder, env=bench.environ)


def made(bench: Bench, compiler: str, target: str, folder: str) -> Cost:
    """The cost of a build from scratch; raises workbench.CompileError."""
    directory = bench.work / folder
    workbench.timed(["make", "-s", "clean"], directory, bench.environ)
    return workbench.timed(["make", "-s", target, f"NVCC={compiler}"], directory, bench.environ)


def compared(name: str, runs: int, plain: Callable[[], Cost], ours: Callable[[], Cost]) -> None:
    """Print a row of the table."""
    for _ in range(2):
        ours()
        workbench.settle()
    pairs = [(plain(), ours()) if run % 2 else (ours(), plain())[::-1] for run in range(runs)]
    base, mine = (list(column) for column in zip(*pairs, strict=True))
    print(markdown(Row("", name, base=base, ours=mine)), flush=True)


def measured(bench: Bench, options: argparse.Namespace) -> bool:
    """Print the table; whether all answers equalled nvcc's and came from records."""
    is_right = True
    print(MARKDOWN)
    for argv in _QUERIES:
        lanes = [
            lambda compiler=compiler, folder=folder, argv=argv: workbench.timed(
                [compiler, *argv], bench.work / folder, bench.environ
            )
            for compiler, folder in ((bench.nvcc, PLAIN), (bench.shim, OURS))
        ]
        compared(f"`{' '.join(argv)}`", options.runs, *lanes)
        is_right &= answer(bench, bench.nvcc, argv, OURS) == answer(bench, bench.shim, argv, OURS)
    before = workbench.statistics_of(bench)["calls"]
    is_right &= before["query_miss"] == len(_QUERIES)
    for target, title in (("lists", "the same without `-c`"), ("all", f"`make`, {options.sources} sources")):
        lanes = [
            lambda compiler=compiler, folder=folder, target=target: made(bench, compiler, target, folder)
            for compiler, folder in ((bench.nvcc, PLAIN), (bench.shim, OURS))
        ]
        compared(title, min(options.runs, 3), *lanes)
    return (
        is_right
        and workbench.statistics_of(bench)["calls"]["query_miss"] == before["query_miss"] + options.sources
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="how often each pair is measured")
    parser.add_argument("--sources", type=int, default=6, help="how many the Makefile compiles")
    options = workbench.parsed(parser)
    with tempfile.TemporaryDirectory() as temporary:
        bench = prepared(Path(temporary).resolve(), options)
        cores, release = len(os.sched_getaffinity(0)), discovery.release_of(options.nvcc)
        print(f"nvcc {release}, {cores} cores, {options.runs} pairs\n")
        is_right = measured(bench, options)
    if not is_right:
        print("\nWRONG: an answer differs from nvcc's, or came from no record")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
