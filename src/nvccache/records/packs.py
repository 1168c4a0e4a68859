"""A pack: entries of a cache in one file, for machines that a file gets to and no remote.

    nvccache pack-v1 <size of the index> <digest of the index>\n
    index, compressed: a line `<bucket> <key> <size> <digest>` for each object
    the objects, in that order, sealed as they would lie on a remote

So what there is is known before anything is read, and a pack of what an older one lacks needs only the two
indexes. A pack is trusted no more than a remote (transfer.py).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO

import zstandard

from nvccache.files import keys
from nvccache.records.transfer import Transfer
from nvccache.remote.uploads import Item

Tell = Callable[[int, int], None]

_HEAD = re.compile(rb"nvccache pack-v1 (\d{1,10}) ([0-9a-f]{16,128})\n")
_LONGEST_HEAD = 256
_LINE = re.compile(r"([a-z-]{1,40}-v\d{1,4}) ([0-9a-f]{16,128}) (\d{1,10}) ([0-9a-f]{16,128})")
_LARGEST_INDEX = 1 << 29  # bytes; a line has some 160
_LONGEST_LINE = 320
_SMALLEST = 128  # bytes of a sealed object: its key and its digest alone
_LEVEL = 3


class PackError(Exception):
    """A file is no pack, or not all of one; the message is a clause for the user."""


class Packed:
    """One object in a pack."""

    __slots__ = ("digest", "item", "offset", "size")

    def __init__(self, item: Item, size: int, digest: str, offset: int) -> None:
        self.item = item
        self.size = size
        self.digest = digest
        self.offset = offset  # in the file


def write(
    path: str, transfer: Transfer, items: Iterable[Item], known: set[tuple[Item, str]], tell: Tell
) -> list[Packed]:
    """Write a pack, all at once, of what is not known by item and digest. Raises OSError."""
    wanted = list(items)
    found: list[Packed] = []
    folder = os.path.dirname(os.path.abspath(path))
    with tempfile.TemporaryFile(dir=folder) as objects:
        size = 0
        for number, item in enumerate(wanted, 1):
            tell(number, len(wanted))
            content = transfer.sealed(item)
            digest = keys.digest_bytes(content) if content is not None else ""
            if content is None or (item, digest) in known:
                continue
            objects.write(content)
            found.append(Packed(item, len(content), digest, size))
            size += len(content)
        objects.seek(0)
        _put_together(path, found, objects, folder)
    return found


def _put_together(path: str, found: list[Packed], objects: IO[bytes], folder: str) -> None:
    lines = [f"{each.item[0]} {each.item[1]} {each.size} {each.digest}\n" for each in found]
    index = zstandard.ZstdCompressor(_LEVEL).compress("".join(lines).encode())
    descriptor, temporary = tempfile.mkstemp(prefix=".nvccache-", suffix=".pack", dir=folder)
    try:
        with open(descriptor, "wb") as stream:
            umask = os.umask(0)
            os.umask(umask)
            os.fchmod(descriptor, 0o666 & ~umask)
            stream.write(b"nvccache pack-v1 %d %s\n" % (len(index), keys.digest_bytes(index).encode()))
            stream.write(index)
            shutil.copyfileobj(objects, stream, 1 << 20)
            stream.flush()
            os.fsync(descriptor)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def index_of(stream: IO[bytes]) -> list[Packed]:
    """What is in a pack; raises PackError for a file that is none, or not whole, and OSError."""
    head = _HEAD.match(stream.read(_LONGEST_HEAD))
    if not head:
        raise PackError("is no pack of nvccache")
    stream.seek(head.end())
    compressed = stream.read(int(head[1])) if int(head[1]) <= _LARGEST_INDEX else b""
    if keys.digest_bytes(compressed) != head[2].decode():
        raise PackError("is cut short or damaged")
    start = head.end() + len(compressed)
    size = stream.seek(0, os.SEEK_END)
    # A few kilobytes decompress to lines by the million; the file has to hold what these name.
    lines = max(0, size - start) // _SMALLEST + 1
    found = list(_parse(_decompressed(compressed, min(lines * _LONGEST_LINE, _LARGEST_INDEX)), start))
    end = found[-1].offset + found[-1].size if found else start
    if size != end:
        raise PackError("is cut short, or has more than its index says")
    return found


def _decompressed(compressed: bytes, most: int) -> str:
    try:
        size = zstandard.frame_content_size(compressed)
        if not 0 <= size <= most:
            raise PackError("has an index that is too large")
        return zstandard.ZstdDecompressor().decompress(compressed, size).decode("ascii")
    except (zstandard.ZstdError, ValueError):
        raise PackError("has an index that cannot be read") from None


def _parse(index: str, offset: int) -> Iterator[Packed]:
    for line in index.split("\n")[:-1]:
        match = _LINE.fullmatch(line)
        if not match:
            raise PackError("has an index that cannot be understood")
        size = int(match[3])
        yield Packed((match[1], match[2]), size, match[4], offset)
        offset += size


def read(stream: IO[bytes], packed: Packed, most: int) -> bytes:
    """One object, as it is sealed; raises ValueError for one that is not what the index says, and OSError."""
    if packed.size > most:
        raise ValueError("it is too large")
    stream.seek(packed.offset)
    content = stream.read(packed.size)
    if keys.digest_bytes(content) != packed.digest:
        raise ValueError("its digest is another one")
    return content
