"""A build on local cores and other machines, simulated from the times of its stages.

    python tests/benchmarks/executor_simulation.py [--units 3000] [--local 8] [--remote 64 256 1024 4096]

List scheduling as in compile/schedule.py: a stage that may be sent runs on an idle core, here if possible; a
job of make is one unit, which is preprocessed, compiled for all architectures in parallel, and linked. Stages
that are sent have the overheads measured by tests/benchmarks/executor.py, and share the network. `check` runs
the same model with the times of a real build, for that benchmark to compare with.
"""

from __future__ import annotations

import argparse
import dataclasses
import heapq
import itertools
import random
import sys
from collections.abc import Iterable, Sequence

# Seconds of CPU and megabytes (compressed) of one architecture: Thrust, CUTLASS 41 and 48 with CUDA 13.0.
UNITS = {
    "thrust": {"cicc": (6.1, 1.2, 0.07), "ptxas": (1.1, 0.07, 0.1)},
    "cutlass 41": {"cicc": (15.4, 1.4, 0.2), "ptxas": (2.2, 0.2, 0.2)},
    "cutlass 48": {"cicc": (21.7, 1.7, 0.1), "ptxas": (0.6, 0.1, 0.1)},
}
MIX = ("thrust", "thrust", "thrust", "cutlass 41", "cutlass 48")
HOST_PASS, DEVICE_PASS, CUDAFE, HOST_COMPILE = 0.9, 0.8, 1.6, 4.0
SEED = 7


@dataclasses.dataclass(frozen=True)
class Stage:
    """`needs` are the numbers of earlier stages of the unit; megabytes go to and come from a worker.

    Without `takes_core`, it runs in parallel without a core, like nvccache's own work.
    """

    kind: str
    seconds: float
    needs: tuple[int, ...] = ()
    may_be_sent: bool = False
    sent_mb: float = 0.0
    fetched_mb: float = 0.0
    takes_core: bool = True


@dataclasses.dataclass(frozen=True)
class Machines:
    """Cores here and elsewhere, jobs of make, and what it costs to send one stage."""

    local: int
    remote: int
    jobs: int
    overhead: float = 0.15  # seconds for queue and round trips of a stage that is sent
    client: float = 0.06  # CPU seconds on this machine for a stage that is sent
    bandwidth: float = 1250.0  # megabytes a second of this machine's network: 10 Gbit
    away: int = 64
    least: float = 1.0


@dataclasses.dataclass
class Outcome:
    makespan: float = 0.0
    local_busy: float = 0.0
    remote_busy: float = 0.0
    sent_mb: float = 0.0
    fetched_mb: float = 0.0
    sent: int = 0
    most_away: int = 0
    critical: float = 0.0

    def bottleneck(self, machines: Machines) -> str:
        """The resource that is busiest."""
        transfer = (self.sent_mb + self.fetched_mb) / machines.bandwidth
        shares = {
            "local cores": self.local_busy / machines.local,
            "remote cores": self.remote_busy / machines.remote if machines.remote else 0.0,
            "network": transfer,
            "longest chain of one unit": self.critical,
        }
        if machines.remote and self.most_away == machines.away < machines.remote:
            shares["stages away at once"] = self.remote_busy / machines.away
        name = max(shares, key=lambda each: shares[each])
        return f"{name} ({min(1.0, shares[name] / self.makespan):.0%})"


def unit(name: str, architectures: int, factor: float = 1.0) -> list[Stage]:
    """The stages of one unit."""
    times = UNITS[name]
    stages = [Stage("host_preprocess", HOST_PASS * factor), Stage("cudafe", CUDAFE * factor, (0,))]
    last = []
    for _ in range(architectures):
        passed = len(stages)
        stages.append(Stage("device_preprocess", DEVICE_PASS * factor))
        seconds, sent, fetched = times["cicc"]
        stages.append(Stage("cicc", seconds * factor, (passed,), True, sent, fetched))
        seconds, sent, fetched = times["ptxas"]
        stages.append(Stage("ptxas", seconds * factor, (passed + 1,), True, sent, fetched))
        last.append(passed + 2)
    stages.append(Stage("host_compile", HOST_COMPILE * factor, (1, *last)))
    return stages


def simulate(units: Sequence[Sequence[Stage]], machines: Machines) -> Outcome:
    """List scheduling of all units."""
    return _Build(units, machines).run()


class _Build:
    def __init__(self, units: Sequence[Sequence[Stage]], machines: Machines) -> None:
        self._machines = machines
        self._units = units
        self._waiting = [[len(stage.needs) for stage in stages] for stages in units]
        self._left = [len(stages) for stages in units]
        self._readers = [_readers(stages) for stages in units]
        self._next = 0
        self._order = itertools.count()
        self._ready: list[tuple[float, int, int, int]] = []  # urgency, order, unit, stage
        self._stuck: list[tuple[float, int, int, int]] = []
        self._events: list[tuple[float, int, str, int, int]] = []
        self._free_local, self._free_remote = machines.local, machines.remote
        self._away = 0
        self._network = 0.0  # when it is free again
        self._now = 0.0
        self.outcome = Outcome()

    def run(self) -> Outcome:
        for _ in range(min(self._machines.jobs, len(self._units))):
            self._begin_unit()
        self._start()
        while self._events:
            self._now, _, place, number, stage = heapq.heappop(self._events)
            self._end(place, number, stage)
            self._start()
        self.outcome.makespan = self._now
        self.outcome.critical = max(map(critical_path, self._units))
        return self.outcome

    def _begin_unit(self) -> None:
        if self._next < len(self._units):
            for stage, count in enumerate(self._waiting[self._next]):
                if not count:
                    self._make_ready(self._next, stage)
            self._next += 1

    def _make_ready(self, number: int, stage: int) -> None:
        found = self._units[number][stage]
        if not found.takes_core:
            self._push(found.seconds, "beside", number, stage)
            return
        queue = self._stuck if self._may_be_sent(found) else self._ready
        heapq.heappush(queue, (_urgency(found), next(self._order), number, stage))

    def _may_be_sent(self, stage: Stage) -> bool:
        return stage.may_be_sent and stage.seconds >= self._machines.least and self._machines.remote > 0

    def _start(self) -> None:
        # Stages that must run here get cores first; the others take the remaining cores, or are sent.
        while self._ready and self._free_local:
            _, _, number, stage = heapq.heappop(self._ready)
            self._run_here(number, stage)
        while self._stuck and (self._free_local or self._can_send()):
            _, _, number, stage = heapq.heappop(self._stuck)
            if self._free_local:
                self._run_here(number, stage)
            else:
                self._send(number, stage)

    def _can_send(self) -> bool:
        return self._free_remote > 0 and self._away < self._machines.away

    def _run_here(self, number: int, stage: int) -> None:
        seconds = self._units[number][stage].seconds
        self._free_local -= 1
        self.outcome.local_busy += seconds
        self._push(seconds, "here", number, stage)

    def _send(self, number: int, stage: int) -> None:
        found, machines = self._units[number][stage], self._machines
        self._free_remote -= 1
        self._away += 1
        megabytes = found.sent_mb + found.fetched_mb
        self._network = max(self._network, self._now) + megabytes / machines.bandwidth
        self.outcome.sent += 1
        self.outcome.sent_mb += found.sent_mb
        self.outcome.fetched_mb += found.fetched_mb
        self.outcome.remote_busy += found.seconds
        self.outcome.local_busy += machines.client
        self.outcome.most_away = max(self.outcome.most_away, self._away)
        delay = self._network - self._now + machines.overhead + machines.client
        self._push(delay + found.seconds, "away", number, stage)

    def _push(self, seconds: float, place: str, number: int, stage: int) -> None:
        heapq.heappush(self._events, (self._now + seconds, next(self._order), place, number, stage))

    def _end(self, place: str, number: int, stage: int) -> None:
        if place == "here":
            self._free_local += 1
        elif place == "away":
            self._free_remote += 1
            self._away -= 1
        for reader in self._readers[number][stage]:
            self._waiting[number][reader] -= 1
            if not self._waiting[number][reader]:
                self._make_ready(number, reader)
        self._left[number] -= 1
        if not self._left[number]:
            self._begin_unit()


def _readers(stages: Sequence[Stage]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in stages]
    for number, stage in enumerate(stages):
        for needed in stage.needs:
            found[needed].append(number)
    return found


def _urgency(stage: Stage) -> float:
    return {"host_compile": -3.0, "cudafe": -1.0}.get(stage.kind, -2.0 if stage.may_be_sent else 0.0)


def critical_path(stages: Sequence[Stage]) -> float:
    """The seconds of the longest chain."""
    ends: list[float] = []
    for stage in stages:
        ends.append(stage.seconds + max((ends[needed] for needed in stage.needs), default=0.0))
    return max(ends)


def build_of(units: int, architectures: int) -> list[list[Stage]]:
    """Units of the mix, each with random times."""
    chosen = random.Random(SEED)
    return [unit(chosen.choice(MIX), architectures, chosen.uniform(0.5, 1.5)) for _ in range(units)]


def table(units: int, architectures: int, local: int, remotes: Iterable[int], jobs: int) -> list[str]:
    build = build_of(units, architectures)
    alone = simulate(build, Machines(local, 0, local))
    lines = ["| remote cores | jobs | makespan | of local | sent | GB sent | GB fetched | bottleneck |",
             "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    rows = [(alone, Machines(local, 0, local))]
    for remote in remotes:
        machines = Machines(local, remote, jobs or min(4 * remote, 512) + local, away=max(64, remote))
        rows.append((simulate(build, machines), machines))
    for found, machines in rows:
        lines.append(
            f"| {machines.remote} | {machines.jobs} | {found.makespan / 3600:.2f} h "
            f"| {found.makespan / alone.makespan:.2f} | {found.sent} | {found.sent_mb / 1e3:.1f} "
            f"| {found.fetched_mb / 1e3:.1f} | {found.bottleneck(machines)} |"
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--units", type=int, default=3000)
    parser.add_argument("--architectures", type=int, default=6)
    parser.add_argument("--local", type=int, default=8)
    parser.add_argument("--remote", type=int, nargs="*", default=[64, 128, 256, 512, 1024, 4096])
    parser.add_argument("--jobs", type=int, default=0, help="of make; by default four for each remote core")
    chosen = parser.parse_args()
    print("\n".join(table(chosen.units, chosen.architectures, chosen.local, chosen.remote, chosen.jobs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
