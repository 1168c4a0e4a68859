"""Stages that some process is running just now: whoever needs the same waits for it.

    $NVCCACHE_DIR/locks/running/<key>    locked by who runs it; its time stamp moves while that goes well

A claim is taken only by a process that can run the stage at that moment, and is given up when the result is
stored, or when there is none. A process never waits for a claim as such: it looks from time to time, and does
what else there is to do. So no two processes can wait for each other. A holder that dies loses the
lock; one that was stopped, or whose machine is gone, lets the stamp stand still. Who sees that removes the
file, so that the stage can be claimed anew, and nobody waits for that holder again.
"""

from __future__ import annotations

import contextlib
import os
import time

from nvccache.files import flock
from nvccache.store import directory as directories
from nvccache.store import locks
from nvccache.store.directory import Directory
from nvccache.values import dataclass

HELD, FREE, ENDED = "held", "free", "ended"
FOLDER = f"{locks.FOLDER}/running"
_BEAT_SECONDS = 1.0
_PATIENCE_SECONDS = 10.0  # without a sign of life, of all holders that a call waits for together
_LONGEST_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class Claim:
    """This process runs a stage."""

    path: str
    descriptor: int


class Wait:
    """Another process runs a stage."""

    __slots__ = ("_claims", "_descriptor", "_path", "_root", "_stamp", "_started", "_stood_still_since")

    def __init__(self, claims: Claims, root: Directory, path: str, descriptor: int) -> None:
        self._claims = claims
        self._root = root
        self._path = path
        self._descriptor = descriptor
        self._started = self._stood_still_since = time.monotonic()
        self._stamp = -1

    def look(self) -> str:
        """HELD; FREE if the holder died or stands still; ENDED if it came to an end, or takes too long."""
        try:
            is_locked = not flock.take(self._descriptor)
            status = os.fstat(self._descriptor)
        except OSError:
            return ENDED  # the file server has lost it
        if not is_locked:
            return FREE if status.st_nlink else ENDED
        if not status.st_nlink:
            return FREE  # somebody else has seen that the holder stands still
        now = time.monotonic()
        if status.st_mtime_ns != self._stamp:
            self._stamp, self._stood_still_since = status.st_mtime_ns, now
        if self._stands_still(now - self._stood_still_since):
            _unlink(self._root, self._path, self._descriptor)
            return FREE
        return HELD if now - self._started < _LONGEST_SECONDS else ENDED

    def _stands_still(self, seconds: float) -> bool:
        """Whether the holder is known to have been stopped, or has shown no sign of life for too long."""
        if seconds >= _BEAT_SECONDS and flock.is_held_by_stopped(self._descriptor):
            return True
        if seconds < self._claims.patience:
            return False
        # What else it holds is not waited for as long.
        self._claims.patience = 2 * _BEAT_SECONDS
        return True

    def leave(self) -> None:
        flock.let_go(self._descriptor)


class Claims:
    """The stages this process runs or waits for, over one cache directory.

    `patience` are the seconds for which a holder is waited for that shows no sign of life.
    """

    def __init__(self, place: str | Directory) -> None:
        self.patience = _PATIENCE_SECONDS
        self._root = directories.at(place)
        self._held: set[Claim] = set()
        self._last_beat = time.monotonic()

    def take(self, key: str) -> Claim | Wait | None:
        """Claim a stage; None where that is impossible: it is then run without."""
        path = f"{FOLDER}/{key}"
        try:
            self._root.prepare()
            while True:
                descriptor = locks.open_to_lock(self._root, path)
                if not flock.take_or_close(descriptor):
                    return Wait(self, self._root, path, descriptor)
                if os.fstat(descriptor).st_nlink:
                    claim = Claim(path, descriptor)
                    self._held.add(claim)
                    return claim
                flock.let_go(descriptor)  # it came to its end between the two calls
        except OSError:
            return None

    def give_up(self, claim: Claim) -> None:
        """The stage has been stored, or never will be. That the file is gone tells those who wait."""
        self._held.discard(claim)
        _unlink(self._root, claim.path, claim.descriptor)
        flock.let_go(claim.descriptor)

    def beat(self) -> None:
        """Show that this process goes on; to be called a few times a second."""
        now = time.monotonic()
        if now - self._last_beat >= _BEAT_SECONDS:
            self._last_beat = now
            for claim in tuple(self._held):
                with contextlib.suppress(OSError):
                    os.utime(claim.descriptor)

    def give_up_all(self) -> None:
        for claim in tuple(self._held):
            self.give_up(claim)


def _unlink(root: Directory, path: str, descriptor: int) -> None:
    """Remove the file of a claim, unless that has been done: the path may be another's by now."""
    with contextlib.suppress(OSError):
        if os.fstat(descriptor).st_nlink:
            root.unlink(path)


def remove_abandoned(root: Directory, path: str) -> None:
    """Remove the claim of a process that was killed, unless somebody holds it; raises OSError."""
    descriptor, _ = root.open(path)
    try:
        if flock.take(descriptor):
            root.unlink(path)
    finally:
        flock.let_go(descriptor)
