"""Which remotes are left alone for a while, since one process of this machine has found them wanting.

One file for each such remote, beside the slots of this user and machine: other machines, and other users with
their own credentials, find out for themselves.

    remote-<identity>        since when, until when, how often in a row; the word; the clause
    remote-<identity>-rw     the same of attempts to write
    remote-<identity>.trial  locked by the one process that asks again once that time is over
"""

from __future__ import annotations

import contextlib
import os
import time

from nvccache.files import flock, untrusted
from nvccache.machine import slots

FIRST = 60.0  # seconds
FIRST_THROTTLED = 5.0
LONGEST = 600.0
_MOST = 4096  # bytes of a file


class Outage:
    """A remote that is left alone: since and until when, in seconds since 1970; why; how often in a row."""

    __slots__ = ("since", "text", "trips", "until", "word")

    def __init__(self, since: float, until: float, trips: int, word: str, text: str) -> None:
        self.since = since
        self.until = until
        self.trips = trips
        self.word = word
        self.text = text


class Breaker:
    """Of one remote, by its identity. Without a directory of its own it counts for this process only."""

    def __init__(self, identity: str, directory: str | None = None, for_writing: bool = False) -> None:
        folder = slots.pool_directory() if directory is None else directory
        # What may not be written to, or is full, can still be read.
        name = f"remote-{identity}" + ("-rw" if for_writing else "")
        self._path = f"{folder}/{name}" if folder else ""
        self._own: Outage | None = None
        self._trial = -1

    def __del__(self) -> None:
        self._end_trial()

    def outage(self) -> Outage | None:
        """Why the remote is left alone, or was until its trial; None if it is not."""
        return self._read() if self._path else self._own

    def may_ask(self) -> bool:
        """Whether this process may ask: there is no outage, or this is the one that tries again."""
        outage = self.outage()
        if outage is None or self._trial >= 0:
            return True
        if time.time() < outage.until:
            return False
        return not self._path or self._begin_trial()

    def trip(self, word: str, text: str) -> Outage:
        """Leave the remote alone from now on, longer than the last time in a row."""
        now = time.time()
        last = self.outage()
        if last and now < last.until and self._trial < 0:
            return last  # others were faster
        trips = last.trips + 1 if last else 1
        first = FIRST_THROTTLED if word == "throttled" else FIRST
        seconds = min(first * 2.0 ** min(trips - 1, 10), LONGEST)
        outage = Outage(last.since if last else now, now + seconds, trips, word, text)
        self._own = outage
        if self._path:
            self._write(outage)
        self._end_trial()
        return outage

    def close(self) -> None:
        """The remote has answered: end its outage if there is one."""
        self._own = None
        if self._path and (self._trial >= 0 or os.path.lexists(self._path)):
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        self._end_trial()

    def _begin_trial(self) -> bool:
        flags = os.O_RDWR | os.O_CREAT | untrusted.FILE
        try:
            descriptor = os.open(f"{self._path}.trial", flags, 0o600)
            if not flock.take_or_close(descriptor):
                os.close(descriptor)
                return False
        except OSError:
            return False
        self._trial = descriptor
        # Whoever held the lock until just now may have found the remote as it was.
        outage = self._read()
        if outage and time.time() < outage.until:
            self._end_trial()
            return False
        return True

    def _end_trial(self) -> None:
        descriptor, self._trial = self._trial, -1
        if descriptor >= 0:
            flock.let_go(descriptor)

    def _read(self) -> Outage | None:
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

    def _write(self, outage: Outage) -> None:
        text = f"{outage.since:.3f} {outage.until:.3f} {outage.trips}\n{outage.word}\n{outage.text}\n"
        temporary = f"{self._path}.{os.getpid()}.{os.urandom(4).hex()}"
        with contextlib.suppress(OSError):
            descriptor = os.open(temporary, untrusted.NEW, 0o600)
            try:
                untrusted.write_all(descriptor, text.encode(errors="replace"))
            finally:
                os.close(descriptor)
            os.rename(temporary, self._path)
