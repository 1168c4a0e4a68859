"""Why a build took as long as it did: what cost most, the critical path, idle cores, and nvccache's own time.

Unaware of HTML.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nvccache import outcomes
from nvccache.report.calls import Call, Stage, elapsed
from nvccache.report.lanes import LOCAL
from nvccache.store.event_line import SHARED

_SLACK = 0.005  # seconds by which clocks of two processes may differ
_SAME_CALL = 0.05  # seconds between stages of one call that still follow each other
_Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Costliest:
    """The cause that tools took longest for, or the source where no cause is known."""

    cause: str
    sources: tuple[str, ...]
    spent: float  # seconds of compiler time


@dataclass(frozen=True, slots=True)
class Link:
    """A piece of the critical path: a stage that ran, or a call as a whole."""

    call: Call
    stage: Stage | None
    started: float  # Unix time
    seconds: float
    waited: float  # seconds since the link before it ended

    @property
    def kind(self) -> str:
        return self.stage.kind if self.stage else self.call.outcome


@dataclass(frozen=True, slots=True)
class Verdict:
    costliest: Costliest | None
    path: tuple[Link, ...]
    cores: int  # that the build could use
    elapsed: float  # seconds from the first start to the last end
    busy: float  # seconds that cores ran tools, added up
    one_busy: float  # seconds in which at most one of them did
    own: float  # seconds of calls in which no tool ran for them, though a core was free; added up
    waited: float  # the same while all cores were busy

    @property
    def path_by_kind(self) -> dict[str, float]:
        """The seconds of the critical path, by kind of stage or outcome; the longest first."""
        found: dict[str, float] = {}
        for link in self.path:
            found[link.kind] = found.get(link.kind, 0.0) + link.seconds
        return dict(sorted(found.items(), key=lambda item: -item[1]))


def of(build: Sequence[Call], cores: int = 0) -> Verdict:
    """`cores` is how many of this machine the calls could use; if 0, as many as they used."""
    covered = _covered(_spans(build))
    cores = cores or max(covered, default=0)
    seconds = elapsed(build)
    own, waited = _waits(build, cores)
    return Verdict(
        costliest=_costliest(build),
        path=_critical_path(build),
        cores=cores,
        elapsed=seconds,
        busy=sum(count * spent for count, spent in covered.items()),
        one_busy=seconds - sum(spent for count, spent in covered.items() if count > 1),
        own=own,
        waited=waited,
    )


def _costliest(calls: Iterable[Call]) -> Costliest | None:
    found: dict[str, tuple[str, dict[str, None], float]] = {}
    for call in (call for call in calls if call.tool_spent):
        cause = "" if call.outcome == outcomes.BYPASS else call.cause
        _, sources, spent = found.get(cause or f"\0{call.name}", ("", {}, 0.0))
        found[cause or f"\0{call.name}"] = (cause, {**sources, call.name: None}, spent + call.tool_spent)
    cause, sources, spent = max(found.values(), key=lambda each: each[2], default=("", {}, 0.0))
    return Costliest(cause, tuple(sources), spent) if spent else None


def _critical_path(build: Sequence[Call]) -> tuple[Link, ...]:
    """From what ended last back to the start: before each link, what ended last before it began.

    What a build system waits for is not recorded, so this is found from times. Of the same call, a stage that
    ended just before is preferred.
    """
    links = sorted(_links(build), key=lambda link: link.started + link.seconds)
    ends = [link.started + link.seconds for link in links]
    path: list[Link] = []
    at = len(links) - 1
    while at >= 0:
        link = links[at]
        # Earlier in this order only, or what took no time could be its own predecessor.
        before = min(bisect.bisect_right(ends, link.started + _SLACK), at) - 1
        near = before
        while near >= 0 and ends[near] > link.started - _SAME_CALL and links[near].call is not link.call:
            near -= 1
        if near >= 0 and links[near].call is link.call:
            before = near
        waited = link.started - (ends[before] if before >= 0 else min(call.started for call in build))
        path.append(Link(link.call, link.stage, link.started, link.seconds, max(0.0, waited)))
        at = before
    return tuple(reversed(path))


def _links(build: Iterable[Call]) -> Iterator[Link]:
    for call in build:
        ran = [stage for stage in call.stages if not stage.is_found]
        for stage in ran:
            yield Link(call, stage, call.started + stage.start, stage.lasted, 0.0)
        if not ran:
            yield Link(call, None, call.started, call.seconds, 0.0)


def _spans(build: Iterable[Call]) -> list[_Span]:
    """When cores of this machine were busy, one each, with a stage or with nvcc without the cache."""
    return [
        (link.started, link.started + link.seconds)
        for link in _links(build)
        if (link.stage.where in LOCAL if link.stage else not link.call.stages)
    ]


def _covered(spans: Iterable[_Span]) -> dict[int, float]:
    """For how many seconds how many spans were under way at once; 0 is left out."""
    found: dict[int, float] = {}
    for begun, ended, count in _counts(spans):
        if count:
            found[count] = found.get(count, 0.0) + ended - begun
    return found


def _counts(spans: Iterable[_Span]) -> Iterator[tuple[float, float, int]]:
    """Start and end of each period with the same number of spans under way, in order, and that number."""
    edges = sorted(edge for begun, ended in spans for edge in ((begun, 1), (ended, -1)))
    count, before = 0, edges[0][0] if edges else 0.0
    for moment, change in edges:
        if moment > before:
            yield before, moment, count
        count, before = count + change, moment


def _waits(build: Sequence[Call], cores: int) -> tuple[float, float]:
    """The seconds in which calls had no tool running: while a core was free, and while all were busy.

    Calls with stages of another process are left out: when they began to wait for it is not recorded.
    """
    full = [(begun, ended) for begun, ended, count in _counts(_spans(build)) if count >= cores]
    starts = [begun for begun, _ in full]
    until = [0.0]  # seconds of `full` before each of its periods
    for begun, ended in full:
        until.append(until[-1] + ended - begun)

    def full_before(moment: float) -> float:
        at = bisect.bisect_right(starts, moment)
        return until[at] - max(0.0, full[at - 1][1] - moment) if at else 0.0

    own = waited = 0.0
    for call in build:
        if not call.stages or call.outcome == outcomes.BYPASS or any(s.result == SHARED for s in call.stages):
            continue
        for begun, ended in _gaps(call):
            blocked = full_before(ended) - full_before(begun)
            own, waited = own + ended - begun - blocked, waited + blocked
    return own, waited


def _gaps(call: Call) -> Iterator[_Span]:
    """When no tool ran for a call."""
    at = call.started
    for stage in sorted(
        (stage for stage in call.stages if not stage.is_found), key=lambda stage: stage.start
    ):
        begun = call.started + stage.start
        if begun > at:
            yield at, begun
        at = max(at, begun + stage.lasted)
    if call.ended > at:
        yield at, call.ended
