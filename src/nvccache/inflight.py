"""Stages that some process is running just now: whoever needs the same waits for it.

    $NVCCACHE_DIR/locks/running/<key>    locked by who runs it; its time stamp moves while that goes well

A claim is taken only by a process that can run the stage at that moment, and is given up when the result is
stored, or when there is none. A process never waits for a claim as such: it looks from time to time, and does
what else there is to do. So no two processes can wait for each other. A holder that dies loses the
lock; one that stands still (stopped, or its machine gone) lets the stamp stand still, and is not waited for.
"""

from __future__ import annotations

import fcntl
import os
import time

from nvccache import publishing
from nvccache.store import quietly

HELD, FREE, ENDED = "held", "free", "ended"
_BEAT_SECONDS = 1.0
_PATIENCE_SECONDS = 10.0  # without a sign of life
_LONGEST_SECONDS = 1800.0


class Claim:
    """This process runs a stage."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def beat(self) -> None:
        quietly(os.utime, self._path)

    def give_up(self) -> None:
        """The stage has been stored, or never will be. That the file is gone tells those who wait."""
        quietly(os.unlink, self._path)
        # Closing is not enough: a tool that is just being started has the descriptor until its exec.
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)


class Wait:
    """Another process runs a stage."""

    __slots__ = ("_descriptor", "_stamp", "_started", "_stood_still_since")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._started = self._stood_still_since = time.monotonic()
        self._stamp = -1

    def look(self) -> str:
        """HELD; FREE if the holder died; ENDED if it came to an end, or is not worth waiting for."""
        if _lock(self._descriptor):
            is_abandoned = os.fstat(self._descriptor).st_nlink > 0
            return FREE if is_abandoned else ENDED
        now = time.monotonic()
        stamp = os.fstat(self._descriptor).st_mtime_ns
        if stamp != self._stamp:
            self._stamp, self._stood_still_since = stamp, now
        has_patience = now - self._stood_still_since < _PATIENCE_SECONDS
        return HELD if has_patience and now - self._started < _LONGEST_SECONDS else ENDED

    def leave(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)


class Claims:
    """The stages this process runs or waits for, over one cache directory."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._folder = f"{root}/locks/running"
        self._held: set[Claim] = set()
        self._last_beat = time.monotonic()

    def take(self, key: str) -> Claim | Wait | None:
        """Claim a stage; None where that is impossible: it is then run without."""
        path = f"{self._folder}/{key}"
        try:
            while True:
                descriptor = self._open(path)
                if not _lock(descriptor):
                    return Wait(descriptor)
                if os.fstat(descriptor).st_nlink:
                    claim = Claim(path, descriptor)
                    self._held.add(claim)
                    return claim
                os.close(descriptor)  # it came to its end between the two calls
        except OSError:
            return None

    def give_up(self, claim: Claim) -> None:
        self._held.discard(claim)
        claim.give_up()

    def beat(self) -> None:
        """Show that this process goes on; to be called a few times a second."""
        now = time.monotonic()
        if now - self._last_beat >= _BEAT_SECONDS:
            self._last_beat = now
            for claim in tuple(self._held):
                claim.beat()

    def give_up_all(self) -> None:
        for claim in tuple(self._held):
            self.give_up(claim)

    def _open(self, path: str) -> int:
        if not os.path.isdir(self._folder):
            publishing.prepare(self._root)
            os.makedirs(self._folder, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
