"""How long a call may wait for remotes in all, and threads on which remotes are asked meanwhile.

Only time in which the call really waits is counted, and once where several of its threads wait. The threads
are daemons: one that hangs in a server's answer keeps no process from ending. They wait outside of Python's
lock, and whoever waits for them does so in Python, where Ctrl-C is heard.
"""

from __future__ import annotations

import threading
import time
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Bytes a second, once the time for an answer has gone by: what is slower counts as one that does not answer.
SLOWEST = 32 * 1024


class Budget:
    """What a call may still wait; shared by its threads."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._waiting = 0
        self._since = 0.0
        self._waited = 0.0

    @property
    def waited(self) -> float:
        """Seconds in which at least one thread waited."""
        with self._lock:
            return self._waited + (time.monotonic() - self._since if self._waiting else 0.0)

    @property
    def left(self) -> float:
        return max(0.0, self._seconds - self.waited)

    def wait(self, condition: threading.Condition, until: Callable[[], bool], most: float = 1e9) -> bool:
        """Wait with the condition's lock until something holds; False if the budget, or `most`, is spent."""
        if until():
            return True
        with self._lock:
            if not self._waiting:
                self._since = time.monotonic()
            self._waiting += 1
        try:
            return condition.wait_for(until, min(self.left, most))
        finally:
            with self._lock:
                self._waiting -= 1
                if not self._waiting:
                    self._waited += time.monotonic() - self._since


class Pool:
    """At most `most` daemon threads, started as there is work for them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._condition = threading.Condition()
        self._work: deque[Callable[[], None]] = deque()
        self._threads = 0
        self._idle = 0

    def start(self, work: Callable[[], None]) -> bool:
        """Have something done, which must not raise; False where this process gets no thread for it."""
        with self._condition:
            self._work.append(work)
            if self._idle >= len(self._work) or self._threads >= self._most:
                self._condition.notify()
                return True
            self._threads += 1
        try:
            threading.Thread(target=self._serve, name="nvccache-remote", daemon=True).start()
        except RuntimeError:
            return self._leave_to_others(work)
        return True

    def _leave_to_others(self, work: Callable[[], None]) -> bool:
        with self._condition:
            self._threads -= 1
            if self._threads or work not in self._work:
                return True
            self._work.remove(work)
            return False

    def drop(self) -> None:
        """Forget what nobody has begun."""
        with self._condition:
            self._work.clear()

    def _serve(self) -> None:
        while True:
            with self._condition:
                self._idle += 1
                while not self._work:
                    self._condition.wait()
                self._idle -= 1
                work = self._work.popleft()
            work()
