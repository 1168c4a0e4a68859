"""The locks of the cache directory: of the event log, the count of bytes, and the queue of uploads.

Entries need none: they are written under a temporary name and renamed, and one that is missing is made again.

Compiles lock with `flock`; `stats --zero` and folding use filelock, which takes too long to load for a miss.
To the kernel both are the same lock.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator

from nvccache.files import flock
from nvccache.store.directory import Directory

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
    except PermissionError:
        return directory.open(path)[0]  # a file of another user can be locked if it can be read


def with_filelock(descriptor: int) -> bool:
    """Lock an open file, unless it is locked."""
    from filelock import lock_descriptor

    return lock_descriptor(descriptor, blocking=False)
