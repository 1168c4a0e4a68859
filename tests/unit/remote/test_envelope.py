"""Sealed content opens only under its own name, whole, and within the size limit."""

from __future__ import annotations

from hashlib import sha256

import pytest
import zstandard

from nvccache.files import keys
from nvccache.remote import envelope
from nvccache.store import sections

KEY = "ab" * 32
BODY = b"a body " * 1000
MOST = 10**6


@pytest.mark.parametrize("body", [b"", b"x", BODY, bytes(range(256)) * 10])
def test_a_sealed_remote_object_is_unsealed_to_the_same_body(body):
    content = envelope.seal("blob", KEY, body)
    assert envelope.unseal(content, "blob", KEY, len(body)) == body
    assert len(content) <= envelope.max_sealed_size(len(body))


def test_the_name_of_a_remote_object_is_a_hash_of_bucket_and_key():
    digest = sha256(f"blob/{KEY}".encode()).hexdigest()
    assert envelope.name_of("blob", KEY) == f"2/{digest[:2]}/{digest}"


def test_any_changed_byte_of_an_envelope_is_detected():
    content = envelope.seal("blob", KEY, BODY)
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1
        for broken in (bytes(changed), content[:position]):
            try:
                assert envelope.unseal(broken, "blob", KEY, MOST) == BODY
            except ValueError:
                continue


def _crafted(body, digest_of=BODY):
    """What an attacker seals."""
    return sections.pack("sealed-v2", [b"blob", KEY.encode(), keys.digest_bytes(digest_of).encode(), body])


compress = zstandard.ZstdCompressor().compress
_WITHOUT_SIZE = zstandard.ZstdCompressor(write_content_size=False).compress
REFUSED = {
    "another bucket": (envelope.seal("stage", KEY, BODY), "another name"),
    "another key": (envelope.seal("blob", "cd" * 32, BODY), "another name"),
    "a byte too much": (envelope.seal("blob", KEY, bytes(MOST + 1)), "too large"),
    "a bomb of unknown size": (_crafted(_WITHOUT_SIZE(bytes(10**7))), "too large"),
    "a wrong digest": (_crafted(compress(BODY), digest_of=b"x"), "digest"),
    "something behind the body": (_crafted(compress(BODY) + b"more"), "decompress"),
    "nothing": (b"", "not a record"),
    "a page of a proxy": (b"<html>", "not a record"),
    "too few parts": (b"nvccache sealed-v2 1 1\nxx", "not a record"),
}


@pytest.mark.parametrize(("content", "message"), REFUSED.values(), ids=REFUSED)
def test_a_damaged_or_foreign_remote_object_is_refused(content, message):
    with pytest.raises(ValueError, match=message):
        envelope.unseal(content, "blob", KEY, MOST)
