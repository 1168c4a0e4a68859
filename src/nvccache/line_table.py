"""Whether the line table of a cubin holds the dates of sources, as ptxas up to CUDA 13.2 writes them.

With -dlto nvlink compiles code whose sources it cannot name before; so the result is looked at.
"""

from __future__ import annotations

import struct

_ELF = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_SECTION = struct.Struct("<IIQQQQIIQQ")
_UNIT = struct.Struct("<IHI")  # length of the unit, version, length of the header
_VERSIONS = (2, 3, 4)
_NAME = b".debug_line"


def holds_dates(image: bytes) -> bool:
    """Also true where that cannot be told."""
    if not image.startswith(_ELF):
        return _NAME in image
    try:
        return any(_unit_holds_dates(table, start) for table in _tables(image) for start in _units(table))
    except (struct.error, IndexError, ValueError):
        return True


def _tables(image: bytes) -> list[bytes]:
    (start,) = struct.unpack_from("<Q", image, 40)
    size, count, names = struct.unpack_from("<HHH", image, 58)
    headers = [_SECTION.unpack_from(image, start + index * size) for index in range(count)]
    strings = headers[names][4]
    found = []
    for header in headers:
        at = strings + header[0]
        if image[at : image.index(b"\0", at)] == _NAME:
            found.append(image[header[4] : header[4] + header[5]])
    return found


def _units(table: bytes) -> list[int]:
    starts = []
    position = 0
    while position < len(table):
        starts.append(position)
        position += 4 + int(struct.unpack_from("<I", table, position)[0])
    return starts


def _unit_holds_dates(table: bytes, start: int) -> bool:
    _, version, _ = _UNIT.unpack_from(table, start)
    if version not in _VERSIONS:
        return True
    position = start + _UNIT.size + (5 if version == 4 else 4)
    position += table[position]  # as many lengths as there are opcodes, but for one
    while table[position]:
        position = table.index(b"\0", position) + 1  # directories
    position += 1
    while table[position]:
        position = table.index(b"\0", position) + 1  # a file, its directory, its date and its size
        _, position = _number(table, position)
        date, position = _number(table, position)
        _, position = _number(table, position)
        if date:
            return True
    return False


def _number(table: bytes, position: int) -> tuple[int, int]:
    """A LEB128 number, and where it ends."""
    value = shift = 0
    while True:
        byte = table[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
