"""Keys: what they distinguish, and that a digest names nothing but bytes."""

from __future__ import annotations

import itertools

import pytest

from nvccache.files import keys


def _key(*components: tuple[str | bytes, ...], kind: str = "test") -> str:
    return keys.key_of(kind, [(str(tag), parts) for tag, *parts in components])


DIFFERENT = [
    [("words", "-I", "-O2")],
    [("words", "-I-O2")],
    [("words", "-I -O2")],
    [("words", "-O2", "-I")],
    [("words", "-I"), ("words", "-O2")],
    [("words", "-I"), ("files", "-O2")],
    [("words", "-I", "-O2", "")],
    [("words", "", "-I", "-O2")],
    [("words",)],
    [],
    [("words", "")],
    [("words1", ";")],
    [("word", "s1;")],
    [("words", "2:-I3:-O2")],
]


def test_keys_of_different_sequences_of_parts_differ():
    found = [_key(*sections) for sections in DIFFERENT]
    for first, second in itertools.combinations(found, 2):
        assert first != second


def test_a_key_takes_a_text_and_its_utf8_bytes_as_the_same():
    assert _key(("file", "ünï")) == _key(("file", "ünï".encode()))
    assert _key(("file", "\udcff.cu")) != _key(("file", "\udcfe.cu"))


def test_keys_and_digests_are_the_same_in_every_process_and_release():
    key = _key(("file", "a.cu", b"\xff"), ("none",))
    assert key == "a167ece2387d34018ec7d8173aea140517dad126234c2cb3a1eca0b881070291"
    empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    assert keys.digest_bytes(b"") == empty
    assert len(key) == keys.LENGTH


@pytest.mark.parametrize("size", [1, 1 << 14, (1 << 14) + 1, 1 << 17])
def test_keys_differ_with_content_of_any_size(size):
    content = bytes(size)
    assert _key(("body", content), ("file", "a")) == _key(("body", content), ("file", "a"))
    others = [("body", content[:-1] + b"x"), ("body", content[:-1]), ("body", content, b""), ("bod", content)]
    found = {_key(("body", content)), *map(_key, others)}
    found |= {_key(("body", content), ("file", "a")), _key(("file", "a"), ("body", content))}
    assert len(found) == 7


def test_digesting_a_file_gives_the_digest_of_its_bytes(tmp_path):
    path = tmp_path / "large"
    content = bytes(range(256)) * 10_000  # more than one read
    path.write_bytes(content)
    assert keys.digest_file(str(path)) == keys.digest_bytes(content)


@pytest.mark.parametrize("sizes", [(), (5,), (1 << 14,), (3, 1 << 14, 1 << 15, 0, 7), (0, 1 << 15, 0)])
def test_the_digest_of_lines_is_that_of_their_joined_text(sizes):
    lines = [b"%d" % (index % 10) * size for index, size in enumerate(sizes)]
    assert keys.digest_of_lines(map(memoryview, lines)) == keys.digest_bytes(b"\n".join(lines))
