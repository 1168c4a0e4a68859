"""Reads ELF files: whether their sections can be searched, and the dynamic loader of a program.

Only 64-bit little-endian files are supported, which is what nvcc makes. Offsets and counts are not trusted.
"""

from __future__ import annotations

import os
import struct

MAGIC = b"\x7fELF"
_COMPRESSED = 0x800  # SHF_COMPRESSED
_PACKED = (b".zdebug", b".gnu.lto_", b".gnu.debuglto_")  # from older assemblers; LTO bytecode
_ELF64 = MAGIC + b"\x02\x01"
_HEADER = 64
_PROGRAM_HEADERS = struct.Struct("<32xQ14xHH")  # in the ELF header: offset, entry size, count
_PROGRAM_HEADER = struct.Struct("<I4xQ16xQ16x")
_INTERPRETER = 3  # PT_INTERP
_LONGEST_PATH = 4096  # the kernel's limit
_MAX_OFFSET = 1 << 40
_SECTION_HEADERS = struct.Struct("<40xQ10xHHH")  # as above, and the index of the section with the names
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")


def is_understood(image: bytes) -> bool:
    return image.startswith(_ELF64)


def hides_text(image: bytes) -> bool:
    """Whether a file cannot be searched for text, since sections that may name files are compressed."""
    if not is_understood(image):
        return False
    try:
        start, size, count, names_index = _SECTION_HEADERS.unpack_from(image)
        if size != _SECTION_HEADER.size or start > len(image):
            return True
        rows = [_SECTION_HEADER.unpack_from(image, start + index * size) for index in range(count)]
        names_start, names_size = rows[names_index][4:6]
        names = image[names_start : names_start + names_size]
        sections = [names[row[0] : names.index(b"\0", row[0])] for row in rows]
    except (struct.error, IndexError, ValueError):
        return True
    return any(row[2] & _COMPRESSED for row in rows) or any(name.startswith(_PACKED) for name in sections)


def interpreter(path: str) -> str | None:
    """The dynamic loader of an executable, empty if it is static; None for other files. Raises OSError."""
    with open(path, "rb") as stream:
        header = stream.read(_HEADER)
        if not is_understood(header) or len(header) < _HEADER:
            return None
        start, size, count = _PROGRAM_HEADERS.unpack_from(header)
        if size != _PROGRAM_HEADER.size or start > _MAX_OFFSET:
            return None
        stream.seek(start)
        table = stream.read(size * count)
        if len(table) < size * count:
            return None
        for at in range(0, len(table), size):
            kind, offset, length = _PROGRAM_HEADER.unpack_from(table, at)
            if kind == _INTERPRETER:
                if offset > _MAX_OFFSET or length > _LONGEST_PATH:
                    return None
                stream.seek(offset)
                return os.fsdecode(stream.read(length).rstrip(b"\0"))
    return ""
