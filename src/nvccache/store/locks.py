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

from nvccache.files import flock
from nvccache.store.directory import Directory, LockTimeoutError

FOLDER = "locks"
# The total for all locks of a call. After that, a call gives up storing: its result is correct without it.
_LOCK_SECONDS = 5.0
_POLL_SECONDS = 0.005


@contextlib.contextmanager
def hold(
    directory: Directory,
    name: str,
    seconds: float | None = None,
    take: Callable[[int], bool] = flock.take,
) -> Iterator[None]:
    """Hold a lock in a `with` block: that of a shard while adding or removing files, or another one.

    Waits at most for `seconds`, or until the call has used up its waiting time. Raises OSError, and
    LockTimeoutError.
    """
    path = f"{FOLDER}/{name}.lock"
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


def open_to_lock(directory: Directory, path: str) -> int:
    """A descriptor of a lock file, created if missing; raises OSError.

    Users with read access only cannot open it: by holding the lock they would keep others from storing.
    """
    try:
        return directory.open(path, os.O_RDWR, make=True, for_writers=True)[0]
    except PermissionError:
        return directory.open(path)[0]  # a file of another user can be locked if it can be read


def with_filelock(descriptor: int) -> bool:
    """Lock an open file, unless it is locked."""
    from filelock import lock_descriptor

    return lock_descriptor(descriptor, blocking=False)
