"""The form of an object on a remote: its name is a hash, its content an envelope with bucket, key and body.

Remotes are not trusted: an envelope must contain the requested bucket and key, respect the size limit, and
match its own digest. This detects damage, but not malice: anyone with write access can store any body under a
key. Therefore, blobs are also compared with the digest that names them (records/tiered_store.py).
"""

from __future__ import annotations

from hashlib import sha256

import zstandard

from nvccache.files import keys
from nvccache.store.sections import ASCII, BYTES, Schema

_SEALED = Schema("sealed-v2", ("bucket", ASCII), ("key", ASCII), ("digest", ASCII), ("body", BYTES))
_LEVEL = 1  # 2 ms for 12 MB; higher levels cost more time than they save on a local network


def name_of(bucket: str, key: str) -> str:
    digest = sha256(f"{bucket}/{key}".encode()).hexdigest()
    return f"2/{digest[:2]}/{digest}"


def max_sealed_size(most: int) -> int:
    """The maximum size of an envelope for a body of `most` bytes, even if zstd cannot compress it."""
    return most + most // 128 + 4096


def seal(bucket: str, key: str, body: bytes) -> bytes:
    return _SEALED.encode(
        {
            "bucket": bucket,
            "key": key,
            "digest": keys.digest_bytes(body),
            "body": zstandard.ZstdCompressor(_LEVEL).compress(body),
        }
    )


def unseal(content: bytes, bucket: str, key: str, most: int) -> bytes:
    """The body in an envelope; raises ValueError if it is damaged, for another key, or over `most` bytes."""
    sealed = _SEALED.decode(content)
    if (sealed["bucket"], sealed["key"]) != (bucket, key):
        raise ValueError("the envelope is for another name")
    try:
        # Checked first, since zstandard allocates the size that the frame claims, even beyond a given limit.
        if not 0 <= zstandard.frame_content_size(sealed["body"]) <= most:
            raise ValueError("the body is too large")
        body = zstandard.ZstdDecompressor().decompress(sealed["body"], allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise ValueError(f"the body cannot be decompressed: {error}") from None
    if keys.digest_bytes(body) != sealed["digest"]:
        raise ValueError("the body does not match its digest")
    return body
