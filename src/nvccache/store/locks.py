"""The locks of the cache directory, with a time limit: one for each of its sixteen shards, and two more.

A process holds a shard's lock while it adds or removes files, so that no file disappears while an entry
that refers to it is being written. Readers take no lock.

Compiles lock with `flock`; cleaning and folding use filelock, which takes too long to load for a miss. To the
kernel both are the same lock.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from nvccache.files import flock
from nvccache.store.directory import Directory, LockTimeoutError, UntrustedFileError

FOLDER = "locks"
# The total for all locks of a call. After that, a call gives up storing: its result is correct without it.
_LOCK_SECONDS = 5.0
_POLL_SECONDS = 0.005


def to_publish(directory: Directory, shard: str) -> AbstractContextManager[None]:
    """Hold the lock of one of the sixteen shards while adding files.

    Raises OSError, and LockTimeoutError once the call has used up its waiting time.
    """
    return _held(directory, shard, flock.take)


def to_remove(directory: Directory, shard: str) -> AbstractContextManager[None]:
    """The same lock, for removing files."""
    return _held(directory, shard, _take_with_filelock)


def briefly(directory: Directory, shard: str, seconds: float) -> AbstractContextManager[None]:
    """The same lock, for work that a later call can do as well: waits at most this long."""
    return _held(directory, shard, flock.take, seconds)


@contextlib.contextmanager
def held(directory: Directory, path: str, seconds: float) -> Iterator[None]:
    """Hold the lock of a file, waiting at most this long; raises OSError, TimeoutError included."""
    descriptor = acquire(directory, path, seconds, _take_with_filelock)
    try:
        yield
    finally:
        flock.release(descriptor)


def open_to_lock(directory: Directory, path: str) -> int:
    """A descriptor of a lock file, created if missing; raises OSError.

    Users with read access only cannot open it: by holding the lock they would keep others from storing.
    """
    for _ in range(2):
        try:
            descriptor, status = directory.open(path, os.O_RDWR, make=True, for_writers=True)
        except PermissionError:
            # A file of another user can be locked if it can be read.
            descriptor, status = directory.open(path)
        if status.st_nlink <= 1:
            return descriptor
        # A hard link: made by a backup program, or planted by an attacker.
        os.close(descriptor)
        directory.unlink(path)
    raise UntrustedFileError(f"`{path}` has another hard link")


@contextlib.contextmanager
def _held(
    directory: Directory, shard: str, take: Callable[[int], bool], seconds: float | None = None
) -> Iterator[None]:
    directory.prepare()
    path = f"{FOLDER}/{shard}.lock"
    started = time.monotonic()
    left = max(0.0, _LOCK_SECONDS - directory.seconds_waited) if seconds is None else seconds
    try:
        descriptor = acquire(directory, path, left, take)
    except TimeoutError:
        raise LockTimeoutError(f"another process holds the lock `{directory.path}/{path}`") from None
    finally:
        if seconds is None:
            directory.seconds_waited += time.monotonic() - started
    try:
        yield
    finally:
        flock.release(descriptor)


def _take_with_filelock(descriptor: int) -> bool:
    from filelock import lock_descriptor

    return lock_descriptor(descriptor, blocking=False)


def acquire(directory: Directory, path: str, seconds: float, take: Callable[[int], bool]) -> int:
    """The descriptor of a file, once `take` has locked it; raises OSError, TimeoutError included."""
    descriptor = open_to_lock(directory, path)
    give_up_at = time.monotonic() + seconds
    try:
        while not take(descriptor):
            if time.monotonic() >= give_up_at:
                raise TimeoutError(f"another process holds `{path}`")
            time.sleep(_POLL_SECONDS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
