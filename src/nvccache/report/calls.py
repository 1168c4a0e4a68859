"""The calls that a report is about, parsed from the events' JSON form.

Events are not trusted: others may write to the log, or it may be a file from elsewhere. Hence every text is
made printable, and impossible numbers are rejected.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO

from nvccache.log import printable
from nvccache.store.events import RemoteCosts

VERSION = 2  # of the events; version 1 is read as well
HIT, RAN, SHARED, FAILED = "hit", "ran", "shared", "failed"
RESULTS = (HIT, RAN, SHARED, FAILED)
OTHER_STEP = "other_step"  # instead of an outcome, for steps of the build system other than nvcc
_LARGEST_SECONDS, _LARGEST_TIME, _LARGEST_BYTES = 1e9, 1e11, 1e15
_LARGEST_SLOT = 1 << 20
_LONGEST_TEXT = 1000  # characters
_LONGEST_LINE = 1 << 23  # bytes; lines of calls are far shorter
_MOST_DAMAGED = 10_000  # lines


class NewerVersionError(ValueError):
    """An event of a later version of nvccache."""


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
    in_vain: float = 0.0  # seconds that its tool ran before with a wrong module id

    @property
    def lasted(self) -> float:
        """The seconds from its start to its end; a result from the engine's cache has no run."""
        if not self.away:
            return self.seconds
        moved = self.away["queue"] + self.away["send"] + self.away["fetch"]
        return moved if self.away["is_cached"] else moved + self.away["run"]

    @property
    def spent(self) -> float:
        """The seconds that its tool ran for this call, on any machine."""
        is_made = self.result in (RAN, FAILED) and not (self.away and self.away["is_cached"])
        return self.cost if is_made else 0.0

    @property
    def cost(self) -> float:
        """The CPU seconds of its tool, or if unknown, its wall time."""
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
    """One call of nvccache, or another step of the build (see ninja_log.py)."""

    started: float  # Unix time
    seconds: float
    outcome: str
    reason: str
    directory: str
    sources: tuple[str, ...]  # as typed, or relative to the project (see project.py)
    product: str
    cause: str
    pid: int
    store_fault: str
    wrong_settings: tuple[str, ...]
    wall_saved: float
    tool_saved: float
    stages: tuple[Stage, ...]
    build: str = ""
    jobs: int = 0  # of the build that ran at once, at most the number of cores; 0 if not recorded

    @property
    def source(self) -> str:
        return " ".join(self.sources)

    @property
    def name(self) -> str:
        """A name to show."""
        return self.source or self.product or "a call without a source"

    @property
    def is_step(self) -> bool:
        return self.outcome == OTHER_STEP

    @property
    def ended(self) -> float:
        return self.started + self.seconds

    @property
    def tool_spent(self) -> float:
        return sum(stage.spent for stage in self.stages)


def from_json(event: object) -> Call:
    """The call of one event; raises ValueError."""
    event = _mapping(event)
    version = event.get("version")
    if version not in (1, VERSION):
        is_newer = isinstance(version, int) and version > VERSION
        raise (NewerVersionError if is_newer else ValueError)(f"of version {str(version)[:20]}")
    return Call(
        _number(event, "started", _LARGEST_TIME),
        _number(event, "seconds"),
        _text(event, "outcome"),
        _text(event, "reason"),
        _text(event, "directory"),
        _texts(event, "sources"),
        _text(event, "product"),
        _text(event, "cause"),
        int(_number(event, "pid", _LARGEST_TIME)),
        _text(event, "store_fault"),
        _texts(event, "wrong_settings"),
        _number(event, "wall_saved", may_be_negative=True),
        _number(event, "tool_saved", may_be_negative=True),
        tuple(_stage(_mapping(stage)) for stage in _list(event, "stages")),
        _text(event, "build"),
        int(_number(event, "jobs", _LARGEST_SLOT)),
    )


def understood(event: object) -> Call | None:
    """The call of one event, or None if the event is invalid."""
    try:
        return from_json(event)
    except ValueError:
        return None


def read_lines(lines: Iterable[bytes]) -> tuple[list[Call], list[int], list[int]]:
    """The calls in output of `nvccache events --json`, and the numbers of damaged and of newer lines."""
    calls: list[Call] = []
    damaged: list[int] = []
    newer: list[int] = []
    for number, line in enumerate(lines, 1):
        if len(damaged) >= _MOST_DAMAGED and not calls:
            break  # not such a file, and perhaps endless
        if not line.strip():
            continue
        try:
            calls.append(from_json(json.loads(line.decode("utf-8", "surrogateescape"))))
        except NewerVersionError:
            newer.append(number)
        except (ValueError, RecursionError):
            damaged.append(number)
    return calls, damaged, newer


def lines_of(stream: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file, up to one that is too long: /dev/zero is an endless line."""
    while line := stream.readline(_LONGEST_LINE):
        yield line
        if len(line) == _LONGEST_LINE:
            return


def _stage(stage: Mapping[str, object]) -> Stage:
    result = _text(stage, "result")
    if result not in RESULTS:
        raise ValueError("result")
    return Stage(
        _text(stage, "kind"),
        _text(stage, "architecture"),
        result,
        _text(stage, "why"),
        _number(stage, "start"),
        _number(stage, "seconds"),
        int(_number(stage, "slot", _LARGEST_SLOT, may_be_negative=True)),
        _text(stage, "where"),
        _number(stage, "cpu"),
        _away(stage),
        _text(stage, "why_here"),
        _number(stage, "in_vain") if "in_vain" in stage else 0.0,
    )


def _away(stage: Mapping[str, object]) -> Mapping[str, float] | None:
    """The costs on another machine; old events have none."""
    if stage.get("away") is None:
        return None
    costs = _mapping(stage["away"])
    return {
        name: _number(costs, name, _LARGEST_BYTES if name.endswith("_bytes") else _LARGEST_SECONDS)
        for name in (field.name for field in RemoteCosts.FIELDS)
    }


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _list(event: Mapping[str, object], name: str) -> list[object]:
    value = event.get(name, [])
    if not isinstance(value, list):
        raise ValueError(name)
    return value


def _texts(event: Mapping[str, object], name: str) -> tuple[str, ...]:
    return tuple(_shown(value, name) for value in _list(event, name))


def _text(event: Mapping[str, object], name: str) -> str:
    return _shown(event.get(name, ""), name)


def _shown(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(name)
    cut = value if len(value) <= _LONGEST_TEXT else value[:_LONGEST_TEXT] + "…"
    return printable(cut)


def _number(
    event: Mapping[str, object], name: str, largest: float = _LARGEST_SECONDS, may_be_negative: bool = False
) -> float:
    """Raises ValueError, also for nan, which would spoil every sum."""
    value = event.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(name)
    if not (-largest if may_be_negative else 0) <= value <= largest:
        raise ValueError(name)
    return float(value)
