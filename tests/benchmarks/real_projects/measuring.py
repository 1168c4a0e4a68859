"""Runs the steps for one project: all lanes in turn, in the same directories, comparing every object.

All lanes build at the same path, since objects and module ids contain it: a lane's build directory is moved
there while it builds. Every round begins with empty caches.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from . import catalogue, checkouts, lanes, limits, steps
from .builds import BUILDERS, Builder, Machine
from .catalogue import Project
from .checkouts import Checkout
from .faults import UnavailableError
from .lanes import Lane
from .steps import Step

_SETTLED = 1.5  # seconds; caches distrust files as young as their records of them
_RECORDER = "recorder"
_FULL_DISK = 64 << 20  # bytes; with less free, the disk is the cause of a failure


@dataclass
class Outcome:
    """The results of one step in one lane, for each round.

    `seconds` are wall time, `processor` the CPU time of all processes, which is more meaningful on a busy
    machine (but lacks sccache's server). `differing` are units with a wrong object, and in what it differs.
    """

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    differing: dict[str, str] = field(default_factory=dict)
    explained: dict[str, dict[str, object]] = field(default_factory=dict)  # unit -> `nvccache explain`


@dataclass
class Measured:
    """The results of one project. `holds_path`: some object of plain nvcc depends on the path."""

    outcomes: dict[str, dict[str, Outcome]] = field(default_factory=dict)  # step -> lane
    limits: dict[str, limits.Limit] = field(default_factory=dict)  # step
    units: dict[str, list[str]] = field(default_factory=dict)  # step -> its units
    unlike_itself: dict[str, str] = field(default_factory=dict)  # unit -> how plain nvcc's objects differ
    varying: list[str] = field(default_factory=list)  # units that differ not only in names of temporary files
    holds_path: bool = False


@dataclass
class Bench:
    """A project in its work directory, and the locations of the lanes' build directories."""

    project: Project
    work: Path
    machine: Machine
    most_units: int
    say: Callable[[str], None]
    after_step: Callable[[], None]
    _present: dict[Path, str] = field(default_factory=dict)
    _configured: dict[tuple[str, Path], tuple[str, ...]] = field(default_factory=dict)

    def checkout(self, place: str, build: str) -> Checkout:
        """The checkout of this name, copied from the first if missing."""
        source = self.work / place / "source"
        if not source.exists():
            shutil.copytree(self.work / checkouts.FIRST / "source", source, symlinks=True)
        own = self.project.kind != catalogue.MAKE
        return Checkout(source, self.work / place / build if own else self.work / place / "unused")

    def builder(self, lane: Lane, checkout: Checkout) -> Builder:
        machine = replace(self.machine, launcher=lane.launcher)
        return BUILDERS[self.project.kind](self.project, checkout, machine)

    def take(self, lane: Lane, step: Step, is_fresh: bool = False) -> Builder:
        """Move the lane's build directory to the step's path, configured, without products."""
        checkout = self.checkout(step.place, step.build)
        builder = self.builder(lane, checkout)
        key = (lane.name, checkout.build)
        self._bring(lane.name, checkout.build)
        if is_fresh:
            shutil.rmtree(checkout.build, ignore_errors=True)
            self._configured.pop(key, None)
        wanted = getattr(self.project, step.architectures)
        if self._configured.get(key) != wanted:
            for argv in builder.configure(wanted):
                run(argv, self.work, lane.environ)
            self._configured[key] = wanted
        for unit in self.project.units:
            builder.product(unit).unlink(missing_ok=True)
        return builder

    def _bring(self, name: str, build: Path) -> None:
        present = self._present.get(build)
        if present == name:
            return
        aside = self.work / "aside" / build.parent.name / build.name
        aside.mkdir(parents=True, exist_ok=True)
        if present and build.exists():
            build.rename(aside / present)
        if (aside / name).exists():
            (aside / name).rename(build)
        self._present[build] = name

    def restart(self) -> None:
        """Remove everything of an earlier round but the sources."""
        for build in self._present:
            shutil.rmtree(build, ignore_errors=True)
        shutil.rmtree(self.work / "aside", ignore_errors=True)
        self._present.clear()
        self._configured.clear()


@dataclass(frozen=True)
class Taken:
    """Wall seconds of a command, and CPU seconds of all processes waited for."""

    wall: float
    processor: float


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(argv: Sequence[str], directory: Path, environ: dict[str, str]) -> Taken:
    """Run a command; raises UnavailableError."""
    begun, used = time.perf_counter(), _processor_seconds()
    try:
        done = subprocess.run(argv, cwd=directory, env=environ, capture_output=True, check=False)
    except FileNotFoundError:
        raise UnavailableError(f"`{argv[0]}` is not on PATH") from None
    taken = Taken(time.perf_counter() - begun, _processor_seconds() - used)
    if done.returncode:
        if shutil.disk_usage(directory).free < _FULL_DISK:
            raise UnavailableError(f"there is no room left on the disk of `{directory}`")
        output = (done.stdout + done.stderr).decode(errors="replace")
        errors = [
            line for line in output.splitlines() if "rror" in line or "***" in line
        ] or output.splitlines()[-3:]
        raise UnavailableError(f"`{' '.join(argv)[:300]}` failed: {' / '.join(errors[:3])}")
    return taken


def build(bench: Bench, lane: Lane, builder: Builder, units: Sequence[str], environ: dict[str, str]) -> Taken:
    """Compile units, and check that their objects exist."""
    whole = environ | builder.environ(units)
    taken = run(builder.compile(units), builder.directory, whole)
    missing = [unit for unit in units if not builder.product(unit).exists()]
    if missing:
        raise UnavailableError(f"{bench.project.name}: no object of `{missing[0]}` was made by {lane.name}")
    return taken


def measure(
    bench: Bench, chosen: Sequence[Step], present: Sequence[Lane], number: int, into: Measured
) -> None:
    """One round of all steps; raises UnavailableError."""
    bench.restart()
    if not number:
        _warm_up(bench, present[0], into)
    replays = Replays(bench, present[0])
    for step in [step for step in chosen if steps.is_for(step, bench.project)]:
        units = list(step.units(bench.project, bench.most_units))
        into.units[step.name] = units
        if step.is_based:
            _prime(bench, step, present)
        place = bench.checkout(step.place, step.build)
        with checkouts.Edits(bench.project, place, step.edit, number) as edits:
            time.sleep(_SETTLED)
            objects = _one_step(bench, step, present, number, into)
            kept = {} if number else replays.of(step, units, edits)
        _compare(bench, into.outcomes[step.name], objects, kept)
        if kept and (step.has_limit or step.is_elsewhere):
            limit = limits.together([one.limit for one in kept.values()])
            into.limits[step.name] = limit
            bench.say(f"{step.name:32}limit     {limit.seconds:8.2f} s  {', '.join(limit.stages)}")
        if step.is_elsewhere:
            directory = os.fsencode(bench.work / step.place if step.place != checkouts.FIRST else step.build)
            into.holds_path |= any(directory in one for one in objects[lanes.PLAIN].values())
        bench.after_step()


Objects = dict[str, dict[str, bytes]]  # lane -> unit -> its object


def _one_step(bench: Bench, step: Step, present: Sequence[Lane], number: int, into: Measured) -> Objects:
    """Build with each lane, plain nvcc first in every other round, and note the seconds."""
    units = into.units[step.name]
    outcomes = into.outcomes.setdefault(step.name, {lane.name: Outcome() for lane in present})
    objects: Objects = {}
    for lane in present if number % 2 == 0 else [*present[1:], present[0]]:
        builder = bench.take(lane, step, step.is_fresh)
        environ = lanes.based(lane, bench.work) if step.is_based else lane.environ
        taken = build(bench, lane, builder, units, environ)
        objects[lane.name] = {unit: builder.product(unit).read_bytes() for unit in units}
        outcome = outcomes[lane.name]
        outcome.seconds.append(taken.wall)
        outcome.processor.append(taken.processor)
        if lane.name == lanes.OURS:
            outcome.explained = {unit: lanes.explained(lane, builder.product(unit)) for unit in units}
        bench.say(f"{step.name:32}{lane.name:10}{taken.wall:8.2f} s, {taken.processor:.2f} s of processors")
    return objects


def _compare(bench: Bench, outcomes: dict[str, Outcome], objects: Objects, kept: dict[str, Replayed]) -> None:
    """Compare every object with plain nvcc's.

    nvcc's object contains the name of a temporary file, which varies. nvccache makes the object of `nvcc
    -keep`, which has no such name; other objects are compared without such symbols.
    """
    for name, made in objects.items():
        for unit, content in made.items():
            if name == lanes.OURS and unit in kept:
                found = difference(kept[unit].product, content)
            else:
                found = difference_apart_from_names(objects[lanes.PLAIN][unit], content, bench.work)
            if found:
                outcomes[name].differing[unit] = found
                bench.say(f"{'':32}{name:10}`{unit}` DIFFERS in {found}")


def _prime(bench: Bench, step: Step, present: Sequence[Lane]) -> None:
    """Compile the first checkout with each cache, with the base directory set."""
    first = replace(step, place=checkouts.FIRST)
    for lane in present[1:]:
        builder = bench.take(lane, first)
        build(
            bench, lane, builder, list(bench.project.units[: bench.most_units]), lanes.based(lane, bench.work)
        )


def _warm_up(bench: Bench, plain: Lane, into: Measured) -> None:
    """Build twice with plain nvcc, which warms the page cache, and note how its objects differ."""
    units = list(bench.project.units[: bench.most_units])
    made = []
    for _ in range(2):
        builder = bench.take(plain, steps.STEPS[0])
        taken = build(bench, plain, builder, units, plain.environ)
        bench.say(f"{'to warm up':32}{plain.name:10}{taken.wall:8.2f} s")
        made.append([builder.product(unit).read_bytes() for unit in units])
    for unit, one, other in zip(units, *made, strict=True):
        apart = difference_apart_from_names(one, other, bench.work)
        if difference(one, other):
            found = f"{difference(one, other)}, apart from names of temporary files in {apart or 'none'}"
            into.unlike_itself[unit] = found
        into.varying += [unit] if apart else []


@dataclass(frozen=True)
class Replayed:
    """The object of `nvcc -keep` for a unit, and the stages that a step makes necessary."""

    product: bytes
    limit: limits.Limit


class Replays:
    """Compiles of plain nvcc with `-keep`; those before edits run only once."""

    def __init__(self, bench: Bench, plain: Lane) -> None:
        script = bench.work / "record"
        script.write_text(limits.RECORDER.format(python=sys.executable))
        script.chmod(0o755)
        self._bench = bench
        self._lane = Lane(_RECORDER, (str(script),), plain.environ)
        self._before: dict[str, limits.Kept] = {}

    def of(self, step: Step, units: Sequence[str], edits: checkouts.Edits) -> dict[str, Replayed]:
        """The replay of each unit of a step, whose edit is applied now."""
        found = {}
        for unit in units:
            if unit not in self._before:
                with edits.out():
                    self._before[unit] = self._kept(steps.STEPS[0], unit)
            before = self._before[unit]
            after = self._kept(step, unit) if step.has_limit or step.is_elsewhere else before
            found[unit] = Replayed(after.product, limits.difference(before, after))
        return found

    def _kept(self, step: Step, unit: str) -> limits.Kept:
        bench, lane = self._bench, self._lane
        builder = bench.take(lane, step)
        recorded = bench.work / "recorded"
        recorded.unlink(missing_ok=True)
        build(bench, lane, builder, [unit], lane.environ | {"RECORD_TO": str(recorded)})
        (command,) = limits.read_commands(recorded)
        return limits.keep(command, lane.environ)


def difference(expected: bytes, made: bytes) -> str:
    """The number of bytes in which two objects differ, as text; empty if none."""
    if expected == made:
        return ""
    if len(expected) != len(made):
        return f"{len(made)} bytes instead of {len(expected)}"
    return f"{sum(one != other for one, other in zip(expected, made, strict=True))} of {len(made)} bytes"


def difference_apart_from_names(expected: bytes, made: bytes, work: Path) -> str:
    """The same without local symbols, which include names of temporary files."""
    if expected == made:
        return ""
    return difference(*(_stripped(content, work) for content in (expected, made)))


def _stripped(content: bytes, work: Path) -> bytes:
    path = work / "stripped.o"
    path.write_bytes(content)
    run(["objcopy", "--strip-unneeded", str(path)], work, dict(os.environ))
    return path.read_bytes()
