"""Locks on files, with a time limit, and those of the cache directory: one for each of its sixteen shards.

Those who add and those who remove hold the lock of the shard, so that a file found present is not
removed while an entry that needs it is being written. Readers take none.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from nvccache.store.directory import Directory, StrangeFileError
from nvccache.store.store import LockTimeoutError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = "locks"
# For all locks of a call together. A publisher that has waited so long gives up: the result is right without
# the cache, and a holder that was stopped holds every lock that it will ever hold.
_LOCK_SECONDS = 5.0
_POLL_SECONDS = 0.005


@contextlib.contextmanager
def shard_lock(directory: Directory, shard: str) -> Iterator[None]:
    """Hold the lock of one of the sixteen shards.

    Raises LockTimeoutError when the call has waited long enough, and OSError.
    """
    directory.prepare()
    path = f"{FOLDER}/{shard}.lock"
    started = time.monotonic()
    try:
        descriptor = _acquire(directory, path, max(0.0, _LOCK_SECONDS - directory.seconds_waited))
    except TimeoutError:
        raise LockTimeoutError(f"another process holds the lock `{directory.path}/{path}`") from None
    finally:
        directory.seconds_waited += time.monotonic() - started
    try:
        yield
    finally:
        let_go(descriptor)


@contextlib.contextmanager
def held(directory: Directory, path: str, seconds: float) -> Iterator[None]:
    """Hold a lock that is waited for at most so long; raises OSError, TimeoutError included."""
    descriptor = _acquire(directory, path, seconds)
    try:
        yield
    finally:
        let_go(descriptor)


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


def try_lock(descriptor: int) -> bool:
    """Lock an open file if nobody has; raises OSError."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _acquire(directory: Directory, path: str, seconds: float) -> int:
    """The descriptor of the locked file; raises OSError, TimeoutError included."""
    descriptor = open_to_lock(directory, path)
    give_up_at = time.monotonic() + seconds
    try:
        while not try_lock(descriptor):
            if time.monotonic() >= give_up_at:
                raise TimeoutError(f"another process holds `{path}`")
            time.sleep(_POLL_SECONDS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def let_go(descriptor: int) -> None:
    """Give a lock up and close its file, whatever becomes of that."""
    # Closing is not enough: a tool that is just being started has the descriptor until its exec.
    # What was done under the lock is done, whatever a file server says of giving it up.
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    with contextlib.suppress(OSError):
        os.close(descriptor)
