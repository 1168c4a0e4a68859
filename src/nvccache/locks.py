"""Locks on files, with a time limit, and those of the cache directory: one for each of its sixteen shards.

Those who add and those who remove hold the lock of the shard, so that a file found present is not
removed while an entry that needs it is being written. Readers take none.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from nvccache import publishing
from nvccache.store import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK_SECONDS = 10.0  # a publisher that waits longer gives up: the result is right without the cache
_POLL_SECONDS = 0.005


@contextlib.contextmanager
def shard_lock(root: str, shard: str) -> Iterator[None]:
    """Hold the lock of one of the sixteen shards; raises StoreError after ten seconds, or OSError."""
    directory = f"{root}/locks"
    if not os.path.isdir(directory):
        publishing.prepare(root)
        os.makedirs(directory, exist_ok=True)
    path = f"{directory}/{shard}.lock"
    try:
        descriptor = _acquire(path, _LOCK_SECONDS)
    except TimeoutError:
        raise StoreError(f"another process holds the lock `{path}`") from None
    try:
        yield
    finally:
        _release(descriptor)


@contextlib.contextmanager
def held(path: str, seconds: float) -> Iterator[None]:
    """Hold a lock that is waited for at most so long; raises OSError, TimeoutError included."""
    descriptor = _acquire(path, seconds)
    try:
        yield
    finally:
        _release(descriptor)


def _acquire(path: str, seconds: float) -> int:
    """The descriptor of the locked file; raises OSError, TimeoutError included."""
    # Users may share a cache directory: each must be able to open what another made.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    give_up_at = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= give_up_at:
                os.close(descriptor)
                raise TimeoutError(f"another process holds `{path}`") from None
            time.sleep(_POLL_SECONDS)
        except BaseException:
            os.close(descriptor)
            raise


def _release(descriptor: int) -> None:
    # Closing is not enough: a tool that is just being started has the descriptor until its exec.
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
