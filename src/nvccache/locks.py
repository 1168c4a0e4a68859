"""The locks of the cache directory, one for each of its sixteen shards.

Those who add and those who remove hold the lock of the shard, so that a file found present is not
removed while an entry that needs it is being written. Readers take none.
"""

from __future__ import annotations

import contextlib
import os

from nvccache import publishing
from nvccache.store import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK_SECONDS = 10.0  # a publisher that waits longer gives up: the result is right without the cache


@contextlib.contextmanager
def shard_lock(root: str, shard: str) -> Iterator[None]:
    """Hold the lock of one of the sixteen shards; raises StoreError after ten seconds, or OSError."""
    import filelock

    directory = f"{root}/locks"
    if not os.path.isdir(directory):
        publishing.prepare(root)
        os.makedirs(directory, exist_ok=True)
    lock = filelock.FileLock(f"{directory}/{shard}.lock", timeout=_LOCK_SECONDS)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise StoreError(f"another process holds the lock `{directory}/{shard}.lock`") from None
    try:
        yield
    finally:
        lock.release()
