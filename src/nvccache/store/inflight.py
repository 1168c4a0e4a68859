"""Stages that a process is running now, so that other calls wait for the result instead of running them too.

    $NVCCACHE_DIR/locks/running/<key>    locked by the process that runs the stage, which updates its mtime

A process claims a stage only when it can run it at once, and releases the claim when the result has been
stored or there is none. Waiting processes poll and do other work meanwhile, so there are no deadlocks.
A holder that dies loses the lock; one that is suspended, or whose machine is down, stops updating the mtime.
The process that notices this removes the file, so that the stage can be claimed again.
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
_HEARTBEAT_SECONDS = 1.0
_STALL_SECONDS = 10.0  # without a heartbeat; for all holders that a call waits for together
_MAX_WAIT_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class Claim:
    """This process runs a stage."""

    path: str
    descriptor: int


class Wait:
    """Another process runs a stage."""

    __slots__ = ("_claims", "_descriptor", "_path", "_root", "_stalled_since", "_stamp", "_started")

    def __init__(self, claims: Claims, root: Directory, path: str, descriptor: int) -> None:
        self._claims = claims
        self._root = root
        self._path = path
        self._descriptor = descriptor
        self._started = self._stalled_since = time.monotonic()
        self._stamp = -1

    def poll(self) -> str:
        """HELD; FREE if the holder died or stalled; ENDED if it has released the claim or takes too long."""
        try:
            is_locked = not flock.take(self._descriptor)
            status = os.fstat(self._descriptor)
        except OSError:
            return ENDED  # lost by the file server
        if not is_locked:
            return FREE if status.st_nlink else ENDED
        if not status.st_nlink:
            return FREE  # another process has noticed that the holder stalled
        now = time.monotonic()
        if status.st_mtime_ns != self._stamp:
            self._stamp, self._stalled_since = status.st_mtime_ns, now
        if self._is_stalled(now - self._stalled_since):
            _unlink(self._root, self._path, self._descriptor)
            return FREE
        return HELD if now - self._started < _MAX_WAIT_SECONDS else ENDED

    def _is_stalled(self, seconds: float) -> bool:
        """Whether the holder is known to be suspended, or has not sent a heartbeat for too long."""
        if seconds >= _HEARTBEAT_SECONDS and flock.is_held_by_stopped(self._descriptor):
            return True
        if seconds < self._claims.patience:
            return False
        # Its other claims are not waited for as long.
        self._claims.patience = 2 * _HEARTBEAT_SECONDS
        return True

    def close(self) -> None:
        flock.release(self._descriptor)


class Claims:
    """The claims of this process in one cache directory."""

    def __init__(self, cache: str | Directory) -> None:
        self.patience = _STALL_SECONDS  # to wait for a holder that sends no heartbeat
        self._root = directories.at(cache)
        self._held: set[Claim] = set()
        self._last_beat = time.monotonic()

    def take(self, key: str) -> Claim | Wait | None:
        """Claim a stage; None if that is impossible, and the stage is then run without a claim."""
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
                flock.release(descriptor)  # released between the two calls
        except OSError:
            return None

    def release(self, claim: Claim) -> None:
        """Release a claim when its result is stored or will not be; waiters see that the file is gone."""
        self._held.discard(claim)
        _unlink(self._root, claim.path, claim.descriptor)
        flock.release(claim.descriptor)

    def heartbeat(self) -> None:
        """Show that this process makes progress; to be called a few times a second."""
        now = time.monotonic()
        if now - self._last_beat >= _HEARTBEAT_SECONDS:
            self._last_beat = now
            for claim in tuple(self._held):
                with contextlib.suppress(OSError):
                    os.utime(claim.descriptor)

    def release_all(self) -> None:
        for claim in tuple(self._held):
            self.release(claim)


def _unlink(root: Directory, path: str, descriptor: int) -> None:
    """Remove the file of a claim, unless it is gone: the path may now be another process's claim."""
    with contextlib.suppress(OSError):
        if os.fstat(descriptor).st_nlink:
            root.unlink(path)


def remove_abandoned(root: Directory, path: str) -> None:
    """Remove the file of a claim that no process holds; raises OSError."""
    descriptor, _ = root.open(path)
    try:
        if flock.take(descriptor):
            root.unlink(path)
    finally:
        flock.release(descriptor)
