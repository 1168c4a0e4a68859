"""Digests, keys and sums; nothing else imports blake3 and xxhash.

A digest names bytes (BLAKE3, 256 bits, LENGTH lower-case hexadecimal characters) and is collision-resistant.
A sum (XXH3, 128 bits) detects damage to our files; it takes a fifth of the time, but is easy to forge.

A key names everything a stage's result depends on: a list of components, each a tag with length-delimited
parts, so that `-I -O2` and `-I-O2` differ, and so does a part moved to another tag. difference_text.py
describes how two lists differ.
"""

from __future__ import annotations

import os

from blake3 import blake3

from nvccache.files import untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    KeyComponent = tuple[str, tuple[str | bytes, ...]]  # a tag, and the parts under it

LENGTH = 64  # characters of a digest, and of a key
_NONCE = 32  # bytes
_CHUNK = 1 << 20
_LARGE = 1 << 14  # bytes of a part that is hashed on its own, instead of copied into a buffer with others


def digest_bytes(content: bytes) -> str:
    return blake3(content).hexdigest()


def sum_of(content: bytes) -> str:
    """A sum; only for large contents, since loading xxhash takes as long as BLAKE3 of 2 MB."""
    from xxhash import xxh3_128_hexdigest

    return xxh3_128_hexdigest(content)


def sum_bytes(content: bytes) -> bytes:
    """The same as 16 bytes."""
    from xxhash import xxh3_128_digest

    return xxh3_128_digest(content)


def digest_file(path: str, max_bytes: int = 0) -> str:
    """The digest of a file; raises OSError, also if it is not a regular file or exceeds `max_bytes`."""
    descriptor = untrusted.open_named(path, max_bytes)
    try:
        return digest_descriptor(descriptor)
    finally:
        os.close(descriptor)


def digest_descriptor(descriptor: int) -> str:
    """The digest of an open file from its offset; raises OSError, also if it goes on after its size."""
    state = blake3()
    for chunk in untrusted.chunks_of(descriptor, _CHUNK):
        state.update(chunk)
    return state.hexdigest()


def key_of(kind: str, components: Iterable[KeyComponent]) -> str:
    """The key of these components; it covers the number, lengths and order of their parts.

    Join thousands of names into one part: the overhead of a part exceeds the time for its bytes.
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


def key_and_secret(kind: str, components: Sequence[KeyComponent]) -> tuple[str, str]:
    """The key of these components, and a secret, which can be computed only from the components."""
    return key_of(kind, components), key_of(f"what {kind} hides", components)


def encrypt(content: bytes, secret: str) -> bytes:
    """Encrypt a content with a secret: nonce, then the content XORed with a BLAKE3 stream.

    The nonce is a keyed digest of the content, so that no two contents share a stream.
    """
    key = bytes.fromhex(secret)
    nonce = blake3(content, key=key).digest()
    return nonce + _xor(content, blake3(nonce, key=key).digest(length=len(content)))


def decrypt(encrypted: bytes, secret: str) -> bytes:
    """The inverse of `encrypt`; raises ValueError if the secret is another one."""
    key, nonce, rest = bytes.fromhex(secret), encrypted[:_NONCE], encrypted[_NONCE:]
    content = _xor(rest, blake3(nonce, key=key).digest(length=len(rest)))
    if blake3(content, key=key).digest() != nonce:
        raise ValueError("encrypted with another secret")
    return content


def _xor(content: bytes, stream: bytes) -> bytes:
    mixed = int.from_bytes(content, "little") ^ int.from_bytes(stream, "little")
    return mixed.to_bytes(len(content), "little")
