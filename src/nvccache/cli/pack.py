"""`nvccache pack FILE`, `nvccache unpack FILE...`: exports entries to one file, for CI jobs to keep.

    nvccache pack-v1 <size of the index> <digest of the index>\n
    index, compressed: a line `<bucket> <key> <size> <digest>` for each object
    the objects, in that order, sealed as on a remote

The contents are known before any object is read, and comparing indexes suffices to pack what an older pack
lacks. A pack is trusted no more than a remote (transfer.py).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import IO

import click
import zstandard

from nvccache.cli import settings as our_settings
from nvccache.cli.output import Failure, OnProgress, bar, json_option, replacing, say, say_json
from nvccache.cli.units import age_option, format_count, format_size
from nvccache.config import Config
from nvccache.files import keys
from nvccache.records.tiered_store import LARGEST
from nvccache.records.transfer import Transfer
from nvccache.remote import envelope
from nvccache.remote.uploads import Item
from nvccache.store import directory as directories
from nvccache.store import eviction
from nvccache.store.store import Store

_HEAD = re.compile(rb"nvccache pack-v1 (\d{1,10}) ([0-9a-f]{16,128})\n")
_LONGEST_HEAD = 256
_LINE = re.compile(r"([a-z-]{1,40}-v\d{1,4}) ([0-9a-f]{16,128}) (\d{1,10}) ([0-9a-f]{16,128})")
_LARGEST_INDEX = 1 << 29  # bytes; a line has about 160
_LONGEST_LINE = 320
_SMALLEST = 128  # bytes of a sealed object: at least its key and digest
_LEVEL = 3


@click.command(epilog="Example: nvccache pack --since 7d cache.pack")
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False))
@click.option(
    "--base",
    "bases",
    multiple=True,
    metavar="PACK",
    type=click.Path(exists=True, dir_okay=False),
    help="Leave out what this pack holds; may be given several times.",
)
@click.option(
    "--since", "age", callback=age_option, metavar="AGE", help="Leave out what was not used within AGE."
)
@json_option
def pack(file: str, bases: tuple[str, ...], age: float | None, as_json: bool) -> None:
    """Write the entries that may be shared to a file.

    `nvccache unpack` imports it. With `--base`, FILE holds only what is new, and has to be unpacked together
    with that pack. FILE appears complete or not at all. AGE is written as `30d`, `12h` or `90m`.
    """
    settings = our_settings.load(needs_cache=True)
    if os.path.exists(file) and not os.path.isfile(file):
        raise Failure(f"cannot write `{file}`: it is not a regular file")
    known = set()
    for base in bases:
        with _opened(base) as stream:
            known |= {(packed.item, packed.digest) for packed in index_of(stream)}
    cache = our_settings.untouched(settings.dir)
    transfer = Transfer(cache)
    with eviction.as_store_errors(cache.directory):
        oldest = 0.0 if age is None else time.time() - age
        items = [item for item, used in transfer.items() if used >= oldest]
    try:
        with bar("packing") as on_progress:
            objects = write(file, transfer, items, known, on_progress)
        size = {"objects": objects, "bytes": os.path.getsize(file), "left_out": len(items) - objects}
    except OSError as error:
        raise Failure(f"cannot write `{file}`: {error.strerror or error}") from None
    if as_json:
        say_json({"file": os.path.abspath(file), **size})
    else:
        left_out = f"; {size['left_out']} in the base" if bases else ""
        say(f"`{file}`: {format_count(size['objects'], 'object')}, {format_size(size['bytes'])}{left_out}")


@dataclass
class Unpacked:
    """Counts of the objects of one pack, by what happened to them."""

    file: str
    objects: int = 0
    bytes: int = 0
    present: int = 0
    refused: int = 0


@click.command(epilog="Example: nvccache unpack cache.pack")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False)
)
@json_option
def unpack(files: tuple[str, ...], as_json: bool) -> None:
    """Import packs, skipping what is already present.

    Every object is checked, as one from a remote is. Exits with status 1 if an object is damaged or forged;
    the others are imported. A file that is not a complete pack is not read.
    """
    settings = our_settings.load(needs_cache=True)
    if settings.readonly:
        raise Failure(f"nothing can be stored: `readonly` is on ({settings.origins['readonly']})")
    found = []
    for file in files:
        found.append(_unpacked(file, settings))
        if not as_json:
            _show(found[-1])
    if as_json:
        say_json({"cache": settings.dir, "packs": [asdict(each) for each in found]})
    if any(each.refused for each in found):
        sys.exit(1)


def _unpacked(file: str, settings: Config) -> Unpacked:
    made = Unpacked(file)
    cache = Store(directories.of(settings))
    transfer = Transfer(cache, settings.max_size)
    with _opened(file) as stream, bar("unpacking") as on_progress:
        index = index_of(stream)
        for number, packed in enumerate(index, 1):
            on_progress(number, len(index))
            try:
                content = read(stream, packed, envelope.max_sealed_size(LARGEST))
                is_new = transfer.take_in(content, envelope.name_of(*packed.item))
            except ValueError:
                made.refused += 1
                continue
            if cache.fault:
                raise Failure(f"nothing can be stored: {cache.fault_message}")
            made.objects += is_new
            made.present += not is_new
            made.bytes += len(content) if is_new else 0
    transfer.keep_within_limit()
    return made


def _show(made: Unpacked) -> None:
    present = f"; {made.present} already present" if made.present else ""
    refused = f"; {made.refused} refused as damaged or forged" if made.refused else ""
    say(f"`{made.file}`: {format_count(made.objects, 'object')}, {format_size(made.bytes)}{present}{refused}")


@contextlib.contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """A pack to read; raises Failure, also for a pipe, which could block."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            yield stream
    except PackError as error:
        raise Failure(f"`{path}` {error}") from None
    except OSError as error:
        raise Failure(f"cannot read `{path}`: {error.strerror or error}") from None


class PackError(Exception):
    """A file is not a complete pack; the message is a clause for the user."""


@dataclass(slots=True)
class Packed:
    """One object in a pack."""

    item: Item
    size: int
    digest: str
    offset: int  # in the file


def write(
    path: str,
    transfer: Transfer,
    items: Sequence[Item],
    known: set[tuple[Item, str]],
    on_progress: OnProgress,
) -> int:
    """Write a pack of all items except the known ones; returns the number of objects. Raises OSError."""
    lines = []
    with tempfile.TemporaryFile(dir=os.path.dirname(path) or ".") as objects:
        for number, item in enumerate(items, 1):
            on_progress(number, len(items))
            content = transfer.sealed(item)
            digest = keys.digest_bytes(content) if content is not None else ""
            if content is not None and (item, digest) not in known:
                objects.write(content)
                lines.append(f"{item[0]} {item[1]} {len(content)} {digest}\n")
        objects.seek(0)
        index = zstandard.ZstdCompressor(_LEVEL).compress("".join(lines).encode())
        with replacing(path) as stream:
            stream.write(b"nvccache pack-v1 %d %s\n" % (len(index), keys.digest_bytes(index).encode()))
            stream.write(index)
            shutil.copyfileobj(objects, stream, 1 << 20)
    return len(lines)


def index_of(stream: IO[bytes]) -> list[Packed]:
    """The contents of a pack; raises PackError, and OSError."""
    head = _HEAD.match(stream.read(_LONGEST_HEAD))
    if not head:
        raise PackError("is not an nvccache pack")
    stream.seek(head.end())
    compressed = stream.read(int(head[1])) if int(head[1]) <= _LARGEST_INDEX else b""
    if keys.digest_bytes(compressed) != head[2].decode():
        raise PackError("is cut short or damaged")
    start = head.end() + len(compressed)
    size = stream.seek(0, os.SEEK_END)
    # A few kilobytes decompress to millions of lines; the file must be large enough for what they name.
    lines = max(0, size - start) // _SMALLEST + 1
    found = list(_parse(_decompressed(compressed, min(lines * _LONGEST_LINE, _LARGEST_INDEX)), start))
    end = found[-1].offset + found[-1].size if found else start
    if size != end:
        raise PackError("is cut short or has extra data")
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
            raise PackError("has an invalid index")
        size = int(match[3])
        yield Packed((match[1], match[2]), size, match[4], offset)
        offset += size


def read(stream: IO[bytes], packed: Packed, most: int) -> bytes:
    """One sealed object; raises ValueError if it differs from the index, and OSError."""
    if packed.size > most:
        raise ValueError("it is too large")
    stream.seek(packed.offset)
    content = stream.read(packed.size)
    if keys.digest_bytes(content) != packed.digest:
        raise ValueError("its digest differs")
    return content
