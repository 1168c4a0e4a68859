"""When the stages of one call ran, and which share of the call's wall time each of them took.

Tools that run side by side share the time: what they take together is what the call waited for them, and
the shares of all stages add up to the time in which a tool ran. On a machine that does more than this call, a
tool waits for a CPU for a part of that. What a stage saves that is found later is the rest of its share.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


class StageClock:
    """Seconds since the call began, by the monotonic clock; for one thread only."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self.began = self._last = now()
        self._running: set[Hashable] = set()
        self._starts: dict[Hashable, float] = {}
        self._shares: dict[Hashable, float] = {}
        self._times: dict[Hashable, float] = {}

    def start(self, stage: Hashable) -> None:
        """A tool begins to run for this stage, perhaps once more."""
        self._pass()
        self._running.add(stage)
        self._starts.setdefault(stage, self._last - self.began)
        self._shares.setdefault(stage, 0.0)
        self._times.setdefault(stage, 0.0)

    def end(self, stage: Hashable) -> None:
        """It has ended; again is once."""
        self._pass()
        self._running.discard(stage)

    def note(self, stage: Hashable) -> None:
        """It was found now, and needs no tool."""
        self._starts.setdefault(stage, self._now() - self.began)

    def start_of(self, stage: Hashable) -> float:
        """When its tool began to run, or when it was found; 0 if neither."""
        return self._starts.get(stage, 0.0)

    def share_of(self, stage: Hashable, cost: float) -> float:
        """What of the call's wall time the stage took until now, had its tool run for `cost` seconds only."""
        self._pass()
        ran = self._times.get(stage, 0.0)
        return self._shares[stage] * min(1.0, cost / ran) if ran > 0 else 0.0

    @property
    def busy(self) -> float:
        """The seconds in which a tool ran."""
        self._pass()
        return sum(self._shares.values())

    def _pass(self) -> None:
        now = self._now()
        for stage in self._running:
            self._shares[stage] += (now - self._last) / len(self._running)
            self._times[stage] += now - self._last
        self._last = now
