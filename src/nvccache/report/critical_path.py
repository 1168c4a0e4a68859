"""The critical path of a build: what its end waited for."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nvccache.report.calls import Call, Stage

_SLACK = 0.005  # seconds by which clocks of two processes may differ
_SAME_CALL = 0.05  # seconds between stages of one call that still follow each other


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


def of(build: Sequence[Call]) -> tuple[Link, ...]:
    """Before each link, what ended last before that began; the last link is what ended last of all.

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


def seconds_by_kind(path: Iterable[Link]) -> dict[str, float]:
    """The seconds of a critical path, by kind of stage or outcome; the longest first."""
    found: dict[str, float] = {}
    for link in path:
        found[link.kind] = found.get(link.kind, 0.0) + link.seconds
    return dict(sorted(found.items(), key=lambda item: -item[1]))
