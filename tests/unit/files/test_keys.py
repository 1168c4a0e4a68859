"""Keys: what is told apart, and that a digest names nothing but bytes."""

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


def test_sequences_that_differ_in_any_way_have_different_keys():
    found = [_key(*sections) for sections in DIFFERENT]
    for first, second in itertools.combinations(found, 2):
        assert first != second


def test_equal_sequences_have_equal_keys():
    assert [_key(*sections) for sections in DIFFERENT] == [_key(*sections) for sections in DIFFERENT]


def test_the_kind_of_a_key_is_part_of_it():
    assert _key(kind="stage") != _key(kind="tool")


def test_a_text_and_its_bytes_are_the_same_part():
    assert _key(("file", "ünï")) == _key(("file", "ünï".encode()))


def test_names_that_are_not_utf8_can_be_parts():
    assert _key(("file", "\udcff.cu")) != _key(("file", "\udcfe.cu"))


def test_a_key_is_the_same_in_every_process_and_release():
    assert _key(("file", "a.cu", b"\xff"), ("none",)) == "be1297b6b264f548e508f12b941c297f"


@pytest.mark.parametrize("size", [1, 1 << 14, (1 << 14) + 1, 1 << 17])
def test_large_parts_are_told_apart_like_small_ones(size):
    content = bytes(size)
    assert _key(("body", content), ("file", "a")) == _key(("body", content), ("file", "a"))
    others = [("body", content[:-1] + b"x"), ("body", content[:-1]), ("body", content, b""), ("bod", content)]
    found = {_key(("body", content)), *map(_key, others)}
    found |= {_key(("body", content), ("file", "a")), _key(("file", "a"), ("body", content))}
    assert len(found) == 7


def test_a_key_is_32_hexadecimal_digits():
    assert len(_key()) == 32
    int(_key(), 16)


def test_the_digest_of_a_file_is_that_of_its_bytes(tmp_path):
    path = tmp_path / "large"
    content = bytes(range(256)) * 10_000  # more than one read
    path.write_bytes(content)
    assert keys.digest_file(str(path)) == keys.digest_bytes(content)


def test_the_digest_of_a_missing_file_raises(tmp_path):
    with pytest.raises(FileNotFoundError):
        keys.digest_file(str(tmp_path / "missing"))


def test_a_digest_is_the_same_in_every_process_and_release():
    assert keys.digest_bytes(b"") == "99aa06d3014798d86001c324468d497f"
