"""What is read of ELF files: their sections and symbols, and the dynamic loader that a program names.

Only 64-bit little-endian files are understood, as nvcc makes them. Whatever an offset or a count of a file
claims, nothing but that file is read, and what does not fit together is a ValueError.
"""

from __future__ import annotations

import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    Section = tuple[bytes, int, int, int]  # name, kind, offset, size
    Symbol = tuple[bytes, int]  # name, and which of the flags below are set

MAGIC = b"\x7fELF"
RELOCATABLE = 1  # ET_REL
CUDA_MACHINE = 190  # EM_CUDA: cubins
PROGRAM_BITS = 1  # SHT_PROGBITS
_NO_BITS = 8  # SHT_NOBITS
# Of a symbol: seen by other objects; only by those of the same program or library; defined in this object in
# such a way that a link with another that defines it fails.
GLOBAL, HIDDEN, STRONG = 1, 2, 4
_SYMBOL_TABLE = 2  # SHT_SYMTAB
_SYMBOL = struct.Struct("<IBBHQQ")
_LOCAL_BINDING, _GLOBAL_BINDING = 0, 1  # STB_LOCAL, STB_GLOBAL
_HIDING = (1, 2)  # STV_INTERNAL, STV_HIDDEN
_IN_GROUP = 0x200  # SHF_GROUP: of several such sections a link takes one
_COMPRESSED = 0x800  # SHF_COMPRESSED
_PACKED = (b".zdebug", b".gnu.lto_", b".gnu.debuglto_")  # by older assemblers; code for a link
_FIRST_RESERVED = 0xFF00  # SHN_LORESERVE: of no section, as common symbols, or of one with a larger number
_UNDERSTOOD = MAGIC + b"\x02\x01"
_HEADER = 64
_PROGRAM_HEADERS = struct.Struct("<32xQ14xHH")  # in the file's header: where, size of one, how many
_PROGRAM_HEADER = struct.Struct("<I4xQ16xQ16x")
_INTERPRETER = 3  # PT_INTERP
_LONGEST_PATH = 4096  # the kernel's limit
_FARTHEST = 1 << 40  # of what is looked for in a file
_SECTION_HEADERS = struct.Struct("<40xQ10xHHH")  # as above, and which one holds the names
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")


def is_understood(image: bytes) -> bool:
    return image.startswith(_UNDERSTOOD)


def hides_text(image: bytes) -> bool:
    """Whether text in a file cannot be looked for: sections that may name files are compressed."""
    if not is_understood(image):
        return False
    try:
        rows, _ = _section_rows(image)
        names = [name for name, *_ in sections(image)]
    except ValueError:
        return True
    return any(row[2] & _COMPRESSED for row in rows) or any(name.startswith(_PACKED) for name in names)


def type_and_machine(image: bytes) -> tuple[int, int]:
    """What the header of an understood file says it is; raises ValueError."""
    try:
        kind, machine = struct.unpack_from("<HH", image, 16)
    except struct.error as error:
        raise ValueError(str(error)) from None
    return kind, machine


def sections(image: bytes) -> list[Section]:
    """The sections of an understood file; raises ValueError."""
    rows, names_index = _section_rows(image)
    names = content_of(image, (b"", *_kind_and_extent(rows[names_index])))
    return [(names[row[0] : names.index(b"\0", row[0])], *_kind_and_extent(row)) for row in rows]


def symbols(image: bytes) -> list[Symbol]:
    """The symbols of an understood file; raises ValueError."""
    rows, _ = _section_rows(image)
    found = []
    for row in rows:
        if row[1] != _SYMBOL_TABLE:
            continue
        table = content_of(image, (b"", *_kind_and_extent(row)))
        if row[6] >= len(rows) or len(table) % _SYMBOL.size:
            raise ValueError("an unusual symbol table")
        names = content_of(image, (b"", *_kind_and_extent(rows[row[6]])))
        for start, kind, other, section, _, _ in _SYMBOL.iter_unpack(table):
            flags = 0 if kind >> 4 == _LOCAL_BINDING else GLOBAL
            flags |= HIDDEN if other & 3 in _HIDING else 0
            flags |= STRONG if kind >> 4 == _GLOBAL_BINDING and _is_ordinary(section, rows) else 0
            found.append((names[start : names.index(b"\0", start)], flags))
    return found


def _is_ordinary(section: int, rows: list[tuple[int, ...]]) -> bool:
    """Whether what is defined in a section is defined there whatever other objects hold."""
    return 0 < section < min(len(rows), _FIRST_RESERVED) and not rows[section][2] & _IN_GROUP


def _section_rows(image: bytes) -> tuple[list[tuple[int, ...]], int]:
    """The section headers, and which of them is the section with their names."""
    try:
        start, size, count, names_index = _SECTION_HEADERS.unpack_from(image)
        if size != _SECTION_HEADER.size or not 0 < names_index < count or start > len(image):
            raise ValueError("an unusual section table")
        rows = [_SECTION_HEADER.unpack_from(image, start + index * size) for index in range(count)]
    except struct.error as error:
        raise ValueError(str(error)) from None
    return rows, names_index


def _kind_and_extent(row: tuple[int, ...]) -> tuple[int, int, int]:
    return row[1], row[4], row[5]


def content_of(image: bytes, section: Section) -> bytes:
    """The bytes of a section; raises ValueError where the file ends before."""
    _, kind, start, size = section
    if kind == _NO_BITS:
        return b""
    if start + size > len(image):
        raise ValueError("a section beyond the end")
    return image[start : start + size]


def interpreter(path: str) -> str | None:
    """The dynamic loader that an executable names: empty if it needs none, None for what is no executable.

    Raises OSError.
    """
    with open(path, "rb") as stream:
        header = stream.read(_HEADER)
        if not is_understood(header) or len(header) < _HEADER:
            return None
        start, size, count = _PROGRAM_HEADERS.unpack_from(header)
        if size != _PROGRAM_HEADER.size or start > _FARTHEST:
            return None
        stream.seek(start)
        table = stream.read(size * count)
        if len(table) < size * count:
            return None
        for at in range(0, len(table), size):
            kind, offset, length = _PROGRAM_HEADER.unpack_from(table, at)
            if kind == _INTERPRETER:
                if offset > _FARTHEST or length > _LONGEST_PATH:
                    return None
                stream.seek(offset)
                return os.fsdecode(stream.read(length).rstrip(b"\0"))
    return ""
