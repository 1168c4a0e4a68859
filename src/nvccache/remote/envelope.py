"""What lies on a remote: a name that nobody can foresee another content for, and a body sealed with its key.

A remote is trusted with nothing: what comes from it must echo the bucket and the key that were asked for, be
as large as was allowed, and have the digest that it claims. Whoever may write to the remote can still seal
what they like under a key; what blobs are worth is checked by who knows their digest.
"""

from __future__ import annotations

from hashlib import sha256

import zstandard

from nvccache.files import keys
from nvccache.store.sections import ASCII, BYTES, Schema

_SEALED = Schema(
    "sealed-v1", ("bucket", ASCII), ("key", ASCII), ("digest", ASCII), ("size", ASCII), ("body", BYTES)
)
_LEVEL = 1  # 2 ms for 12 MB; the levels above cost more than the transfer that they save in a local network
_DIGITS = 12
OVERHEAD = 1 << 12  # bytes that a sealed body has beyond its own at most, also one that zstd cannot shrink


def name_of(bucket: str, key: str) -> str:
    """The name on a remote."""
    digest = sha256(f"{bucket}/{key}".encode()).hexdigest()
    return f"1/{digest[:2]}/{digest}"


def most_sealed(most: int) -> int:
    """How large the envelope of a body of `most` bytes can be."""
    return most + most // 128 + OVERHEAD


def seal(bucket: str, key: str, body: bytes) -> bytes:
    return _SEALED.encode(
        {
            "bucket": bucket,
            "key": key,
            "digest": keys.digest_bytes(body),
            "size": str(len(body)),
            "body": zstandard.ZstdCompressor(_LEVEL).compress(body),
        }
    )


def unseal(content: bytes, bucket: str, key: str, most: int) -> bytes:
    """The body, of `most` bytes at most; raises ValueError for what is not this body whole."""
    sealed = _SEALED.decode(content)
    if (sealed["bucket"], sealed["key"]) != (bucket, key):
        raise ValueError("it was sealed under another name")
    digits = sealed["size"]
    if not digits.isdecimal() or len(digits) > _DIGITS or int(digits) > most:
        raise ValueError("it claims to be too large")
    body = _decompress(sealed["body"], int(digits))
    if keys.digest_bytes(body) != sealed["digest"]:
        raise ValueError("its digest is another one")
    return body


def echo(content: bytes) -> tuple[str, str]:
    """The bucket and the key that a body claims to be sealed under; raises ValueError."""
    sealed = _SEALED.decode(content)
    return sealed["bucket"], sealed["key"]


def _decompress(compressed: bytes, size: int) -> bytes:
    try:
        # zstandard makes room for what the frame itself claims, whatever limit it is given.
        if zstandard.frame_content_size(compressed) != size:
            raise ValueError("the frame claims another size")
        body = zstandard.ZstdDecompressor().decompress(compressed, size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise ValueError(f"it cannot be decompressed: {error}") from None
    if len(body) != size:
        raise ValueError("it has another size")
    return body
