"""A circuit breaker per remote: after a fault, all processes of this user and machine skip it for a while.

Its files are in the pool directory with the user's slots: other machines, and other users with their own
credentials, may not see the same fault. Without a pool directory, each process has to find out by itself.

    remote-<identity>        first line: since, until, trips; then the word and the clause of the fault
    remote-<identity>-rw     the same for writing
    remote-<identity>.lost   one byte per loss in a row

When the time is over, the first process that checks retries, and makes the others wait another minute.
"""

from __future__ import annotations

import contextlib
import os
import time

from nvccache.files import untrusted
from nvccache.machine import slots
from nvccache.values import dataclass

FIRST = 60.0  # seconds
FIRST_THROTTLED = 5.0
LONGEST = 600.0
OF_EXECUTOR = "executor-{}"  # the identity of an engine or launcher
_MOST = 4096  # bytes of a file
_NOWHERE = "/dev/null"  # used as a directory, so that reads and writes fail


@dataclass(slots=True)
class Outage:
    since: float  # a Unix time, of the first fault in a row
    until: float  # a Unix time
    trips: int  # in a row
    word: str  # of the last fault, a key of outcomes.REMOTE_FAULTS
    text: str  # a clause for the user

    @property
    def is_over(self) -> bool:
        return time.time() >= self.until


class Breaker:
    """Raises nothing."""

    def __init__(self, identity: str, for_writing: bool = False) -> None:
        # A remote that is full or denies writes can still be read.
        name = f"remote-{identity}" + ("-rw" if for_writing else "")
        folder = slots.pool_directory()
        self._path = f"{folder or _NOWHERE}/{name}"
        self._losses = f"{self._path}.lost"
        self._is_retrying = False

    def outage(self) -> Outage | None:
        """The current outage, or one that is over and due for a retry; None if the breaker is closed."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | untrusted.FILE)
        except OSError:
            return None
        try:
            lines = os.read(descriptor, _MOST).decode(errors="replace").split("\n")
            since, until, trips = map(float, lines[0].split(" "))
            # A clock that was set back, or a damaged file, must not extend an outage.
            if not (0 <= since <= until <= time.time() + LONGEST and 1 <= trips < 1e6):
                return None
            return Outage(since, until, int(trips), lines[1], lines[2])
        except (OSError, ValueError, IndexError):
            return None
        finally:
            os.close(descriptor)

    def may_request(self) -> bool:
        """Whether this process may send requests: there is no outage, or it is the one that retries.

        Call this only before a request: it claims the retry, so other processes wait.
        """
        outage = self.outage()
        if outage is None or self._is_retrying:
            return True
        if not outage.is_over:
            return False
        # Two processes that check at the same moment both retry: harmless. One that dies costs a minute.
        self._is_retrying = True
        outage.until = time.time() + FIRST
        self._write(outage)
        return True

    def trip(self, word: str, text: str) -> Outage:
        """Begin an outage, longer with each consecutive trip."""
        untrusted.remove(self._losses, None)
        now = time.time()
        last = self.outage()
        if last and not last.is_over and not self._is_retrying:
            return last  # another process tripped first
        if last and now > last.until + LONGEST:
            last = None  # nothing was requested since: whether the fault lasted is unknown
        trips = last.trips + 1 if last else 1
        first = FIRST_THROTTLED if word == "throttled" else FIRST
        seconds = min(first * 2.0 ** min(trips - 1, 10), LONGEST)
        outage = Outage(last.since if last else now, now + seconds, trips, word, text)
        self._write(outage)
        self._is_retrying = False
        return outage

    def count_loss(self) -> int:
        """Count a failure that may not be the remote's fault; how many in a row, 0 if unknown."""
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | untrusted.FILE
            descriptor = os.open(self._losses, flags, 0o600)
            try:
                os.write(descriptor, b".")
                return os.fstat(descriptor).st_size
            finally:
                os.close(descriptor)
        return 0

    def close(self) -> None:
        """End the outage, if any: the remote has answered."""
        self._is_retrying = False
        for path in (self._path, self._losses):
            untrusted.remove(path, None)

    def _write(self, outage: Outage) -> None:
        text = f"{outage.since:.3f} {outage.until:.3f} {outage.trips}\n{outage.word}\n{outage.text}\n"
        temporary = f"{self._path}.{os.getpid()}.{os.urandom(4).hex()}"
        with contextlib.suppress(OSError):
            untrusted.write_new(temporary, text.encode(errors="replace"), None, 0o600, is_exact=True)
            os.rename(temporary, self._path)
