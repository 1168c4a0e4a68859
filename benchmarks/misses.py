"""What a miss costs: compiles after a change, or with an empty cache, as ratios to plain nvcc.

    python benchmarks/misses.py [--runs 5] [--units a,b,c,s] [--scenarios NAME,...]
    python benchmarks/misses.py --units s --scenarios define,comment-1 --runs 20 --beside LAUNCHER
    python benchmarks/misses.py --units b --scenarios cold-ninja --copies 16 --jobs 16

Plain nvcc and nvccache compile the same unit in turn, in alternating order. Prints medians, the ratio of
medians, the median and range of ratios of pairs, the ratio of CPU time, the CPU time of nvccache itself (all
but the stages'), the target, and the stages that ran in the last run. A scenario is given by its full name or
the first part (`cold`, `comment`). `cold-4 / -t 2` compares with `nvcc -t 2`; `same-8 / one` compares eight
identical compiles at once with one cold compile, both by nvccache. `--beside` adds another installation, such
as that of the code before a change.

Every object is compared with that of `nvcc -keep`. Fails if one differs, or if the wrong stages ran; a missed
target is only printed, since it depends on the machine. Unit c is CUTLASS, whose wheel is downloaded into the
work directory. Everything takes more than an hour; Ninja must be on PATH for `cold-ninja`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import checkouts
import miss_builds
import miss_scenarios
import rows
import workbench
from nvccache.toolkit import discovery
from rows import Row
from units import Unit, units
from workbench import Bench

Trial = Callable[[], list[Row]]
_LETTERS = ("a", "b", "c", "s")
_OWN = "misses"  # the directory below --keep that is recreated
NAMES = (*(scenario.name for scenario in miss_scenarios.scenarios()), "cold-ninja", "same-8")


def trials(
    benches: list[Bench], present: list[Unit], options: argparse.Namespace
) -> Iterator[tuple[str, str, Trial]]:
    """The requested trials: unit, scenario, and the function that measures it."""
    runs, chosen, bench = options.runs, options.scenarios, benches[0]
    for scenario in miss_scenarios.scenarios():
        for unit in present if scenario.name in chosen else ():
            yield unit.letter, scenario.name, partial(miss_scenarios.perform, benches, unit, scenario, runs)
    if "cold-ninja" in chosen:
        counts = (options.copies, options.jobs)
        yield "all", "cold-ninja", partial(miss_builds.cold_ninja, bench, present, runs, *counts)
    for unit in present if "same-8" in chosen else ():
        yield unit.letter, "same-8", partial(miss_builds.same_at_once, bench, unit, runs)


def measure(benches: list[Bench], present: list[Unit], options: argparse.Namespace) -> list[Row]:
    """Run all trials and print each row; continues after a trial that fails."""
    measured: list[Row] = []
    print(rows.heading(), flush=True)
    for letter, name, trial in trials(benches, present, options):
        try:
            fresh = trial()
        except (workbench.CompileError, OSError) as error:
            fresh = [Row(letter, name, note="failed", wrong=[str(error)])]
        for row in fresh:
            rows.show(row)
        measured += fresh
    return measured


def _chosen_names(text: str) -> list[str]:
    def is_meant(name: str, word: str) -> bool:
        return name == word or name.startswith(f"{word}-")

    words = text.split(",")
    for word in words:
        if not any(is_meant(name, word) for name in NAMES):
            raise argparse.ArgumentTypeError(f"no scenario `{word}`; there are {', '.join(NAMES)}")
    return [name for name in NAMES if any(is_meant(name, word) for word in words)]


def _letters(text: str) -> list[str]:
    unknown = set(text.split(",")) - set(_LETTERS)
    if unknown:
        raise argparse.ArgumentTypeError(f"no unit `{min(unknown)}`; there are {', '.join(_LETTERS)}")
    return [letter for letter in _LETTERS if letter in text.split(",")]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="how often each pair is measured")
    parser.add_argument("--units", type=_letters, default=["a", "b", "c"], metavar="a,b,c,s")
    parser.add_argument("--scenarios", type=_chosen_names, default=list(NAMES), metavar="NAME,...")
    parser.add_argument("--beside", metavar="LAUNCHER", action="append", default=[])
    parser.add_argument("--copies", type=int, default=4, help="of each unit, for `cold-ninja`")
    parser.add_argument("--jobs", type=int, default=2, help="of Ninja, for `cold-ninja`")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work here, and leave everything")
    options = workbench.parsed(parser)
    if "cold-ninja" in options.scenarios and not shutil.which("ninja"):
        print("skipped: cold-ninja, no ninja on PATH")
        options.scenarios.remove("cold-ninja")
    return options


def main() -> int:
    options = parsed()
    with tempfile.TemporaryDirectory() as temporary:
        work = (options.keep or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        cutlass = checkouts.cutlass(work) / "include" if "c" in options.units else None
        present = [unit for letter, unit in units(cutlass).items() if letter in options.units]
        cores = len(os.sched_getaffinity(0))
        release = discovery.release_of(options.nvcc)
        print(f"nvcc {release}, {cores} cores that this process may use, {options.runs} runs of every pair")
        print(", ".join(f"{unit.letter}: {unit.title}" for unit in present), flush=True)
        programs = [(sys.executable, "-m", "nvccache"), *((os.path.abspath(one),) for one in options.beside)]
        try:
            benches = [
                workbench.set_up(work / f"{_OWN}{number or ''}", options.nvcc, program)
                for number, program in enumerate(programs)
            ]
        except workbench.CompileError as error:
            raise SystemExit(f"nothing can be measured: {error}") from None
        measured = measure(benches, present, options)
    print(rows.summary(measured))
    return 1 if any(row.wrong for row in measured) else 0


if __name__ == "__main__":
    sys.exit(main())
