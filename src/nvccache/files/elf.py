"""Reads ELF files: sections, symbols, and the dynamic loader of a program.

Only 64-bit little-endian files are supported, which is what nvcc makes. Offsets and counts are not trusted:
inconsistent ones raise ValueError.
"""

from __future__ import annotations

import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    Section = tuple[bytes, int, int, int]  # name, kind, offset, size
    Symbol = tuple[bytes, int]  # name, and the flags below

MAGIC = b"\x7fELF"
RELOCATABLE = 1  # ET_REL
CUDA_MACHINE = 190  # EM_CUDA: cubins
_NO_BITS = 8  # SHT_NOBITS
# Flags of a symbol: visible to other objects; only to those of the same program or library; a strong
# definition, so that linking with another one fails.
GLOBAL, HIDDEN, STRONG = 1, 2, 4
_SYMBOL_TABLE = 2  # SHT_SYMTAB
_SYMBOL = struct.Struct("<IBBHQQ")
_LOCAL_BINDING, _GLOBAL_BINDING = 0, 1  # STB_LOCAL, STB_GLOBAL
_HIDING = (1, 2)  # STV_INTERNAL, STV_HIDDEN
_IN_GROUP = 0x200  # SHF_GROUP: the linker keeps one of several such sections
_COMPRESSED = 0x800  # SHF_COMPRESSED
_PACKED = (b".zdebug", b".gnu.lto_", b".gnu.debuglto_")  # from older assemblers; LTO bytecode
_FIRST_RESERVED = 0xFF00  # SHN_LORESERVE: no section (such as common symbols), or a number stored elsewhere
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
        rows, _ = _section_rows(image)
        names = [name for name, *_ in sections(image)]
    except ValueError:
        return True
    return any(row[2] & _COMPRESSED for row in rows) or any(name.startswith(_PACKED) for name in names)


def type_and_machine(image: bytes) -> tuple[int, int]:
    """`e_type` and `e_machine` of an understood file; raises ValueError."""
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
    """Whether definitions in a section are kept whatever other objects define."""
    return 0 < section < min(len(rows), _FIRST_RESERVED) and not rows[section][2] & _IN_GROUP


def _section_rows(image: bytes) -> tuple[list[tuple[int, ...]], int]:
    """The section headers, and the index of the section with their names; raises ValueError."""
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
    """The bytes of a section; raises ValueError if the file is too short."""
    _, kind, start, size = section
    if kind == _NO_BITS:
        return b""
    if start + size > len(image):
        raise ValueError("a section past the end of the file")
    return image[start : start + size]


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
