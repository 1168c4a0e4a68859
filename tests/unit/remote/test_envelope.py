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


@pytest.mark.parametrize("body", [b"", b"x", BODY, bytes(range(256)) * 10])
def test_round_trip(body):
    content = envelope.seal("blob", KEY, body)
    assert envelope.unseal(content, "blob", KEY, len(body)) == body
    assert len(content) <= envelope.max_sealed_size(len(body))


def test_name():
    digest = sha256(f"blob/{KEY}".encode()).hexdigest()
    assert envelope.name_of("blob", KEY) == f"2/{digest[:2]}/{digest}"


@pytest.mark.parametrize(("bucket", "key"), [("stage", KEY), ("blob", "cd" * 32)])
def test_another_name(bucket, key):
    with pytest.raises(ValueError, match="another name"):
        envelope.unseal(envelope.seal("blob", KEY, BODY), bucket, key, 10**6)


def test_every_byte_counts():
    content = envelope.seal("blob", KEY, BODY)
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1
        for broken in (bytes(changed), content[:position]):
            try:
                assert envelope.unseal(broken, "blob", KEY, 10**6) == BODY
            except ValueError:
                continue


def test_too_large():
    with pytest.raises(ValueError, match="too large"):
        envelope.unseal(envelope.seal("blob", KEY, BODY), "blob", KEY, len(BODY) - 1)


compress = zstandard.ZstdCompressor().compress
_WITHOUT_SIZE = zstandard.ZstdCompressor(write_content_size=False).compress


@pytest.mark.parametrize(
    ("digest_of", "body", "message"),
    [
        pytest.param(BODY, compress(bytes(10**7)), "too large", id="bomb"),
        pytest.param(BODY, _WITHOUT_SIZE(bytes(10**7)), "too large", id="bomb of unknown size"),
        pytest.param(b"x", compress(BODY), "digest", id="wrong digest"),
        pytest.param(BODY, compress(BODY) + b"more", "decompress", id="something behind the body"),
    ],
)
def test_what_an_attacker_seals_is_refused(digest_of, body, message):
    content = sections.pack("sealed-v2", [b"blob", KEY.encode(), keys.digest_bytes(digest_of).encode(), body])
    with pytest.raises(ValueError, match=message):
        envelope.unseal(content, "blob", KEY, 10**6)


@pytest.mark.parametrize("content", [b"", b"garbage", b"<html>", b"nvccache sealed-v2 1 1 1 1\nxxxx"])
def test_garbage(content):
    with pytest.raises(ValueError):
        envelope.unseal(content, "blob", KEY, 10**6)
