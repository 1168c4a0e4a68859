"""What becomes of records: torn, changed in one byte, or written by an attacker."""

from __future__ import annotations

import random
from collections.abc import Iterator


def torn(record: bytes) -> Iterator[bytes]:
    """The record cut off at every position, and with something behind it."""
    yield from (record[:end] for end in range(len(record)))
    yield record + b"\0"
    yield record + record


def changed(record: bytes, seed: int = 1) -> Iterator[bytes]:
    """The record with one byte changed, for every position."""
    choose = random.Random(seed)
    for position, byte in enumerate(record):
        other = choose.choice([value for value in range(256) if value != byte])
        yield record[:position] + bytes([other]) + record[position + 1 :]


def shuffled(record: bytes, count: int, seed: int = 1) -> Iterator[bytes]:
    """The record with some stretches of it removed, repeated or made up."""
    choose = random.Random(seed)
    for _ in range(count):
        mangled = bytearray(record)
        for _ in range(choose.randint(1, 4)):
            start, end = sorted(choose.choices(range(len(mangled) + 1), k=2))
            stretch = choose.choice([b"", mangled[start:end] * 2, choose.randbytes(end - start)])
            mangled[start:end] = stretch
        yield bytes(mangled)
