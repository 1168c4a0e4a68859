"""Digests, keys and sums: the one owner of blake3 and xxhash.

A digest names bytes (BLAKE3, 256 bits, LENGTH lower-case hexadecimal characters); nobody can make two
contents of one digest. A sum (XXH3, 128 bits) tells a file of ours that was damaged from one that was not;
it is made in a fifth of the time, and anybody can make two contents of one sum.

A key names what a stage's result depends on: a list of components, each a tag with length-delimited parts,
so that `-I -O2` and `-I-O2`, or a part moved from one tag to another, never meet. What two such lists differ
in says difference_text.py.
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
_LARGE = 1 << 14  # bytes that are not copied to be digested together with what is around them


def digest_bytes(content: bytes) -> str:
    return blake3(content).hexdigest()


def sum_of(content: bytes) -> str:
    """What damage would change; for large contents, since xxhash takes as long to load as BLAKE3 of 2 MB."""
    from xxhash import xxh3_128_hexdigest

    return xxh3_128_hexdigest(content)


def sum_bytes(content: bytes) -> bytes:
    """The same, in its 16 bytes."""
    from xxhash import xxh3_128_digest

    return xxh3_128_digest(content)


def digest_file(path: str, most: int = 0) -> str:
    """The digest of a file's bytes; raises OSError, also for no regular file or one of over `most` bytes."""
    descriptor = untrusted.open_named(path, most)
    try:
        return digest_descriptor(descriptor)
    finally:
        os.close(descriptor)


def digest_descriptor(descriptor: int) -> str:
    """The digest of an open file, from where it stands; raises OSError, also for more than its size says."""
    state = blake3()
    for chunk in untrusted.chunks_of(descriptor, _CHUNK):
        state.update(chunk)
    return state.hexdigest()


def key_of(kind: str, components: Iterable[KeyComponent]) -> str:
    """The key of what has these components; number and lengths of their parts are in it, and their order.

    Thousands of names are better joined in one part: each part by itself takes longer than its bytes.
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


def pair_of(kind: str, components: Sequence[KeyComponent]) -> tuple[str, str]:
    """The key of what has these components, and another, which only who knows these components can tell."""
    return key_of(kind, components), key_of(f"what {kind} hides", components)


def hide(content: bytes, secret: str) -> bytes:
    """A content that only who knows this key can read: XORed with a stream of BLAKE3, behind its nonce.

    The nonce is a digest of the content under the key, so that no two contents have one stream.
    """
    key = bytes.fromhex(secret)
    nonce = blake3(content, key=key).digest()
    return nonce + _xor(content, blake3(nonce, key=key).digest(length=len(content)))


def reveal(hidden: bytes, secret: str) -> bytes:
    """What `hide` was given; raises ValueError if this is nothing that was hidden with this key."""
    key, nonce, rest = bytes.fromhex(secret), hidden[:_NONCE], hidden[_NONCE:]
    content = _xor(rest, blake3(nonce, key=key).digest(length=len(rest)))
    if blake3(content, key=key).digest() != nonce:
        raise ValueError("hidden with another key")
    return content


def _xor(content: bytes, stream: bytes) -> bytes:
    mixed = int.from_bytes(content, "little") ^ int.from_bytes(stream, "little")
    return mixed.to_bytes(len(content), "little")
