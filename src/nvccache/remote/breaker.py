"""Which remotes are left alone for a while by all processes of this user and machine, since one has failed.

One file for each such remote, beside the slots of the user: other machines, and other users with their own
credentials, find out for themselves. Where there is no such directory, each process finds out.

    remote-<identity>        since when, until when, how often in a row; the word; the clause
    remote-<identity>-rw     the same of attempts to write
    remote-<identity>.lost   a byte for each loss in a row

When the time is over, the first process that looks tries again, and has the others wait a minute longer.
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
OF_EXECUTOR = "executor-{}"  # the identity under which an engine or launcher is left alone
_MOST = 4096  # bytes of a file
_NOWHERE = "/dev/null"  # as a directory: nothing is found, and nothing made


@dataclass(slots=True)
class Outage:
    """A remote that is left alone."""

    since: float  # a Unix time, of the first fault in a row
    until: float  # a Unix time
    trips: int  # in a row
    word: str  # of the last fault, as outcomes.REMOTE_FAULTS has it
    text: str  # a clause for the user


class Breaker:
    """Of one remote, by its identity. Raises nothing."""

    def __init__(self, identity: str, for_writing: bool = False) -> None:
        # What may not be written to, or is full, can still be read.
        name = f"remote-{identity}" + ("-rw" if for_writing else "")
        folder = slots.pool_directory()
        self._path = f"{folder or _NOWHERE}/{name}"
        self._losses = f"{self._path}.lost"
        self._is_trying = False

    def outage(self) -> Outage | None:
        """Why the remote is left alone, or was until somebody tries again; None if it is not."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | untrusted.FILE)
        except OSError:
            return None
        try:
            lines = os.read(descriptor, _MOST).decode(errors="replace").split("\n")
            since, until, trips = map(float, lines[0].split(" "))
            # Neither a clock that was set back nor a damaged file must have a remote left alone for longer.
            if not (0 <= since <= until <= time.time() + LONGEST and 1 <= trips < 1e6):
                return None
            return Outage(since, until, int(trips), lines[1], lines[2])
        except (OSError, ValueError, IndexError):
            return None
        finally:
            os.close(descriptor)

    def may_ask(self) -> bool:
        """Whether this process may ask: there is no outage, or it is the one that tries again.

        To be called by who asks then: one that does not would keep the others from trying.
        """
        outage = self.outage()
        if outage is None or self._is_trying:
            return True
        now = time.time()
        if now < outage.until:
            return False
        # Two that look in the same moment both try, which does no harm; one that dies has cost a minute.
        self._is_trying = True
        outage.until = now + FIRST
        self._keep(outage)
        return True

    def trip(self, word: str, text: str) -> Outage:
        """Leave the remote alone from now on, longer than the last time in a row."""
        untrusted.remove(self._losses, None)
        now = time.time()
        last = self.outage()
        if last and now < last.until and not self._is_trying:
            return last  # another process has met the same fault
        trips = last.trips + 1 if last else 1
        first = FIRST_THROTTLED if word == "throttled" else FIRST
        seconds = min(first * 2.0 ** min(trips - 1, 10), LONGEST)
        outage = Outage(last.since if last else now, now + seconds, trips, word, text)
        self._keep(outage)
        self._is_trying = False
        return outage

    def count_loss(self) -> int:
        """Count a failure that need not be the remote's own; how many in a row, 0 if that is not known."""
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
        """The remote has answered: end its outage if there is one."""
        self._is_trying = False
        for path in (self._path, self._losses):
            untrusted.remove(path, None)

    def _keep(self, outage: Outage) -> None:
        text = f"{outage.since:.3f} {outage.until:.3f} {outage.trips}\n{outage.word}\n{outage.text}\n"
        temporary = f"{self._path}.{os.getpid()}.{os.urandom(4).hex()}"
        with contextlib.suppress(OSError):
            untrusted.write_new(temporary, text.encode(errors="replace"), None, 0o600, is_exact=True)
            os.rename(temporary, self._path)
