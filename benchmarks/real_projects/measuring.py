"""Runs the steps for one project: all lanes in turn, in the same directories, comparing every object.

All lanes build at the same path, since objects and module ids contain it: a lane's build directory is moved
there while it builds. Every round begins with empty caches.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from . import checkouts
from .builds import BUILDERS, Builder, Machine
from .catalogue import Project
from .checkouts import Checkout
from .downloads import UnavailableError
from .lanes import PLAIN, Lane

_SETTLED = 1.5  # seconds; caches distrust files as young as their records of them
COLD = "cold"


@dataclass(frozen=True)
class Step:
    """One build: where, after which edit, for which architectures; all start from the state after `cold`.

    `is_fresh` recreates the build directory; `is_based` sets a base directory above all checkouts, and first
    builds the first checkout with it.
    """

    name: str
    place: str = checkouts.FIRST
    build: str = "build"
    edit: str = ""
    architectures: str = "architectures"
    is_fresh: bool = False
    is_based: bool = False

    def units(self, project: Project, most: int) -> Sequence[str]:
        """The units to build; only the first for an edit of one source."""
        edited = dict.fromkeys((checkouts.HOST, checkouts.BREAK), project.host.file)
        edited[checkouts.DEVICE] = project.device.file
        return project.units[: 1 if edited.get(self.edit) in project.units else most]


STEPS = (
    Step(COLD, is_fresh=True),
    Step("again", is_fresh=True),
    Step("branch switched and back", edit=checkouts.TOUCH),
    Step("second build directory", build="another-build"),
    Step("other checkout", checkouts.SECOND),
    Step("comment reworded", edit=checkouts.REWORD),
    Step("comment line inserted", edit=checkouts.INSERT),
    Step("host edit", edit=checkouts.HOST),
    Step("device edit", edit=checkouts.DEVICE),
    Step("broken", edit=checkouts.BREAK),  # host code of one source that no tool compiles
    Step("architecture dropped", architectures="fewer"),
    Step("architecture added", architectures="more"),
    # At the end, as the first checkout's calls are then recorded with the setting.
    Step("other checkout with base directory", checkouts.THIRD, is_based=True),
)
QUICK = (COLD, "again", "comment reworded", "host edit")


@dataclass(frozen=True)
class Cost:
    """Wall seconds of a command, and CPU seconds of all processes waited for (not of sccache's server)."""

    wall: float
    cpu: float


@dataclass
class Outcome:
    """The results of one step in one lane: the cost in each round, and the units with a wrong object."""

    costs: list[Cost] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)


Outcomes = dict[str, dict[str, Outcome]]  # step -> lane


@dataclass
class Bench:
    """A project in its work directory, and the locations of the lanes' build directories."""

    project: Project
    work: Path
    machine: Machine
    most_units: int
    _present: dict[Path, str] = field(default_factory=dict)
    _configured: dict[tuple[str, Path], tuple[str, ...]] = field(default_factory=dict)

    def checkout(self, step: Step) -> Checkout:
        """The checkout of a step, copied from the first if missing."""
        source = self.work / step.place / "source"
        if not source.exists():
            shutil.copytree(self.work / checkouts.FIRST / "source", source, symlinks=True)
        return Checkout(source, self.work / step.place / step.build)

    def take(self, lane: Lane, step: Step) -> Builder:
        """Move the lane's build directory to the step's path, configured, without products."""
        checkout = self.checkout(step)
        machine = replace(self.machine, launcher=lane.launcher)
        builder = BUILDERS[self.project.kind](self.project, checkout, machine)
        key = (lane.name, checkout.build)
        self._bring(lane.name, checkout.build)
        if step.is_fresh:
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


def run(argv: Sequence[str], directory: Path, environ: dict[str, str], *, fails: bool = False) -> Cost:
    """Run a command; raises UnavailableError unless it succeeds, or fails if it has to."""
    begun, used = time.perf_counter(), _cpu_seconds()
    done = subprocess.run(argv, cwd=directory, env=environ, capture_output=True, check=False)
    cost = Cost(time.perf_counter() - begun, _cpu_seconds() - used)
    if bool(done.returncode) != fails:
        output = (done.stdout + done.stderr).decode(errors="replace").splitlines()
        errors = [line for line in output if "rror" in line or "***" in line] or output[-3:]
        raise UnavailableError(f"`{' '.join(argv)[:300]}` failed: {' / '.join(errors[:3])}")
    return cost


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def build(bench: Bench, lane: Lane, step: Step, units: Sequence[str]) -> tuple[Cost, dict[str, bytes]]:
    """Compile units; returns the cost, and their objects without local symbols.

    Those of plain nvcc have the name of a temporary file.
    """
    builder = bench.take(lane, step)
    environ = lane.based(bench.work) if step.is_based else lane.environ
    fails = step.edit == checkouts.BREAK
    cost = run(builder.compile(units), builder.directory, environ | builder.environ(units), fails=fails)
    if fails:
        return cost, {}
    objects, stripped = {}, bench.work / "stripped.o"
    for unit in units:
        if not builder.product(unit).exists():
            raise UnavailableError(f"{bench.project.name}: no object of `{unit}` was made by {lane.name}")
        run(["objcopy", "--strip-unneeded", str(builder.product(unit)), str(stripped)], bench.work, environ)
        objects[unit] = stripped.read_bytes()
    return cost, objects


def measure(
    bench: Bench, chosen: Sequence[str], present: Sequence[Lane], number: int, into: Outcomes
) -> None:
    """One round of the chosen steps, and always of the first; raises UnavailableError."""
    bench.restart()
    if not number:
        for _ in range(2):  # reads the headers
            build(bench, present[0], STEPS[0], bench.project.units[: bench.most_units])
    for step in [step for step in STEPS if step.name == COLD or step.name in chosen]:
        units = step.units(bench.project, bench.most_units)
        outcomes = into.setdefault(step.name, {lane.name: Outcome() for lane in present})
        if step.is_based:
            for lane in present[1:]:
                build(bench, lane, replace(step, place=checkouts.FIRST), units)
        with checkouts.edited(bench.project, bench.checkout(step), step.edit, number):
            time.sleep(_SETTLED)
            objects = {}
            for lane in present if number % 2 == 0 else [*present[1:], present[0]]:
                cost, objects[lane.name] = build(bench, lane, step, units)
                outcomes[lane.name].costs.append(cost)
                print(f"  {step.name:36}{lane.name:10}{cost.wall:8.2f} s, CPU {cost.cpu:.2f} s", flush=True)
        for name, own in objects.items():
            # With a base directory, objects have relative paths.
            compared = () if step.is_based or not own else units
            differing = [unit for unit in compared if own[unit] != objects[PLAIN][unit]]
            outcomes[name].differing += [unit for unit in differing if unit not in outcomes[name].differing]
            for unit in differing:
                print(f"  {'':36}{name:10}`{unit}` DIFFERS", flush=True)
