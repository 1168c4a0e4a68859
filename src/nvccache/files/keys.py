"""Digests, keys and sums. No other module imports blake3 or xxhash.

A digest is a collision-resistant name of content: BLAKE3, 256 bits, LENGTH lower-case hexadecimal characters.
A sum is a checksum (XXH3, 128 bits) against damage to files. It takes a fifth of the time, but can be forged.

A key is a digest of everything a result depends on: a list of components, each a tag with parts. The digest
covers tags and lengths, so that `-I -O2` and `-I-O2` have different keys, as have equal parts under different
tags. `nvccache explain` stores and compares the same list (explain/).
"""

from __future__ import annotations

import os

from blake3 import blake3

from nvccache.files import untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

KeyComponent = tuple[str, tuple[str | bytes, ...]]  # a tag, and the parts under it
LENGTH = 64  # characters of a digest, and of a key
SUM_LENGTH = 32  # characters of a sum, such as the name of a replay record
_CHUNK = 1 << 20
_LARGE = 1 << 14  # bytes; a larger part is hashed on its own, not copied into a buffer with others


def digest_bytes(content: bytes) -> str:
    return blake3(content).hexdigest()


def digest_of_lines(lines: Iterable[bytes | memoryview]) -> str:
    """The digest of these lines, joined by newlines. Long lines are not copied."""
    state = blake3()
    short: list[bytes | memoryview] = []
    for line in lines:
        if len(line) < _LARGE:
            short.append(line)
            continue
        state.update(b"\n".join([*short, b""]))
        state.update(line)
        short = [b""]
    state.update(b"\n".join(short))
    return state.hexdigest()


def sum_of(content: bytes) -> str:
    """The checksum of content. Below 2 MB, a digest takes less time, since xxhash must first be loaded."""
    from xxhash import xxh3_128_hexdigest

    return xxh3_128_hexdigest(content)


def sum_bytes(content: bytes) -> bytes:
    """The checksum of content, as 16 bytes."""
    from xxhash import xxh3_128_digest

    return xxh3_128_digest(content)


def digest_file(path: str, max_bytes: int = untrusted.MAX_BYTES) -> str:
    """The digest of a file; raises OSError if it is unreadable, not regular, or larger than `max_bytes`."""
    descriptor = untrusted.open_named(path, max_bytes)
    try:
        return digest_descriptor(descriptor)
    finally:
        os.close(descriptor)


def digest_descriptor(descriptor: int) -> str:
    """The digest of an open file, from its offset to its end; raises OSError, for example if it grows."""
    state = blake3()
    rest = os.fstat(descriptor).st_size
    while rest > 0 and (chunk := os.read(descriptor, min(rest, _CHUNK))):
        state.update(chunk)
        rest -= len(chunk)
    untrusted.check_at_end(descriptor)
    return state.hexdigest()


def key_of(kind: str, components: Iterable[KeyComponent]) -> str:
    """The key of these components, which depends on the number, lengths and order of their parts.

    Callers join thousands of names into one part, since a part costs more time than its bytes do.
    """
    state = blake3()
    framed = [b"4:kind1;%d:%s" % (len(kind), kind.encode())]
    for tag, parts in components:
        framed.append(b"%d:%s%d;" % (len(tag), tag.encode(), len(parts)))
        for part in parts:
            raw = part if isinstance(part, bytes) else os.fsencode(part)
            framed += (b"%d:" % len(raw), raw)
            if len(raw) > _LARGE:
                state.update(b"".join(framed[:-1]))
                state.update(raw)
                framed.clear()
    state.update(b"".join(framed))
    return state.hexdigest()
