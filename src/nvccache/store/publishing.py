"""How files get into the cache directory: at once and whole, or not at all.

Loaded only by a call that stores something; a direct hit does so when it refreshes a replay record.
"""

from __future__ import annotations

import errno

from nvccache.store.cachedir_tag import ForeignDirectoryError
from nvccache.store.directory import Directory, LockTimeoutError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


def publish(
    directory: Directory,
    path: str,
    content: bytes | Callable[[], bytes],
    shard: str,
    replace: bool,
    mode: int = 0o666,
) -> int | None:
    """Write a file unless it is there; by how many bytes the cache has grown, None if it was there.

    `shard` is empty for a file that no entry depends on: renaming alone is enough for those. What depends on
    the file that is there is made under the lock. Raises OSError and StoreError.
    """
    if not shard:
        return _write(directory, path, content() if callable(content) else content, mode)
    from nvccache.store import locks

    with locks.to_publish(directory, shard):
        if not replace and directory.exists(path):
            return None
        return _write(directory, path, content() if callable(content) else content, mode)


def _write(directory: Directory, path: str, content: bytes, mode: int) -> int:
    try:
        replaced = directory.status(path).st_size
    except FileNotFoundError:
        replaced = 0
    directory.write(path, content, mode)
    return len(content) - replaced


def fault_of(error: Exception) -> str:
    """The word of outcomes.STORE_FAULTS for what kept something from being stored."""
    if isinstance(error, LockTimeoutError):
        return "lock_timeout"
    if isinstance(error, ForeignDirectoryError):
        return "foreign_directory"
    number = error.errno if isinstance(error, OSError) else None
    if number in _FULL:
        return "disk_full"
    return "not_writable" if number in _FORBIDDEN else "other"
