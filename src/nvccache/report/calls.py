"""The calls that a report is about, made from events, with every text made printable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nvccache.log import printable
from nvccache.store import events
from nvccache.store.event_line import FAILED, HIT, RAN, SHARED, Event, StageEvent

RESULTS = (HIT, RAN, SHARED, FAILED)
_LONGEST_TEXT = 1000  # characters


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a call."""

    kind: str
    architecture: str
    result: str  # one of RESULTS
    why: str
    start: float  # seconds after that of the call
    seconds: float
    slot: int  # -1 if none was held
    where: str
    cpu: float = 0.0  # seconds; 0 if unknown
    away: Mapping[str, float] | None = None  # costs on another machine (events.RemoteCosts)
    why_here: str = ""  # why it ran here although it was sent

    @property
    def lasted(self) -> float:
        """The seconds from its start to its end; a result from the engine's cache has no run."""
        if not self.away:
            return self.seconds
        moved = self.away["queue"] + self.away["send"] + self.away["fetch"]
        return moved if self.away["is_cached"] else moved + self.away["run"]

    @property
    def spent(self) -> float:
        """The compiler time of this call, on any machine."""
        is_made = self.result in (RAN, FAILED) and not (self.away and self.away["is_cached"])
        return self.cost if is_made else 0.0

    @property
    def cost(self) -> float:
        """The CPU seconds of its tool, or if unknown, how long it ran."""
        return self.cpu or self.seconds

    @property
    def saved(self) -> float:
        """The cost that a hit avoided."""
        return self.cost if self.is_found else 0.0

    @property
    def is_found(self) -> bool:
        """Whether its result was found: then `seconds` are saved, and `start` is when it was found."""
        return self.result in (HIT, SHARED)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of nvccache."""

    started: float  # Unix time
    seconds: float
    outcome: str
    reason: str
    directory: str
    sources: tuple[str, ...]  # as typed
    product: str
    cause: str
    pid: int
    tool_saved: float
    stages: tuple[Stage, ...]

    @property
    def source(self) -> str:
        return " ".join(self.sources)

    @property
    def name(self) -> str:
        """A name to show."""
        return self.source or self.product or "a call without a source"

    @property
    def ended(self) -> float:
        return self.started + self.seconds

    @property
    def tool_spent(self) -> float:
        return sum(stage.spent for stage in self.stages)


def call_of(event: Event) -> Call:
    return Call(
        event.started,
        event.seconds,
        _shown(event.outcome),
        _shown(event.reason),
        _shown(event.directory),
        tuple(map(_shown, event.sources)),
        _shown(event.product),
        _shown(event.cause),
        event.pid,
        event.tool_saved,
        tuple(map(_stage, event.stages)),
    )


def _stage(stage: StageEvent) -> Stage:
    return Stage(
        _shown(stage.kind),
        _shown(stage.architecture),
        stage.result if stage.result in RESULTS else RAN,
        _shown(stage.why),
        stage.start,
        stage.seconds,
        stage.slot,
        _shown(stage.where),
        stage.cpu,
        events.remote_costs_json(stage),
        _shown(events.why_here(stage)),
    )


def _shown(text: str) -> str:
    return printable(text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…")
