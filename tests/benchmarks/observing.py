"""What watching costs: compiles by plain nvcc with and without the observer, in turn.

    python tests/benchmarks/observing.py [--rounds N] [--only small|thrust]

Both compile the same unit, in alternating order; with the observer each call has a directory and a log of its
own, which is read afterwards. Printed are medians of the wall clock and of the processors' time (which a busy
machine disturbs less), the ratio, the median ratio of pairs, and what is read from the log and how fast.

Fails when a call was not observed. A ratio over the target is only printed: it depends on the machine.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from direct_hits import SOURCES

from nvccache.observation import observer, observer_log
from nvccache.toolkit import discovery

MOST = 1.02


@dataclass
class Series:
    """Seconds of each call: on the wall, and of processors."""

    wall: list[float] = field(default_factory=list)
    used: list[float] = field(default_factory=list)

    def add(self, argv: list[str], environ: Mapping[str, str], directory: Path) -> None:
        began, used = time.monotonic(), _used()
        subprocess.run(argv, env=dict(environ), cwd=directory, check=True, stdout=subprocess.DEVNULL)
        self.wall.append(time.monotonic() - began)
        self.used.append(_used() - used)


def _used() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def measure(name: str, nvcc: str, rounds: int, work: Path) -> bool:
    """Print what one unit costs; whether every call was observed."""
    source = work / f"{name}.cu"
    source.write_text(SOURCES[name])
    argv = [nvcc, "-c", str(source), "-o", "object.o"]
    plain, watched, reading = Series(), Series(), []
    place = work / "watched"
    found = observer_log.Observation([], set())
    size = 0
    for number in range(rounds + 1):  # the first one warms up
        for is_watched in (False, True) if number % 2 else (True, False):
            if not is_watched:
                plain.add(argv, os.environ, work)
                continue
            shutil.rmtree(place, ignore_errors=True)
            watched.add(argv, observer.arm(str(place), os.environ), work)
            log = observer.log_in(str(place))
            began = time.perf_counter()
            found = observer_log.read(log, nvcc)
            reading.append(time.perf_counter() - began)
            size = os.path.getsize(log)
            if found.incomplete:
                print(f"NOT OBSERVED: {found.incomplete}")
                return False
    print(f"{name}, {rounds} rounds, {len(found.processes)} programs, a log of {size / 1000:.0f} KB")
    for title, one, other in (
        ("wall", plain.wall, watched.wall),
        ("processors", plain.used, watched.used),
    ):
        pairs = statistics.median(ours / base for base, ours in zip(one[1:], other[1:], strict=True))
        base, ours = statistics.median(one[1:]), statistics.median(other[1:])
        verdict = "met" if ours / base <= MOST else "missed"
        print(
            f"  {title:11} {base:7.3f} s without, {ours:7.3f} s with: {ours / base:.3f}, of pairs {pairs:.3f}"
            f" (target {MOST}: {verdict})"
        )
    print(f"  read in {1000 * statistics.median(reading[1:]):.1f} ms", flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", choices=sorted(SOURCES))
    options = parser.parse_args()
    nvcc = discovery.find_nvcc(os.environ, release="13")
    if not nvcc:
        parser.error("there is no nvcc 13")
    with tempfile.TemporaryDirectory() as folder:
        names = [options.only] if options.only else list(SOURCES)
        done = [measure(name, nvcc, options.rounds, Path(folder)) for name in names]
        return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
