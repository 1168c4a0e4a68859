"""The sources whose date and size are in the line tables of a cubin, as ptxas up to CUDA 13.2 writes them.

With -dlto nvlink compiles code whose sources nobody can name before; so its result is looked at. Which
files a table lists follows from what is linked: one that is missing is listed with zeros.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable

from nvccache.files import elf, presence
from nvccache.records.input_records import UnreadableError

Source = tuple[str, int, int]  # path, date, size

_UNIT = struct.Struct("<IHI")  # length of the unit, version, length of the header
_VERSIONS = (2, 3, 4)
_NAME = b".debug_line"  # and .nv.merc.debug_line, from sm_100 on
_CLOCK_TICK = 10**8  # nanoseconds: what changed so shortly before may have changed after
_NOT_UNDERSTOOD = "the line table of a device link is not understood"


def dates_in(images: Iterable[bytes], since_ns: int) -> list[tuple[str, str]]:
    """Each source that counts, with its date and size as they are now and in the table: none if missing.

    Raises UnreadableError if that is not so, since a source has changed after `since_ns`, or not certain.
    """
    found = dict.fromkeys(source for image in images for source in sources_in(image))
    dated = {path: _date_now(path, date, size, since_ns) for path, date, size in found}
    return [(path, date) for path, date in sorted(dated.items()) if date is not None]


def _date_now(path: str, date: int, size: int, since_ns: int) -> str | None:
    """The date and size of a source; None if the tool does not write those of sources that are there."""
    now = presence.date_and_size(path)
    is_undated = not date and not size
    if now == f"{path}:{date}:{size}" if now else is_undated:
        return now
    if now and is_undated and os.stat(path).st_ctime_ns < since_ns - _CLOCK_TICK:
        return None
    raise UnreadableError(f"`{path}` changed while it was linked")


def sources_in(image: bytes) -> list[Source]:
    """What the line tables say of sources; raises UnreadableError where they cannot be read."""
    if not elf.is_understood(image):
        if _NAME in image:
            raise UnreadableError(_NOT_UNDERSTOOD)
        return []
    try:
        return [
            source
            for table in _tables(image)
            for start in _units(table)
            for source in _sources_of_unit(table, start)
        ]
    except (struct.error, IndexError, ValueError):
        raise UnreadableError(_NOT_UNDERSTOOD) from None


def _tables(image: bytes) -> list[bytes]:
    # Not the relocations, whose names end alike.
    return [
        elf.content_of(image, section)
        for section in elf.sections(image)
        if section[1] == elf.PROGRAM_BITS and section[0].endswith(_NAME)
    ]


def _units(table: bytes) -> list[int]:
    starts = []
    position = 0
    while position < len(table):
        starts.append(position)
        position += 4 + int(struct.unpack_from("<I", table, position)[0])
    if position != len(table):
        raise ValueError("a unit is cut short")
    return starts


def _sources_of_unit(table: bytes, start: int) -> list[Source]:
    _, version, _ = _UNIT.unpack_from(table, start)
    if version not in _VERSIONS:
        raise ValueError("the table has another form")
    position = start + _UNIT.size + (5 if version == 4 else 4)
    position += table[position]  # as many lengths as there are opcodes, but for one
    directories = [b""]  # the first is the working directory
    while table[position]:
        directory, position = _string(table, position)
        directories.append(directory)
    position += 1
    found = []
    while table[position]:
        name, position = _string(table, position)
        folder, position = _number(table, position)
        date, position = _number(table, position)
        size, position = _number(table, position)
        found.append((os.fsdecode(os.path.join(directories[folder], name)), date, size))
    return found


def _string(table: bytes, position: int) -> tuple[bytes, int]:
    """Bytes up to the next zero, and where what follows begins."""
    end = table.index(b"\0", position)
    return table[position:end], end + 1


def _number(table: bytes, position: int) -> tuple[int, int]:
    """A LEB128 number, and where it ends."""
    value = shift = 0
    while True:
        byte = table[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
