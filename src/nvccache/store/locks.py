"""The locks of the cache directory, with a time limit: one for each of its sixteen shards, and two more.

Those who add and those who remove hold the lock of the shard, so that a file found present is not
removed while an entry that needs it is being written. Readers take none.

The files are opened like all others of the directory, and what is open is locked: by calls with `flock`, by
who cleans or folds with filelock, which a miss has no time to load. To the kernel both are one lock.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from nvccache.files import flock
from nvccache.store.directory import Directory, LockTimeoutError, StrangeFileError

FOLDER = "locks"
# For all locks of a call together. A publisher that has waited so long gives up, and at once where the holder
# is known to have been stopped: the result is right without the cache.
_LOCK_SECONDS = 5.0
_POLL_SECONDS = 0.005


def to_publish(directory: Directory, shard: str) -> AbstractContextManager[None]:
    """Hold the lock of one of the sixteen shards while something is added.

    Raises LockTimeoutError when the call has waited long enough, and OSError; so do the next two.
    """
    return _held(directory, shard, flock.take)


def to_remove(directory: Directory, shard: str) -> AbstractContextManager[None]:
    """The same lock, for who removes."""
    return _held(directory, shard, _take_by_filelock)


def briefly(directory: Directory, shard: str, seconds: float) -> AbstractContextManager[None]:
    """The same lock, for what a call can do as well another time: waited for so long at most."""
    return _held(directory, shard, flock.take, seconds)


@contextlib.contextmanager
def held(directory: Directory, path: str, seconds: float) -> Iterator[None]:
    """Hold a lock that is waited for at most so long; raises OSError, TimeoutError included."""
    descriptor = _acquire(directory, path, seconds, _take_by_filelock)
    try:
        yield
    finally:
        flock.let_go(descriptor)


def open_to_lock(directory: Directory, path: str) -> int:
    """A descriptor of a file that is there to be locked, made if need be; raises OSError.

    Who may only read the cache cannot open it: a lock that is held keeps others from storing.
    """
    for _ in range(2):
        try:
            descriptor, status = directory.open(path, os.O_RDWR, make=True, for_writers=True)
        except PermissionError:
            # Whoever may read the file of another user may lock it.
            descriptor, status = directory.open(path)
        if status.st_nlink <= 1:
            return descriptor
        # A backup made of hard links has it as well, or somebody hostile has put it there.
        os.close(descriptor)
        directory.unlink(path)
    raise StrangeFileError(f"`{path}` has another name elsewhere")


@contextlib.contextmanager
def _held(
    directory: Directory, shard: str, take: Callable[[int], bool], seconds: float | None = None
) -> Iterator[None]:
    directory.prepare()
    path = f"{FOLDER}/{shard}.lock"
    started = time.monotonic()
    left = max(0.0, _LOCK_SECONDS - directory.seconds_waited) if seconds is None else seconds
    try:
        descriptor = _acquire(directory, path, left, take)
    except TimeoutError:
        raise LockTimeoutError(f"another process holds the lock `{directory.path}/{path}`") from None
    finally:
        if seconds is None:
            directory.seconds_waited += time.monotonic() - started
    try:
        yield
    finally:
        flock.let_go(descriptor)


def _take_by_filelock(descriptor: int) -> bool:
    from filelock import lock_descriptor

    return lock_descriptor(descriptor, blocking=False)


def _acquire(directory: Directory, path: str, seconds: float, take: Callable[[int], bool]) -> int:
    """The descriptor of the locked file; raises OSError, TimeoutError included."""
    descriptor = open_to_lock(directory, path)
    give_up_at = time.monotonic() + seconds
    try:
        while not take(descriptor):
            if time.monotonic() >= give_up_at or flock.is_held_by_stopped(descriptor):
                raise TimeoutError(f"another process holds `{path}`")
            time.sleep(_POLL_SECONDS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
