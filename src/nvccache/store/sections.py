"""The form of records that the hot path reads: a header line, then byte strings back to back.

    nvccache <kind> <length> <length> ... \\n <section><section>...

Part of the hot path, which cannot afford to load a parser. Lists of strings are one section, joined by
NUL bytes. Whoever reads a record checks its checksum first (store.py), so that what fails here was
written by another version or by somebody hostile: ValueError, and the record is as good as absent.
"""

from __future__ import annotations

import os

_MAGIC = b"nvccache"


def pack(kind: str, sections: list[bytes]) -> bytes:
    lengths = b" ".join([b"%d" % len(section) for section in sections])
    return b"%s %s %s\n" % (_MAGIC, kind.encode(), lengths) + b"".join(sections)


def unpack(kind: str, record: bytes, count: int) -> list[bytes]:
    """The `count` sections of a record; raises ValueError for anything else."""
    end = record.find(b"\n")
    magic, found, *lengths = record[:end].split(b" ") if end > 0 else (b"", b"")
    if magic != _MAGIC or found != kind.encode() or len(lengths) != count:
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


def split_tuples(section: bytes, width: int) -> list[tuple[str, ...]]:
    """The strings in groups of `width`; raises ValueError."""
    return in_tuples(split(section), width)


def in_tuples(strings: list[str], width: int) -> list[tuple[str, ...]]:
    """As `split_tuples`, of strings that have been split."""
    if len(strings) % width:
        raise ValueError("a tuple is cut short")
    return list(zip(*[iter(strings)] * width, strict=True))
