"""What a miss costs: compiles after a change, or with an empty cache, as ratios to plain nvcc.

    python tests/benchmarks/misses.py [--runs 5] [--units a,b,c,s] [--scenarios NAME,...] [--builds 10]
    python tests/benchmarks/misses.py --units s --scenarios define,comment-1 --runs 20 --beside LAUNCHER
    python tests/benchmarks/misses.py --units b --scenarios other-ids --copies 16 --jobs 16

Plain nvcc and nvccache compile the same unit in turn, in alternating order. Prints medians, the ratio of
medians, the median and range of ratios of pairs, the ratio of CPU time, the target, and the stages that ran
in the last run. A scenario is given by its full name or the first part (`cold`, `comment`). `cold-4 / -t 2`
compares with `nvcc -t 2`; `same-8 / one` compares eight identical compiles at once with one cold compile,
both by nvccache. `--beside` adds another installation, such as that of the code before a change.

Every object is compared with that of `nvcc -keep`. Fails if one differs, or if the wrong stages ran; a missed
target is only printed, since it depends on the machine. Unit c is CUTLASS, whose wheel is downloaded into the
work directory. Everything takes more than an hour; Ninja must be on PATH for `cold-ninja` and `reproducible`.
"""

from __future__ import annotations

import argparse
import os
import random
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
from rows import Row
from units import Unit, units
from workbench import Bench

from nvccache.toolkit import discovery

Trial = Callable[[], list[Row]]
_LETTERS = ("a", "b", "c", "s")
_OWN = "misses"  # the directory below --keep that is recreated
_NINJA = ("cold-ninja", "other-ids", "reproducible")
NAMES = (
    *(scenario.name for scenario in miss_scenarios.scenarios()),
    "ccbin",
    "cold-ninja",
    "other-ids",
    "same-8",
    "reproducible",
)


def trials(
    benches: list[Bench], present: list[Unit], options: argparse.Namespace
) -> Iterator[tuple[str, str, Trial]]:
    """The requested trials: unit, scenario, and the function that measures it."""
    runs, chosen, bench = options.runs, options.scenarios, benches[0]
    for scenario in miss_scenarios.scenarios():
        for unit in present if scenario.name in chosen else ():
            yield unit.letter, scenario.name, partial(miss_scenarios.perform, benches, unit, scenario, runs)
    for unit in present if "ccbin" in chosen else ():
        yield unit.letter, "ccbin", partial(_with_other_compiler, bench, unit, options)
    for unit in present if "other-ids" in chosen else ():
        counts = (options.copies, options.jobs)
        yield unit.letter, "other-ids", partial(miss_builds.other_ids, bench, unit, runs, *counts)
    if "cold-ninja" in chosen:
        yield "all", "cold-ninja", partial(miss_builds.cold_ninja, bench, present, runs)
    for unit in present if "same-8" in chosen else ():
        yield unit.letter, "same-8", partial(miss_builds.same_at_once, bench, unit, runs)
    if "reproducible" in chosen:
        yield "-", "reproducible", partial(miss_builds.reproducible, bench, options.builds, options.seed)


def _with_other_compiler(bench: Bench, unit: Unit, options: argparse.Namespace) -> list[Row]:
    scenario = miss_scenarios.other_compiler(bench, unit, options.ccbin)
    return miss_scenarios.perform([bench], unit, scenario, options.runs)


def measure(benches: list[Bench], present: list[Unit], options: argparse.Namespace) -> list[Row]:
    """Run all trials and print each row; continues after a trial that fails."""
    made: list[Row] = []
    print(rows.heading(), flush=True)
    for letter, name, trial in trials(benches, present, options):
        try:
            fresh = trial()
        except (workbench.CompileError, OSError) as error:
            fresh = [Row(letter, name, note="failed", wrong=[str(error)])]
        for row in fresh:
            rows.show(row)
        made += fresh
    return made


def _chosen_names(text: str) -> list[str]:
    argv = text.split(",")
    for word in argv:
        if not any(_is_meant(name, word) for name in NAMES):
            raise argparse.ArgumentTypeError(f"no scenario `{word}`; there are {', '.join(NAMES)}")
    return [name for name in NAMES if any(_is_meant(name, word) for word in argv)]


def _is_meant(name: str, word: str) -> bool:
    return name == word or name.startswith(f"{word}-")


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
    parser.add_argument("--copies", type=int, default=16, help="of a unit, for `other-ids`")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="for `other-ids`")
    parser.add_argument("--one-core", action="store_true", help="run all on one core")
    parser.add_argument("--ccbin", metavar="PATH", help="another host compiler, for the scenario `ccbin`")
    parser.add_argument("--builds", type=int, default=10, help="how often `reproducible` builds its project")
    parser.add_argument("--seed", type=int, default=random.randrange(1000), help="of its order and its jobs")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work here, and leave everything")
    options = workbench.parsed(parser)
    if options.ccbin:  # a path, since it is started in other directories
        options.ccbin = os.path.abspath(shutil.which(options.ccbin) or options.ccbin)
    if options.one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return options


def _leave_out_what_cannot_be(options: argparse.Namespace) -> None:
    """Print which scenarios are skipped, and why."""
    missing = {}
    if not options.ccbin:
        missing["ccbin"] = "no other host compiler is named with --ccbin"
    if not shutil.which("ninja"):
        missing |= dict.fromkeys(_NINJA, "no ninja on PATH")
    for name in [name for name in options.scenarios if name in missing]:
        print(f"skipped: {name}, {missing[name]}")
        options.scenarios.remove(name)


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
        _leave_out_what_cannot_be(options)
        compilers = [options.ccbin] if options.ccbin else []
        try:
            programs = [
                (sys.executable, "-m", "nvccache"),
                *((os.path.abspath(one),) for one in options.beside),
            ]
            benches = [
                workbench.set_up(work / f"{_OWN}{number or ''}", options.nvcc, compilers, program)
                for number, program in enumerate(programs)
            ]
        except workbench.CompileError as error:
            raise SystemExit(f"nothing can be measured: {error}") from None
        made = measure(benches, present, options)
    print(rows.summary(made))
    return 1 if any(row.wrong for row in made) else 0


if __name__ == "__main__":
    sys.exit(main())
