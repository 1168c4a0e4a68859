"""Work outside the main thread: a thread for each running tool, and one background thread.

The threads of tools mostly wait for a child. The background thread stores results one at a time while tools
run; results that other processes may be waiting for come first.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import signal
import threading
import time

from nvccache.machine.process import Handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_CLEANING_SECONDS = 1.0  # how long a tool may take to remove its temporary files
_LAST = 1 << 30  # after all other work


class Job:
    """Work on a thread of its own: `result` or `error` is set when it has ended."""

    def __init__(self, work: Callable[[Handle], Any], ended: queue.SimpleQueue[Job]) -> None:
        self.handle = Handle()
        self.result: Any = None
        self.error: BaseException | None = None
        self._work = work
        self._ended = ended
        self.thread = threading.Thread(target=self._do, daemon=True)

    def _do(self) -> None:
        try:
            self.result = self._work(self.handle)
        except BaseException as error:  # raised again when the result is taken
            self.error = error
        self._ended.put(self)


class Jobs:
    """The tools that run for one call."""

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._running: set[Job] = set()

    def start(self, work: Callable[[Handle], Any]) -> Job:
        job = Job(work, self._ended)
        job.thread.start()  # can fail, under a limit of memory or processes
        self._running.add(job)
        return job

    @property
    def are_running(self) -> bool:
        """Whether there are jobs, including ended ones that `wait` has not returned yet."""
        return bool(self._running)

    def wait(self, seconds: float) -> list[Job]:
        """The jobs that have ended; waits for the first for at most `seconds`."""
        ended: list[Job] = []
        with contextlib.suppress(queue.Empty):
            ended.append(self._ended.get(timeout=seconds))
            while True:
                ended.append(self._ended.get_nowait())
        self._running.difference_update(ended)
        return ended

    def stop(self, is_patient: bool) -> None:
        """End all tools and wait for their threads; unless `is_patient`, kill those that take long."""
        kills_at = time.monotonic() + _CLEANING_SECONDS
        for job in self._running:
            job.handle.end()
        for job in self._running:
            job.thread.join(None if is_patient else max(0.0, kills_at - time.monotonic()))
            if job.thread.is_alive():
                job.handle.end(signal.SIGKILL)
                job.thread.join()
        self._running.clear()


class Background:
    """One thread for work that can wait, in order of urgency."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self._waiting: queue.PriorityQueue[tuple[int, int, Callable[[], None] | None]] = queue.PriorityQueue()
        self._count = itertools.count()  # equally urgent work stays in order
        self._thread: threading.Thread | None = None

    def add(self, urgency: int, work: Callable[[], None]) -> None:
        """Do this later; smaller numbers come first."""
        self._waiting.put((urgency, next(self._count), work))
        if not self._thread:
            thread = threading.Thread(target=self._do, daemon=True)
            thread.start()
            self._thread = thread

    def finish(self, is_wanted: bool = True) -> None:
        """Wait until all is done; unless `is_wanted`, drop what has not begun."""
        if not is_wanted:
            with contextlib.suppress(queue.Empty):
                while True:
                    self._waiting.get_nowait()
        if self._thread:
            self._waiting.put((_LAST, next(self._count), None))
            self._thread.join()
            self._thread = None

    def _do(self) -> None:
        while work := self._waiting.get()[2]:
            try:
                work()
            except BaseException as error:  # raised by Schedule.finish
                self.errors.append(error)
