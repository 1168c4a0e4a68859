"""Work outside the main thread: a thread for each tool that runs, and one for what can wait.

The threads of tools wait for a child most of the time. What can wait (putting results into the store) is
done one after the other, what others may be waiting for first, while tools run.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading

from nvccache.machine.process import Handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_LEAVING_SECONDS = 0.2  # for the streams of a tool to end when it has
_LAST = 1 << 30  # behind all that is urgent in any way


class Job:
    """One piece of work on a thread of its own: `result` or `error` are set when it has ended."""

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
        except BaseException as error:  # raised again by who takes the result
            self.error = error
        self._ended.put(self)


class Jobs:
    """The tools that run for one call."""

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._running: set[Job] = set()

    def start(self, work: Callable[[Handle], Any]) -> Job:
        job = Job(work, self._ended)
        job.thread.start()  # which may fail, under a limit of memory or processes
        self._running.add(job)
        return job

    @property
    def are_running(self) -> bool:
        """Whether there are any, those included that have ended and were not waited for."""
        return bool(self._running)

    def wait(self, seconds: float) -> list[Job]:
        """The jobs that have ended, after waiting for one of them for at most so long."""
        found: list[Job] = []
        with contextlib.suppress(queue.Empty):
            found.append(self._ended.get(timeout=seconds))
            while True:
                found.append(self._ended.get_nowait())
        self._running.difference_update(found)
        return found

    def stop(self, signum: int, sweep: Callable[[], None]) -> None:
        """End all tools by a signal, and wait for their threads.

        A tool that has gone may leave behind what keeps its streams open and is no family of ours any more:
        `sweep` ends that.
        """
        for job in self._running:
            job.handle.end(signum)
        for job in self._running:
            job.thread.join(_LEAVING_SECONDS)
            while job.thread.is_alive():
                if job.handle.has_exited:
                    sweep()
                job.thread.join(_LEAVING_SECONDS)
        self._running.clear()


class Background:
    """One thread that does what can wait, in the order of its urgency."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self._waiting: queue.PriorityQueue[tuple[int, int, Callable[[], None] | None]] = queue.PriorityQueue()
        self._count = itertools.count()  # of equally urgent ones the first comes first
        self._thread: threading.Thread | None = None

    def add(self, urgency: int, work: Callable[[], None]) -> None:
        """Do this later; what has a smaller number comes first."""
        self._waiting.put((urgency, next(self._count), work))
        if not self._thread:
            thread = threading.Thread(target=self._do, daemon=True)
            thread.start()
            self._thread = thread

    def finish(self, is_wanted: bool = True) -> None:
        """Wait until all is done, or drop what has not been begun."""
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
            except BaseException as error:  # raised by who waits for the end
                self.errors.append(error)
