"""The format of records that the hot path reads: a header line, followed by byte strings, the sections.

    nvccache <kind> <length> <length> ... \\n <section><section>...

Direct hits load this module, so it is part of the hot path, on which loading a parser such as json would take
too long. Each kind of record is declared as a Schema, with the name and the type of each section in order. To
add a field, add a line to the Schema and change the name of the kind. store.py verifies checksums first, so a
record that cannot be parsed was written by another version or by an attacker. Parsing such a record raises
ValueError, and callers treat it as absent.
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
    """The fields of one kind of record, with the name and the type of each."""

    __slots__ = ("_fields", "kind", "names")

    def __init__(self, kind: str, *fields: tuple[str, FieldType]) -> None:
        self.kind = kind
        self.names = tuple(name for name, _ in fields)
        self._fields = fields

    def encode(self, values: Mapping[str, Any]) -> bytes:
        """A record with these values; there must be one for each field."""
        assert len(values) == len(self._fields), "there must be one value for each field"
        return pack(self.kind, [encode(values[name]) for name, (encode, _) in self._fields])

    def decode(self, record: bytes) -> dict[str, Any]:
        """The values of a record; raises ValueError unless it is a complete record of this kind."""
        sections = self.sections_of(record)
        return {name: decode(sections[name]) for name, (_, decode) in self._fields}

    def sections_of(self, record: bytes) -> dict[str, bytes]:
        """The encoded fields of a record; raises ValueError."""
        sections = unpack(self.kind, record)
        if len(sections) != len(self.names):
            raise ValueError("not a record of this kind")
        return dict(zip(self.names, sections, strict=True))

    def joined(self, fields: Mapping[str, bytes]) -> bytes:
        """The inverse of `sections_of`."""
        return pack(self.kind, [fields[name] for name in self.names])


def pack(kind: str, sections: list[bytes]) -> bytes:
    lengths = b" ".join([b"%d" % len(section) for section in sections])
    return b"%s %s %s\n" % (_MAGIC, kind.encode(), lengths) + b"".join(sections)


def unpack(kind: str, record: bytes) -> list[bytes]:
    """The sections of a record; raises ValueError for bytes that are not a record of this kind."""
    end = record.find(b"\n")
    magic, its_kind, *lengths = record[:end].split(b" ") if end > 0 else (b"", b"")
    if magic != _MAGIC or its_kind != kind.encode():
        raise ValueError("not a record of this kind")
    sections = []
    position = end + 1
    for digits in lengths:
        if not digits.isdigit():
            raise ValueError("a length is not a number")
        sections.append(record[position : position + int(digits)])
        position += int(digits)
    if position != len(record):
        raise ValueError("the lengths of the sections do not add up")
    return sections


def join(strings: list[str]) -> bytes:
    """Join strings into a section. They must not contain NUL. Without strings, the section is empty."""
    return os.fsencode("\0".join([*strings, ""]))


def split(section: bytes) -> list[str]:
    """The inverse of `join`; raises ValueError if the section is cut off."""
    *strings, rest = os.fsdecode(section).split("\0")
    if rest:
        raise ValueError("a string is not terminated")
    return strings


def in_tuples(strings: list[str], width: int) -> list[tuple[str, ...]]:
    """The strings in groups of `width`; raises ValueError if the last group is incomplete."""
    if len(strings) % width:
        raise ValueError("a tuple is incomplete")
    return list(zip(*[iter(strings)] * width, strict=True))


def tuples_of(width: int) -> FieldType:
    """The field type for a list of tuples of `width` strings."""
    return (
        lambda tuples: join([string for group in tuples for string in group]),
        lambda section: in_tuples(split(section), width),
    )


def decode_number(raw: bytes | float) -> float:
    """A number such as seconds; raises ValueError for nan, and for numbers so large that they spoil sums."""
    number = float(raw)
    if not -_LARGEST_NUMBER < number < _LARGEST_NUMBER:
        raise ValueError("not a plausible number")
    return number


# A field type is a function that encodes a value as a section, and one that decodes it or raises ValueError.
BYTES: FieldType = (bytes, bytes)
STRING: FieldType = (os.fsencode, os.fsdecode)
ASCII: FieldType = (os.fsencode, lambda section: section.decode("ascii"))
STRINGS: FieldType = (join, split)
PAIRS: FieldType = tuples_of(2)
NUMBER: FieldType = (lambda number: f"{number:.6f}".encode(), decode_number)
