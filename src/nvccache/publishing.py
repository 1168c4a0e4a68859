"""How files get into the cache directory: at once and whole, or not at all.

Loaded only by a call that stores something; a direct hit does so when it refreshes a replay record.
"""

from __future__ import annotations

import os

from nvccache.store import quietly

_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# This directory is a cache made by nvccache.\n"
_COMPRESSION_LEVEL = 1


def publish(root: str, path: str, content: bytes, shard: str, replace: bool) -> bool:
    """Write a file unless it is there; whether it was written. Raises OSError and StoreError.

    `shard` is empty for a file that no entry depends on: renaming alone is enough for those.
    """
    if not shard:
        write_whole(root, path, content)
        return True
    from nvccache.locks import shard_lock

    with shard_lock(root, shard):
        if not replace and os.path.exists(path):
            return False
        write_whole(root, path, content)
    return True


def write_whole(root: str, path: str, content: bytes) -> None:
    """Make a file appear at once and whole, or not at all; raises OSError."""
    for directory in (f"{root}/tmp", os.path.dirname(path)):
        if not os.path.isdir(directory):
            prepare(root)
            os.makedirs(directory, exist_ok=True)
    temporary = f"{root}/tmp/{os.urandom(16).hex()}"
    # Not mkstemp, whose files only their owner can read: users may share a cache directory.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(content)
        os.rename(temporary, path)
    except BaseException:
        quietly(os.unlink, temporary)
        raise


def prepare(root: str) -> None:
    """Make the cache directory and mark it as one; raises OSError."""
    os.makedirs(root, exist_ok=True)
    tag = f"{root}/CACHEDIR.TAG"
    if not os.path.exists(tag):
        with open(tag, "wb") as stream:
            stream.write(_TAG)


def compress(content: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL).compress(content)


def decompress(content: bytes) -> bytes:
    """Raises ValueError for what is not a compressed blob."""
    import zstandard

    try:
        return zstandard.ZstdDecompressor().decompress(content)
    except (zstandard.ZstdError, MemoryError) as error:  # a damaged header can claim any size
        raise ValueError(str(error)) from None
