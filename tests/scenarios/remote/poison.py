"""Entries as an attacker with write access plants them on a remote: made from real ones, by mutation.

A mutation gets what it changes, all other objects of the remote, and a source of choices. Those of RAW
change what is stored, so that a seal, a key or a digest is wrong: nothing of such an object may be used.
Those of SEALED put another content under a name and seal it correctly: of them a compile may use
what has the digest that it asks for, at its own places, and nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import zstandard

import kept_records
from nvccache.files import keys
from nvccache.store import sections, store
from scenarios.remote.sealed import Sealed

HOSTILE = b"hostile"
BOMB_BYTES = 8 << 30
_FACTS = 6  # among the sections of a result
Mutation = Callable[[Sealed, list[Sealed], random.Random], bytes]


def _bomb() -> bytes:
    """8 GiB of zeros in a frame that states its size."""
    compressor = zstandard.ZstdCompressor(level=1).compressobj(size=BOMB_BYTES)
    block = bytes(1 << 24)
    parts = [compressor.compress(block) for _ in range(BOMB_BYTES >> 24)]
    return b"".join([*parts, compressor.flush()])


class _Bomb:
    """Made once, and only when needed."""

    content = b""

    @classmethod
    def take(cls) -> bytes:
        cls.content = cls.content or _bomb()
        return cls.content


def _of_another(one: Sealed, others: list[Sealed], choose: random.Random) -> Sealed:
    return choose.choice([other for other in others if other != one])


def _of_same_bucket(one: Sealed, others: list[Sealed], choose: random.Random) -> Sealed:
    found = [other for other in others if other != one and other.bucket == one.bucket]
    return choose.choice(found or others)


def _flip(content: bytes, choose: random.Random) -> bytes:
    changed = bytearray(content or b"\0")
    changed[choose.randrange(len(changed))] ^= 1 << choose.randrange(8)
    return bytes(changed)


RAW: dict[str, Mutation] = {
    "swapped names": lambda one, all_, choose: _of_another(one, all_, choose).encode(),
    "another body": lambda one, all_, choose: replace(one, body=_of_another(one, all_, choose).body).encode(),
    "cut short": lambda one, all_, choose: one.encode()[: choose.randrange(len(one.encode()))],
    "a bomb": lambda one, all_, choose: replace(one, body=_Bomb.take()).encode(),
    "huge": lambda one, all_, choose: one.encode() + bytes(1 << 26),
}


def _blob(one: Sealed, content: bytes, choose: random.Random) -> bytes:
    """Only a blob's own digest shows whether it is valid."""
    return one.holding(choose.choice((b"r", b"c", b"x", b"")) + content).encode()


def _changed_record(one: Sealed, choose: random.Random, change: Callable[[str], str]) -> bytes:
    """Change a string of the inputs; or one of the result, and the roles of all outputs."""
    if one.bucket != store.RECORD:
        return one.holding(HOSTILE).encode()
    pairs = []
    for key, inputs, result in kept_records.pairs_in(one.content):
        read, made = sections.unpack_all("inputs-9", inputs), sections.unpack_all("result-2", result)
        if choose.random() < 0.5:
            _change_one(read, choose, change)
        else:
            roles = sections.in_tuples(sections.split(made[0]), 2)
            made[0] = sections.join([text for role, digest in roles for text in (change(role), digest)])
            _change_one(made, choose, change)
        pairs.append((key, sections.pack("inputs-9", read), sections.pack("result-2", made)))
    return one.holding(kept_records.body_of(pairs)).encode()


def _change_one(parts: list[bytes], choose: random.Random, change: Callable[[str], str]) -> None:
    number = choose.choice([number for number, part in enumerate(parts) if part])
    strings = parts[number].split(b"\0")
    place = choose.randrange(len(strings))
    strings[place] = change(strings[place].decode(errors="replace")).encode(errors="replace")
    parts[number] = b"\0".join(strings)


def _swapped_keys(one: Sealed, choose: random.Random) -> bytes:
    """The pairs of a record under other names."""
    if one.bucket != store.RECORD:
        return one.holding(HOSTILE).encode()
    pairs = kept_records.pairs_in(one.content)
    names = [keys.digest_bytes(choose.randbytes(8)).encode() for _ in pairs]
    content = kept_records.body_of([(name, *pair[1:]) for name, pair in zip(names, pairs, strict=True)])
    return one.holding(content).encode()


def _nested(one: Sealed) -> bytes:
    """Facts about a text are stored as JSON."""
    if one.bucket != store.RECORD:
        return one.holding(b"[" * 200_000).encode()
    pairs = []
    for key, inputs, result in kept_records.pairs_in(one.content):
        made = sections.unpack_all("result-2", result)
        made[_FACTS] = b"[" * 200_000
        pairs.append((key, inputs, sections.pack("result-2", made)))
    return one.holding(kept_records.body_of(pairs)).encode()


def sealed_mutations(victim: str, fifo: str) -> dict[str, Mutation]:
    """`victim` is a file that no call may read or write, `fifo` one that no call may wait for."""

    def naming(path: str) -> Mutation:
        return lambda one, all_, choose: _changed_record(one, choose, lambda _: path)

    return {
        "a hostile blob": lambda one, all_, choose: _blob(one, HOSTILE, choose),
        "of another call": lambda one, all_, choose: one.holding(
            _of_same_bucket(one, all_, choose).content
        ).encode(),
        "of another bucket": lambda one, all_, choose: one.holding(
            _of_another(one, all_, choose).content
        ).encode(),
        "another content": lambda one, all_, choose: one.holding(_flip(one.content, choose)).encode(),
        "swapped keys": lambda one, all_, choose: _swapped_keys(one, choose),
        "a victim's path": naming(victim),
        "a path upwards": naming("../../../outside"),
        "a FIFO": naming(fifo),
        "a device": naming("/dev/zero"),
        "a long name": naming("x" * 100_000),
        "brackets": lambda one, all_, choose: _nested(one),
    }
