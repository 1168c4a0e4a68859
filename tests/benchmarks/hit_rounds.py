"""Measures hits: each contender compiles each unit once, and then again and again, taking turns.

Owns what a hit is here: the object and the dependency file deleted before, both there afterwards, with the
bytes of that contender's first compile, and counted as a hit by the contender itself. The seconds are those
of a whole process, from before it is spawned until it has been waited for.
"""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

from contenders import Contender

_SETTLED = 1.2  # seconds; a cache does not trust files that are as young as its own record of them


@dataclass(frozen=True)
class Unit:
    """A translation unit: its name, its source, and nvcc's arguments beside the source and the files made."""

    name: str
    source: Path
    arguments: tuple[str, ...]


@dataclass
class Lane:
    """One contender on one unit, in a directory of its own, and the milliseconds of its hits."""

    contender: Contender
    unit: Unit
    directory: Path
    first: dict[str, bytes] = field(default_factory=dict)  # product -> what the first compile made
    milliseconds: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def compiles(self) -> bool:
        return self.contender.hits is not None

    @property
    def command(self) -> list[str]:
        argv = list(self.contender.argv)
        if self.compiles:
            product = f"{self.unit.name}.o"
            argv += [*self.unit.arguments, "-MD", "-MT", product, "-MF", f"{product}.d"]
            argv += ["-x", "cu", "-c", str(self.unit.source), "-o", product]
        return argv

    @property
    def median(self) -> float:
        return statistics.median(self.milliseconds)


def measure(contenders: list[Contender], units: list[Unit], rounds: int, work: Path) -> list[Lane]:
    """The lanes of all contenders on all units, run in turn `rounds` times; what went wrong is in them."""
    lanes = []
    for contender in contenders:
        for unit in units:
            directory = work / unit.name / contender.name.partition(":")[0]
            directory.mkdir(parents=True)
            lanes.append(Lane(contender, unit, directory))
    time.sleep(_SETTLED)
    for lane in lanes:
        _prepare(lane)
    before = {contender.name: contender.hits() for contender in contenders if contender.hits}
    for round_ in range(rounds):
        start = round_ % len(lanes)  # nobody always follows the same neighbour
        for lane in lanes[start:] + lanes[:start]:
            if round_ % lane.contender.every == 0:
                lane.milliseconds.append(_timed(lane))
    for contender in contenders:
        if contender.hits:
            _check_hits(contender, contender.hits() - before[contender.name], lanes)
    return lanes


def _check_hits(contender: Contender, hits: int, lanes: list[Lane]) -> None:
    own = [lane for lane in lanes if lane.contender is contender]
    timed = sum(len(lane.milliseconds) for lane in own)
    if hits != timed:
        own[0].faults.append(f"{hits} hits in {timed} calls")


def _prepare(lane: Lane) -> None:
    """Compile for the first time, and once more untimed: the first hit may still write something."""
    _timed(lane)
    if lane.compiles:
        products = (f"{lane.unit.name}.o", f"{lane.unit.name}.o.d")
        lane.first = {name: (lane.directory / name).read_bytes() for name in products}
    _timed(lane)


def _timed(lane: Lane) -> float:
    """Delete the products, run, compare the products; the milliseconds of the run."""
    for name in lane.first:
        (lane.directory / name).unlink()
    elapsed = _spawn(lane.command, lane.contender.environ, lane.directory)
    for name, content in lane.first.items():
        path = lane.directory / name
        if not path.exists():
            path.touch()
            lane.faults.append(f"{name} is missing")
        elif not _is_same(path.read_bytes(), content, lane.contender.respaces and name.endswith(".d")):
            lane.faults.append(f"{name} differs from the first")
    return elapsed * 1000


def _is_same(made: bytes, first: bytes, ignores_blanks: bool) -> bool:
    if ignores_blanks:
        made, first = (b"".join(content.split()) for content in (made, first))
    return made == first


def _spawn(command: list[str], environ: dict[str, str], directory: Path) -> float:
    """The seconds of one process. subprocess would add its own; posix_spawn has no working directory."""
    log = f"{directory}.log"
    writing = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [(os.POSIX_SPAWN_OPEN, 1, log, writing, 0o666), (os.POSIX_SPAWN_DUP2, 1, 2)]
    os.chdir(directory)
    started = time.perf_counter()
    process = os.posix_spawn(command[0], command, environ, file_actions=actions)
    _, status = os.waitpid(process, 0)
    elapsed = time.perf_counter() - started
    if status:
        raise SystemExit(f"{' '.join(command)}\n{Path(log).read_text(errors='replace')}")
    return elapsed
