"""How files get into the cache directory: at once and whole, or not at all.

Loaded only by a call that stores something; a direct hit does so when it refreshes a replay record.
"""

from __future__ import annotations

import errno

from nvccache.files import keys
from nvccache.store import store
from nvccache.store.cachedir_tag import ForeignDirectoryError
from nvccache.store.directory import Directory, LockTimeoutError

_COMPRESSION_LEVEL = 1
_LARGEST_TEXT = 1 << 30  # bytes of an intermediate; a frame of 100 KB can claim gigabytes
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


def publish(
    directory: Directory, path: str, content: bytes, shard: str, replace: bool, mode: int = 0o666
) -> int | None:
    """Write a file unless it is there; by how many bytes the cache has grown, None if it was there.

    `shard` is empty for a file that no entry depends on: renaming alone is enough for those. Raises OSError
    and StoreError.
    """
    if not shard:
        return _write(directory, path, content, mode)
    from nvccache.store import locks

    with locks.to_publish(directory, shard):
        if not replace and directory.exists(path):
            return None
        return _write(directory, path, content, mode)


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


def as_stored(content: bytes, digest: str, compress: bool) -> bytes:
    """What the file of a blob holds."""
    stored = content
    if compress:
        import zstandard

        stored = zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL).compress(content)
    return stored + store.tail_of(digest, stored) if len(content) >= store.SUMMED_FROM else stored


def decompress(content: bytes, digest: str) -> bytes | None:
    """What was compressed, if it has this digest; raises ValueError for what is no compressed blob."""
    import zstandard

    try:
        size = zstandard.get_frame_parameters(content).content_size
        if size > _LARGEST_TEXT:  # so is a size that is not known
            return None
        is_summed = size >= store.SUMMED_FROM
        frame = store.without_tail(content, digest) if is_summed else content
        if frame is None:
            return None
        text = zstandard.ZstdDecompressor().decompress(frame, max_output_size=size)
        return text if is_summed or keys.digest_bytes(text) == digest else None
    except (zstandard.ZstdError, MemoryError) as error:
        raise ValueError(str(error)) from None
