"""Whether a file is an ELF file, and whether text in its sections can be found.

Supports only 64-bit little-endian files, which nvcc writes. Offsets and counts in a file are not trusted.
"""

from __future__ import annotations

import struct

MAGIC = b"\x7fELF"
_COMPRESSED = 0x800  # SHF_COMPRESSED
_PACKED = (b".zdebug", b".gnu.lto_", b".gnu.debuglto_")  # old compressed debug data, and LTO code
_ELF64 = MAGIC + b"\x02\x01"
# In the ELF header: offset, entry size and number of section headers, and which section has their names.
_SECTION_HEADERS = struct.Struct("<40xQ10xHHH")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")


def is_elf(path: str) -> bool:
    """Whether a file is an ELF file, as compiled programs are; raises OSError."""
    with open(path, "rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def hides_text(image: bytes) -> bool:
    """Whether a search for a file name may miss it, since sections of the ELF file are compressed."""
    if not image.startswith(_ELF64):
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
