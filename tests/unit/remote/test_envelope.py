"""What is sealed comes back under its own name only, whole, and within the size that is allowed."""

from __future__ import annotations

from hashlib import sha256

import pytest
import zstandard

from nvccache.files import keys
from nvccache.remote import envelope
from nvccache.store import sections

KEY = "ab" * 32
BODY = b"a body " * 1000


def sealed(size, digest, body):
    return sections.pack("sealed-v1", [b"blob", KEY.encode(), digest.encode(), size.encode(), body])


@pytest.mark.parametrize("body", [b"", b"x", BODY, bytes(range(256)) * 10])
def test_round_trip(body):
    content = envelope.seal("blob", KEY, body)
    assert envelope.unseal(content, "blob", KEY, len(body)) == body
    assert len(content) <= envelope.most_sealed(len(body))


def test_name():
    digest = sha256(f"blob/{KEY}".encode()).hexdigest()
    assert envelope.name_of("blob", KEY) == f"1/{digest[:2]}/{digest}"


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


def test_bomb_that_lies_about_its_size():
    bomb = zstandard.ZstdCompressor().compress(bytes(10**7))
    with pytest.raises(ValueError, match="another size"):
        envelope.unseal(sealed("1000", keys.digest_bytes(bytes(1000)), bomb), "blob", KEY, 10**6)


def test_frame_that_does_not_say_its_size():
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(10**7))
    with pytest.raises(ValueError, match="another size"):
        envelope.unseal(sealed("1000", keys.digest_bytes(bytes(1000)), bomb), "blob", KEY, 10**6)


def test_wrong_digest():
    body = zstandard.ZstdCompressor().compress(BODY)
    with pytest.raises(ValueError, match="digest"):
        envelope.unseal(sealed(str(len(BODY)), keys.digest_bytes(b"x"), body), "blob", KEY, 10**6)


def test_something_behind_the_body():
    body = zstandard.ZstdCompressor().compress(BODY) + b"more"
    with pytest.raises(ValueError):
        envelope.unseal(sealed(str(len(BODY)), keys.digest_bytes(BODY), body), "blob", KEY, 10**6)


@pytest.mark.parametrize("content", [b"", b"garbage", b"<html>", b"nvccache sealed-v1 1 1 1 1 1\nxxxxx"])
def test_garbage(content):
    with pytest.raises(ValueError):
        envelope.unseal(content, "blob", KEY, 10**6)
