"""Digests and keys: the one owner of xxhash.

A digest names bytes (XXH3, 128 bits, 32 hexadecimal characters). A key names what a stage's result
depends on: a sequence of tagged, length-delimited parts, so that `-I -O2` and `-I-O2`, or a part
moved from one tag to another, never meet.
"""

from __future__ import annotations

import os

from xxhash import xxh3_128

from nvccache.files import untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_CHUNK = 1 << 20


def digest_bytes(content: bytes) -> str:
    return xxh3_128(content).hexdigest()


def digest_file(path: str, most: int = 0) -> str:
    """The digest of a file's bytes; raises OSError, also for no regular file or one of over `most` bytes."""
    descriptor = untrusted.open_named(path, most)
    try:
        return digest_descriptor(descriptor)
    finally:
        os.close(descriptor)


def digest_descriptor(descriptor: int) -> str:
    """The digest of what is still to be read of an open file; raises OSError."""
    return digest_chunks(iter(lambda: os.read(descriptor, _CHUNK), b""))


def digest_chunks(chunks: Iterable[bytes]) -> str:
    state = xxh3_128()
    for chunk in chunks:
        state.update(chunk)
    return state.hexdigest()


class KeyBuilder:
    """Collects the parts of one key."""

    __slots__ = ("_state",)

    def __init__(self, kind: str) -> None:
        self._state = xxh3_128()
        self.add("kind", kind)

    def add(self, tag: str, *parts: str | bytes) -> None:
        """Add the parts under a tag; their number and lengths are part of the key."""
        update = self._state.update
        update(b"%d:%s%d;" % (len(tag), tag.encode(), len(parts)))
        for part in parts:
            raw = part if isinstance(part, bytes) else os.fsencode(part)
            update(b"%d:" % len(raw))
            update(raw)

    def key(self) -> str:
        return self._state.hexdigest()


def for_terminal(key: str, terminal: str, stderr: bytes) -> str:
    """The key that a result with these diagnostics has on this terminal; see terminals.py."""
    return _on_terminal(key, terminal) if terminal and stderr else key


def possible_on_terminal(key: str, terminal: str) -> tuple[str, ...]:
    """The keys that a result may have; one under another than its own looks different on this terminal."""
    return (key, _on_terminal(key, terminal)) if terminal else (key,)


def _on_terminal(key: str, terminal: str) -> str:
    builder = KeyBuilder("on a terminal")
    builder.add("key", key)
    builder.add("terminal", terminal)
    return builder.key()
