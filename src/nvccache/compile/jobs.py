"""Work beside the main thread: a thread for each tool that runs, and one for what can wait.

The threads of tools wait for a child most of the time. What can wait (putting results into the store) is
done one after the other, what others may be waiting for first, while tools run.
"""

from __future__ import annotations

import contextlib
import heapq
import queue
import threading

from nvccache.machine.process import Handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_LEAVING_SECONDS = 0.2  # for the streams of a tool to end when it has


class Job:
    """One piece of work on a thread of its own: `result` or `error` are set when it has ended."""

    def __init__(self, work: Callable[[Handle], Any]) -> None:
        self.handle = Handle()
        self.result: Any = None
        self.error: BaseException | None = None
        self._work = work
        self.thread = threading.Thread(target=self._do, daemon=True)

    def _do(self) -> None:
        try:
            self.result = self._work(self.handle)
        except BaseException as error:  # raised again by who takes the result
            self.error = error


class Jobs:
    """The tools that run for one call."""

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._running: set[Job] = set()

    def start(self, work: Callable[[Handle], Any]) -> Job:
        job = Job(lambda handle: self._told(job, work, handle))
        job.thread.start()  # which may fail, under a limit of memory or processes
        self._running.add(job)
        return job

    def _told(self, job: Job, work: Callable[[Handle], Any], handle: Handle) -> Any:
        try:
            return work(handle)
        finally:
            self._ended.put(job)

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
        for job in found:
            job.thread.join()  # it has told the result's being there before it set it
            self._running.discard(job)
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
                if job.handle.has_gone:
                    sweep()
                job.thread.join(_LEAVING_SECONDS)
        self._running.clear()


class Background:
    """One thread that does what can wait, in the order of its urgency."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._count = 0
        self._is_ending = False

    def add(self, urgency: int, work: Callable[[], None]) -> None:
        """Do this later; what has a smaller number comes first."""
        with self._changed:
            self._count += 1
            heapq.heappush(self._waiting, (urgency, self._count, work))
            self._changed.notify()
        if not self._thread:
            thread = threading.Thread(target=self._do, daemon=True)
            thread.start()
            self._thread = thread

    def finish(self, is_wanted: bool = True) -> None:
        """Wait until all is done, or drop what has not been begun."""
        with self._changed:
            self._is_ending = True
            if not is_wanted:
                self._waiting.clear()
            self._changed.notify()
        if self._thread:
            self._thread.join()
            self._thread = None
        self._is_ending = False

    def _do(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._is_ending:
                    self._changed.wait()
                if not self._waiting:
                    return
                work = heapq.heappop(self._waiting)[2]
            try:
                work()
            except BaseException as error:  # raised by who waits for the end
                self.errors.append(error)
