"""What a hit costs in CPU and wall time, compared with a trivial process, ccache and sccache.

    python benchmarks/hits.py [--rounds N] [--sccache PATH] [--only small|thrust]

The contenders take turns in every round, each with its own cache and directory; CPU time is that of the whole
process tree, user and system. Prints minimum and median, and the ratio of medians to ccache's. This is
repeated next to busy loops, two for each core, and with touched sources.

Fails if a call was no hit or its object differs from the first compile's. A missed target is only printed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from contenders import CCACHE, FLOOR, LAUNCHER, SCCACHE, SHIM, Contender, contenders
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
TRUE = "floor: /bin/true"
NAMES = (TRUE, FLOOR, LAUNCHER, SHIM, CCACHE, SCCACHE)
MOST_CPU = {"small": 2.0, "thrust": 6.0}  # ms
MOST_OF_CCACHE = 0.3
SETTLED = 1.2  # seconds; caches distrust files as young as their records of them


@dataclass
class Lane:
    """One contender on one unit, with the milliseconds of its hits."""

    contender: Contender
    directory: Path
    command: list[str]
    first: bytes = b""
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def hit(self) -> None:
        """Delete the object, compile, and compare the new object with the first."""
        product = self.directory / "a.o"
        if self.first:
            product.unlink()
        cpu, wall = timed(self.command, self.contender.environ, self.directory)
        self.cpu.append(cpu)
        self.wall.append(wall)
        if self.contender.hits and product.read_bytes() != (self.first or product.read_bytes()):
            raise SystemExit(f"{self.contender.name}: other bytes than the first compile")

    def prepare(self) -> None:
        for _ in range(3):
            self.hit()
            time.sleep(SETTLED if self.contender.hits and not self.first else 0)
            self.first = (self.directory / "a.o").read_bytes() if self.contender.hits else b""
        self.cpu.clear()
        self.wall.clear()


def timed(command: list[str], environ: dict[str, str], directory: Path) -> tuple[float, float]:
    """CPU and wall milliseconds of a process tree, from before the spawn until after the wait."""
    os.chdir(directory)
    actions = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0), (os.POSIX_SPAWN_DUP2, 1, 2)]
    started = time.perf_counter()
    process = os.posix_spawn(command[0], command, environ, file_actions=actions)
    _, status, usage = os.wait4(process, 0)
    wall = time.perf_counter() - started
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {status}")
    return (usage.ru_utime + usage.ru_stime) * 1000, wall * 1000


def lanes_of(unit: str, present: list[Contender], work: Path) -> list[Lane]:
    source = work / f"{unit}.cu"
    source.write_text(SOURCES[unit])
    time.sleep(SETTLED)
    lanes = []
    for contender in present:
        directory = work / unit / contender.name.replace("/", "_")
        directory.mkdir(parents=True)
        argv = [*GENERATE_CODE, "-O2", "-c", str(source), "-o", "a.o"] if contender.hits else []
        lanes.append(Lane(contender, directory, [*contender.argv, *argv]))
    for lane in lanes:
        lane.prepare()
    return lanes


def take_turns(lanes: list[Lane], rounds: int, before: Callable[[], object] = lambda: None) -> None:
    """One hit for each lane in each of its rounds; raises SystemExit if a contender's own count differs."""
    counted = {lane.contender.name: lane.contender.hits() for lane in lanes if lane.contender.hits}
    for number in range(rounds):
        start = number % len(lanes)  # varies which lane comes after which
        for lane in lanes[start:] + lanes[:start]:
            if number % lane.contender.every == 0:
                before()
                lane.hit()
    for lane in lanes:
        if lane.contender.hits:
            hits = lane.contender.hits() - counted[lane.contender.name]
            calls = len(range(0, rounds, lane.contender.every))
            if hits != calls:
                raise SystemExit(f"{lane.contender.name}: {hits} hits in {calls} calls")


def report(title: str, lanes: list[Lane], most: float | None = None) -> None:
    """Print a table, and clear its times."""
    print(f"{title}, {max(len(lane.cpu) for lane in lanes)} rounds")
    print(f"  {'':28}{'CPU ms min':>11}{'median':>9}{'wall min':>10}{'median':>9}{'x ccache':>10}{'wall':>8}")
    peer = next((lane for lane in lanes if lane.contender.name == CCACHE), None)
    for lane in lanes:
        numbers = [min(lane.cpu), statistics.median(lane.cpu), min(lane.wall), statistics.median(lane.wall)]
        row = "".join(f"{number:{width}.2f}" for number, width in zip(numbers, (11, 9, 10, 9), strict=True))
        if peer:
            row += f"{numbers[1] / statistics.median(peer.cpu):10.2f}"
            row += f"{numbers[3] / statistics.median(peer.wall):8.2f}"
        if lane.contender.name == LAUNCHER and most:
            is_met = min(lane.cpu) <= most and (
                not peer or numbers[1] <= MOST_OF_CCACHE * statistics.median(peer.cpu)
            )
            row += f"  {'met' if is_met else 'missed'}: {most} ms of CPU, {MOST_OF_CCACHE} x ccache"
        print(f"  {lane.contender.name:28}{row}")
    print(flush=True)
    for lane in lanes:
        lane.cpu.clear()
        lane.wall.clear()


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def measure(unit: str, present: list[Contender], rounds: int, work: Path) -> None:
    lanes = lanes_of(unit, present, work)
    take_turns(lanes, rounds)
    report(f"{unit}, hit", lanes, MOST_CPU[unit])
    loops = 2 * (os.cpu_count() or 1)
    with busy_loops(loops):
        take_turns(lanes, rounds)
    report(f"{unit}, hit beside {loops} busy loops", lanes)
    source = work / f"{unit}.cu"
    compiling = [lane for lane in lanes if lane.contender.hits and lane.contender.every == 1]
    take_turns(compiling, max(1, rounds // 2), lambda: (os.utime(source), time.sleep(0.3)))
    report(f"{unit}, source touched", compiling)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--only", choices=sorted(SOURCES))
    parser.add_argument("--sccache", metavar="PATH", help="an sccache that is not on PATH")
    options = parser.parse_args()
    nvcc = discovery.find_nvcc(os.environ)
    if not nvcc:
        raise SystemExit("there is no nvcc")
    with tempfile.TemporaryDirectory(prefix="nvccache-hits-") as folder:
        work = Path(folder)
        with contenders(work, nvcc, options.sccache) as found:
            floor = found[0]
            true = Contender(TRUE, (shutil.which("true") or "/bin/true",), floor.environ)
            present = [true, *(one for one in found if one.name in NAMES)]
            for unit in [options.only] if options.only else SOURCES:
                measure(unit, present, options.rounds, work)
        os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
