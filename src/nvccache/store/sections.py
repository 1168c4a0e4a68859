"""The form of records that the hot path reads: a header line, then byte strings back to back.

    nvccache <kind> <length> <length> ... \\n <section><section>...

Part of the hot path, which cannot afford to load a parser. A kind of record is declared once, as a Schema:
the name and type of each section, in their order. A further field is one line there, and another name of the
kind. Whoever reads a record checks its checksum first (store.py), so that what fails here was written by
another version or by somebody hostile: ValueError, and the record is as good as absent.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    FieldType = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]

_MAGIC = b"nvccache"
_LARGEST_NUMBER = 1e9


class Schema:
    """What a kind of record consists of: the name and the type of each field."""

    __slots__ = ("_fields", "kind", "names")

    def __init__(self, kind: str, *fields: tuple[str, FieldType]) -> None:
        self.kind = kind
        self.names = tuple(name for name, _ in fields)
        self._fields = fields

    def encode(self, values: Mapping[str, Any]) -> bytes:
        """The record of these values, one for each field."""
        assert len(values) == len(self._fields), "a field has no value, or a value no field"
        return pack(self.kind, [encode(values[name]) for name, (encode, _) in self._fields])

    def decode(self, record: bytes) -> dict[str, Any]:
        """The values of a record; raises ValueError for what is no whole record of this kind."""
        parts = unpack(self.kind, record, len(self._fields))
        return {name: decode(part) for (name, (_, decode)), part in zip(self._fields, parts, strict=True)}

    def sections_of(self, record: bytes) -> dict[str, bytes]:
        """The fields of a record as they are, not decoded; raises ValueError."""
        return dict(zip(self.names, unpack(self.kind, record, len(self.names)), strict=True))

    def joined(self, fields: Mapping[str, bytes]) -> bytes:
        """The inverse of `sections_of`."""
        return pack(self.kind, [fields[name] for name in self.names])


def pack(kind: str, sections: list[bytes]) -> bytes:
    lengths = b" ".join([b"%d" % len(section) for section in sections])
    return b"%s %s %s\n" % (_MAGIC, kind.encode(), lengths) + b"".join(sections)


def unpack(kind: str, record: bytes, count: int) -> list[bytes]:
    """The `count` sections of a record; raises ValueError for anything else."""
    found = unpack_all(kind, record)
    if len(found) != count:
        raise ValueError("not such a record")
    return found


def unpack_all(kind: str, record: bytes) -> list[bytes]:
    """The sections of a record that has any number of them; raises ValueError."""
    end = record.find(b"\n")
    magic, found, *lengths = record[:end].split(b" ") if end > 0 else (b"", b"")
    if magic != _MAGIC or found != kind.encode():
        raise ValueError("not such a record")
    sections = []
    position = end + 1
    for digits in lengths:
        if not digits.isdigit() or len(digits) > 12:
            raise ValueError("a length is no number")
        sections.append(record[position : position + int(digits)])
        position += int(digits)
    if position != len(record):
        raise ValueError("the lengths do not add up")
    return sections


def join(strings: list[str]) -> bytes:
    """Strings without NUL as one section; an empty list is an empty section."""
    return os.fsencode("\0".join([*strings, ""]))


def split(section: bytes) -> list[str]:
    """The inverse of `join`; raises ValueError."""
    *strings, rest = os.fsdecode(section).split("\0")
    if rest:
        raise ValueError("a string without an end")
    return strings


def split_bytes(section: bytes) -> list[bytes]:
    """As `split`, not decoded."""
    *strings, rest = section.split(b"\0")
    if rest:
        raise ValueError("a string without an end")
    return strings


def in_tuples(strings: list[str], width: int) -> list[tuple[str, ...]]:
    """The strings in groups of `width`; raises ValueError."""
    if len(strings) % width:
        raise ValueError("a tuple is cut short")
    return list(zip(*[iter(strings)] * width, strict=True))


def tuples_of(width: int) -> FieldType:
    """The type of a list of tuples of so many strings."""
    return (
        lambda tuples: join([string for group in tuples for string in group]),
        lambda section: in_tuples(split(section), width),
    )


def decode_number(raw: bytes | float) -> float:
    """Seconds, or their like; raises ValueError for what would spoil every sum, such as nan."""
    number = float(raw)
    if not -_LARGEST_NUMBER < number < _LARGEST_NUMBER:
        raise ValueError("no such number")
    return number


# Types of fields: how a value becomes a section, and how it is had back, which raises ValueError.
BYTES: FieldType = (bytes, bytes)
STRING: FieldType = (os.fsencode, os.fsdecode)
ASCII: FieldType = (os.fsencode, lambda section: section.decode("ascii"))
STRINGS: FieldType = (join, split)
PATHS: FieldType = (join, split_bytes)  # had back as bytes, which is all that system calls want
PAIRS: FieldType = tuples_of(2)
TRIPLES: FieldType = tuples_of(3)
NUMBER: FieldType = (lambda number: f"{number:.6f}".encode(), decode_number)
FLAG: FieldType = (lambda flag: b"1" if flag else b"", bool)
