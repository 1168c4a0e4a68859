"""Build CUTLASS examples with CMake and Ninja, plain and through nvccache, and compare every object.

    python tests/benchmarks/cutlass_build.py [--examples N] [--keep DIR]

The sources come from the PyPI wheel `nvidia-cutlass`, which is downloaded into the work directory.
Each round configures and builds in a fresh build directory at the same path; the last rounds build two
checkouts below one base directory. Prints for each: wall time, its ratio to the plain build, outcomes of the
calls, how often each stage ran and was reused, and how many objects differ from those of `nvcc -keep`. Fails
if a round has a stage that must not run, a wrong outcome, or different objects; below a base directory, only
the module id may differ, which depends on the path of the source. Needs CMake and Ninja on PATH, and nvcc.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import checkouts
from references import Comparison, compare

from nvccache import outcomes
from nvccache.plan import stages
from nvccache.store import event_totals
from nvccache.toolkit import discovery

COMPILE_STAGES = ("cudafe", "cicc", "ptxas", "fatbinary", "host_compile")
ALL_BUT_DIRECT_HITS = tuple(outcome for outcome in outcomes.OUTCOMES if outcome != outcomes.DIRECT_HIT)
FIRST, SECOND = "first", "second"


@dataclass(frozen=True)
class Round:
    """One configure and build: its name, its CMake settings, and what must not happen in it."""

    name: str
    settings: tuple[str, ...]
    must_not_run: tuple[str, ...] = ()
    must_not_occur: tuple[str, ...] = ()  # outcomes
    uses_shim: bool = False
    has_cache: bool = True
    touches_sources: bool = False
    has_base_directory: bool = False
    checkout: str = FIRST


def rounds(nvcc: str, architectures: str, fewer: str) -> list[Round]:
    launcher = f"-DCMAKE_CUDA_COMPILER_LAUNCHER={sys.executable};-I;-m;nvccache"
    full, dropped = (f"-DCMAKE_CUDA_ARCHITECTURES={value}" for value in (architectures, fewer))
    compiler = f"-DCMAKE_CUDA_COMPILER={nvcc}"
    cached = (compiler, full, launcher)
    return [
        Round("plain", (compiler, full), has_cache=False),
        Round("cold", cached),
        Round("warm", cached, must_not_occur=ALL_BUT_DIRECT_HITS),
        Round("all sources touched", cached, must_not_occur=ALL_BUT_DIRECT_HITS, touches_sources=True),
        Round("one architecture dropped", (compiler, dropped, launcher), ("cicc", "ptxas")),
        Round("warm, shim on PATH", ("-DCMAKE_CUDA_COMPILER=nvcc", full), COMPILE_STAGES, uses_shim=True),
        *rounds_with_base_directory(cached),
    ]


def rounds_with_base_directory(cached: tuple[str, ...]) -> list[Round]:
    """Builds whose objects in two checkouts differ at most in the module id.

    NDEBUG, since `assert` puts the path of the checkout into the text; `--no-compress`, since compressed code
    hides the module id.
    """
    release = (*cached, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CUDA_FLAGS=--no-compress")
    return [
        Round("cold, base directory", release, has_base_directory=True),
        Round("warm, base directory", release, (), ALL_BUT_DIRECT_HITS, has_base_directory=True),
        Round("second checkout", release, has_base_directory=True, checkout=SECOND),
    ]


def build(work: Path, round_: Round, nvcc: str) -> float:
    """Configure and build; returns the seconds of the build alone."""
    checkout = checkouts.parent(work) / round_.checkout
    environ = {**os.environ, "NVCCACHE_DIR": str(work / "cache"), "NVCCACHE_STRICT": "1"}
    environ["NVCCACHE_BASE_DIR"] = str(checkout.parent) if round_.has_base_directory else ""
    if round_.uses_shim:
        shims = work / "shims"
        subprocess.run([sys.executable, "-m", "nvccache", "install", str(shims)], check=True)
        environ["PATH"] = f"{shims}:{Path(nvcc).parent}:{environ['PATH']}"
    if round_.touches_sources:
        checkouts.touch(checkout)
    ninja = checkouts.configure(checkout, environ, *round_.settings)
    event_totals.reset(str(work / "cache"))
    started = time.monotonic()
    subprocess.run(ninja, check=True, env=environ)
    return time.monotonic() - started


def report(round_: Round, line: str, totals: event_totals.Totals, compared: Comparison) -> bool:
    """Print what happened in a round with a cache; whether all of it was allowed."""
    calls = {outcome: count for outcome, count in totals["calls"].items() if count}
    ran = {name: stage["miss"] for name, stage in totals["stages"].items() if stage["miss"]}
    reused = {name: stage["hit"] for name, stage in totals["stages"].items() if stage["hit"]}
    print(f"{line}  objects that differ: {compared.differing} of {compared.objects}")
    if round_.has_base_directory:
        print(f"    apart from the module id: {compared.differing_apart_from_id}")
    print(f"    calls {calls}\n    ran {ran}\n    reused {reused}", flush=True)
    wrong = [f"{name} ran" for name in round_.must_not_run if ran.get(name)]
    wrong += [f"{calls[outcome]} x {outcome}" for outcome in round_.must_not_occur if outcome in calls]
    if compared.differing_apart_from_id or (compared.differing and not round_.has_base_directory):
        wrong.append("objects differ")
    if round_.checkout == SECOND:
        least = compared.objects - compared.naming_the_checkout
        hits = calls.get(outcomes.DIRECT_HIT, 0)
        print(f"    direct hits: {hits}; units whose text does not name the checkout: {least}", flush=True)
        wrong += [f"{hits} direct hits instead of {least}"] if hits < least else []
    if compared.differing_rules:
        wrong.append(f"{compared.differing_rules} dependency files differ")
    if sum(calls.values()) != compared.objects:
        wrong.append(f"{sum(calls.values())} calls for {compared.objects} objects")
    if wrong:
        print(f"    WRONG: {', '.join(wrong)}", flush=True)
    return not wrong


def perform(work: Path, options: argparse.Namespace, nvcc: str) -> bool:
    is_right = True
    plain_seconds = 0.0
    for round_ in rounds(nvcc, options.architectures, options.fewer):
        seconds = build(work, round_, nvcc)
        plain_seconds = plain_seconds or seconds
        line = f"{round_.name:26} {seconds:7.1f} s  ratio {seconds / plain_seconds:5.2f}"
        if not round_.has_cache:
            print(line, flush=True)
            continue
        totals = event_totals.read(str(work / "cache"), stages.counted())
        directory = checkouts.parent(work) / round_.checkout / "build"
        compared = compare(directory, work / "references", nvcc)
        is_right &= report(round_, line, totals, compared)
    return is_right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--examples", type=int, default=4, help="how many of the examples to build")
    parser.add_argument("--architectures", default="80;90")
    parser.add_argument("--fewer", default="80", help="the architectures that remain when one is dropped")
    parser.add_argument("--keep", type=Path, help="work here, and leave everything")
    options = parser.parse_args()
    nvcc = discovery.find_nvcc(os.environ)
    if not nvcc:
        parser.error("no nvcc found")
    with tempfile.TemporaryDirectory() as temporary:
        work = (options.keep or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        for stale in ("cache", "references"):
            shutil.rmtree(work / stale, ignore_errors=True)
        for name in (FIRST, SECOND):
            checkouts.make(work, name, options.examples)
        is_right = perform(work, options, nvcc)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
