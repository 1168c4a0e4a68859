"""Locks of the event log, the count of bytes, the queue of uploads, and the stages that are running.

Entries need no lock: they are written under a temporary name and renamed, and missing entries are made again.

    $NVCCACHE_DIR/locks/running/<key>    a claim: locked by the process that runs the stage

A process claims a stage only when it can run the stage at once. It releases the claim when the result has
been stored, or when there will be no result. A process that waits for a claim polls the lock and does other
work meanwhile, so there are no deadlocks. If the process with the claim dies, the kernel releases the lock.
But that process may also be suspended, run a tool that never ends, or be on a machine that is down. So a
waiting process runs the stage itself after a minute, and waits for no further claims.

Compiles lock with `flock`. `stats --zero` and event_totals.fold use the package filelock, which takes too
long to load for a miss. Both use the same kind of lock in the kernel, so they exclude each other.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator

from nvccache.files import flock
from nvccache.store import directory as directories
from nvccache.store.directory import Directory
from nvccache.values import dataclass

FOLDER = "locks"
_POLL_SECONDS = 0.005


@contextlib.contextmanager
def hold(
    directory: Directory, name: str, seconds: float, take: Callable[[int], bool] = flock.take
) -> Iterator[None]:
    """Hold a lock in a `with` block; raises OSError, TimeoutError included."""
    descriptor = acquire(directory, f"{FOLDER}/{name}.lock", seconds, take)
    try:
        yield
    finally:
        flock.release(descriptor)


def acquire(directory: Directory, path: str, seconds: float, take: Callable[[int], bool] = flock.take) -> int:
    """The descriptor of a file, once `take` has locked it; raises OSError, TimeoutError included."""
    descriptor = open_to_lock(directory, path)
    give_up_at = time.monotonic() + seconds
    try:
        while not take(descriptor):
            if time.monotonic() >= give_up_at:
                raise TimeoutError(f"another process holds the lock `{directory.path}/{path}`")
            time.sleep(_POLL_SECONDS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_to_lock(directory: Directory, path: str) -> int:
    """A descriptor of a lock file, created if missing; raises OSError."""
    try:
        return directory.open(path, os.O_RDWR, make=True)[0]
    except PermissionError as error:
        try:
            return directory.open(path)[0]  # another user's file can be locked if it can be read
        except FileNotFoundError:
            raise error from None


def with_filelock(descriptor: int) -> bool:
    """Lock an open file with filelock; False if another process has locked it."""
    from filelock import lock_descriptor

    return lock_descriptor(descriptor, blocking=False)


HELD, FREE, ENDED = "held", "free", "ended"
RUNNING = f"{FOLDER}/running"
_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Claim:
    """A stage that this process has claimed."""

    path: str
    descriptor: int


class Wait:
    """A stage that another process has claimed."""

    def __init__(self, claims: Claims, descriptor: int) -> None:
        self._claims = claims
        self._descriptor = descriptor
        self._started = time.monotonic()

    def poll(self) -> str:
        """HELD; FREE if the other process died; ENDED if it released the claim or takes too long."""
        try:
            is_locked = not flock.take(self._descriptor)
            is_removed = not os.fstat(self._descriptor).st_nlink
        except OSError:
            return ENDED  # the file server has lost the file
        if is_removed or not is_locked:
            return ENDED if is_removed else FREE
        if time.monotonic() - self._started < self._claims.patience:
            return HELD
        self._claims.patience = 0.0
        return ENDED

    def close(self) -> None:
        flock.release(self._descriptor)


class Claims:
    """The claims of this process in one cache directory."""

    def __init__(self, cache: str | Directory) -> None:
        self.patience = _WAIT_SECONDS  # how many seconds this process waits for another one
        self._root = directories.at(cache)
        self._held: set[Claim] = set()

    def take(self, key: str) -> Claim | Wait | None:
        """Claim a stage; returns a Wait if another process has claimed it, None if locking is impossible."""
        path = f"{RUNNING}/{key}"
        try:
            while True:
                descriptor = open_to_lock(self._root, path)
                if not flock.take_or_close(descriptor):
                    return Wait(self, descriptor)
                if os.fstat(descriptor).st_nlink:
                    claim = Claim(path, descriptor)
                    self._held.add(claim)
                    return claim
                flock.release(descriptor)  # another process released the claim before this one got the lock
        except OSError:
            return None

    def release(self, claim: Claim) -> None:
        """Release a claim when its result is stored, or when there will be none; waiters notice it."""
        self._held.discard(claim)
        with contextlib.suppress(OSError):
            # If `nvccache clean` removed the file, another process may have a claim at its path by now.
            if os.fstat(claim.descriptor).st_nlink:
                self._root.unlink(claim.path)
        flock.release(claim.descriptor)

    def release_all(self) -> None:
        for claim in tuple(self._held):
            self.release(claim)


def remove_abandoned(root: Directory, path: str) -> None:
    """Remove the file of a claim that no process holds; raises OSError."""
    descriptor, _ = root.open(path)
    try:
        if flock.take(descriptor):
            root.unlink(path)
    finally:
        flock.release(descriptor)
