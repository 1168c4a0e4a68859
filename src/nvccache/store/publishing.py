"""How files get into the cache directory: at once and whole, or not at all.

Loaded only by a call that stores something; a direct hit does so when it refreshes a replay record.
"""

from __future__ import annotations

import errno

from nvccache.files import keys
from nvccache.store.cachedir_tag import ForeignDirectoryError
from nvccache.store.directory import Directory, LockTimeoutError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    import zstandard

_COMPRESSION_LEVEL = 1
_LARGEST_TEXT = 1 << 30  # bytes of an intermediate; a frame of 100 KB can claim gigabytes
_AT_ONCE = 1 << 24  # bytes; more is digested before it is taken into memory
_CHUNK = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


def publish(
    directory: Directory, path: str, content: bytes, shard: str, replace: bool, mode: int = 0o666
) -> bool:
    """Write a file unless it is there; whether it was written. Raises OSError and StoreError.

    `shard` is empty for a file that no entry depends on: renaming alone is enough for those.
    """
    if not shard:
        directory.write(path, content, mode)
        return True
    from nvccache.store import locks

    with locks.to_publish(directory, shard):
        if not replace and directory.exists(path):
            return False
        directory.write(path, content, mode)
    return True


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


def compress(content: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL).compress(content)


def decompress(content: bytes, digest: str) -> bytes | None:
    """What was compressed, if it has this digest; raises ValueError for what is no compressed blob."""
    import zstandard

    try:
        size = zstandard.get_frame_parameters(content).content_size
        if size > _LARGEST_TEXT:  # so is a size that is not known
            return None
        decompressor = zstandard.ZstdDecompressor()
        if size > _AT_ONCE and keys.digest_chunks(_chunks(decompressor, content)) != digest:
            return None
        text = decompressor.decompress(content, max_output_size=size)
        return text if keys.digest_bytes(text) == digest else None
    except (zstandard.ZstdError, MemoryError) as error:
        raise ValueError(str(error)) from None


def _chunks(decompressor: zstandard.ZstdDecompressor, content: bytes) -> Iterator[bytes]:
    with decompressor.stream_reader(content) as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk
