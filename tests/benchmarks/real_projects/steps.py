"""The steps for each project, in order, with their goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import checkouts
from .catalogue import MAKE, Project

FULL, FEWER, MORE = "architectures", "fewer", "more"
COLD = "cold"
_PATHS_IN_OBJECTS = 0.5  # the goal if objects depend on the path
SHARE, ABSOLUTE = 1.5, 0.1  # of the limit, and seconds a unit


@dataclass(frozen=True)
class Step:
    """One build: where, after which edit, for which architectures; all start from the state after `cold`.

    `goal` is the required ratio to plain nvcc, if any. `is_fresh` recreates the build directory; `is_based`
    sets a base directory above all checkouts, and first builds the first checkout with it.
    """

    name: str
    goal: float | None = None
    place: str = checkouts.FIRST
    build: str = "build"
    edit: str = ""
    architectures: str = FULL
    is_fresh: bool = False
    is_based: bool = False

    @property
    def has_limit(self) -> bool:
        """Whether the stages that plain nvcc needs are computed."""
        return bool(self.edit) or self.architectures != FULL

    @property
    def is_elsewhere(self) -> bool:
        return self.place != checkouts.FIRST or self.build != "build"

    def units(self, project: Project, most: int) -> Sequence[str]:
        """The units to build; only the first for an edit of one source."""
        return project.units[: 1 if self.edit in (checkouts.HOST, checkouts.DEVICE) else most]


STEPS = (
    Step(COLD, 1.0, is_fresh=True),
    Step("again", 0.03, is_fresh=True),
    Step("second build directory", 0.10, build="another-build"),
    Step("other checkout", 0.10, checkouts.SECOND),
    Step("other checkout with base directory", 0.10, checkouts.THIRD, is_based=True),
    Step("comment reworded", 0.15, edit=checkouts.REWORD),
    Step("comment line inserted", 0.15, edit=checkouts.INSERT),
    Step("host edit", edit=checkouts.HOST),
    Step("device edit", edit=checkouts.DEVICE),
    Step("architecture dropped", 0.5, architectures=FEWER),
    Step("architecture added", architectures=MORE),
)
QUICK = (COLD, "again", "comment reworded", "host edit")


def chosen(names: Sequence[str]) -> list[Step]:
    """The steps of these names, and always the first, which the others start from."""
    return [step for step in STEPS if step.name == COLD or step.name in names]


def is_for(step: Step, project: Project) -> bool:
    """Whether a project has the step: with objects next to sources there is no second build directory."""
    return not (project.kind == MAKE and step.build != "build")


def goal(step: Step, holds_path: bool, text_differs: bool) -> float | None:
    """The goal of a step: objects may contain paths, and `__LINE__` may show an inserted line."""
    if step.is_elsewhere and holds_path:
        return _PATHS_IN_OBJECTS
    if step.edit == checkouts.INSERT and text_differs:
        return None
    return step.goal


def is_near_limit(seconds: float, limit: float, units: int) -> bool:
    """Whether a step stayed near its limit; all in seconds."""
    return seconds <= SHARE * limit + ABSOLUTE * units
