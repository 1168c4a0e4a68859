"""Finds the sources whose date and size ptxas, up to CUDA 13.2, writes into the line tables of a cubin.

With -dlto nvlink compiles code whose sources are not known before, so they are read from its result. The
files in a table depend only on what is linked: a missing source is listed with zeros.
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
_CLOCK_TICK = 10**8  # nanoseconds; a change this recent may be later than it seems
_NOT_UNDERSTOOD = "the line table of a device link is not understood"


def dates_in(images: Iterable[bytes], since_ns: int) -> list[tuple[str, str]]:
    """The sources whose dates are in the images, each with its current date and size, empty if it is missing.

    Raises UnreadableError if they do not match the table: a source changed after `since_ns`, or may have.
    """
    found = dict.fromkeys(source for image in images for source in sources_in(image))
    dated = {path: _date_now(path, date, size, since_ns) for path, date, size in found}
    return [(path, date) for path, date in sorted(dated.items()) if date is not None]


def _date_now(path: str, date: int, size: int, since_ns: int) -> str | None:
    """The date and size of a source; None if the tool writes no dates even for existing sources."""
    now = presence.date_and_size(path)
    is_undated = not date and not size
    if now == f"{path}:{date}:{size}" if now else is_undated:
        return now
    if now and is_undated and os.stat(path).st_ctime_ns < since_ns - _CLOCK_TICK:
        return None
    raise UnreadableError(f"`{path}` changed while it was linked")


def sources_in(image: bytes) -> list[Source]:
    """The sources in the line tables; raises UnreadableError if they cannot be parsed."""
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
    # Not relocation sections, whose names have the same suffix.
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
        raise ValueError("a unit is truncated")
    return starts


def _sources_of_unit(table: bytes, start: int) -> list[Source]:
    _, version, _ = _UNIT.unpack_from(table, start)
    if version not in _VERSIONS:
        raise ValueError("the table has an unknown version")
    position = start + _UNIT.size + (5 if version == 4 else 4)
    position += table[position]  # opcode_base: this byte and one length per standard opcode
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
    """The bytes up to the next zero, and the position after it."""
    end = table.index(b"\0", position)
    return table[position:end], end + 1


def _number(table: bytes, position: int) -> tuple[int, int]:
    """A LEB128 number, and the position after it."""
    value = shift = 0
    while True:
        byte = table[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
