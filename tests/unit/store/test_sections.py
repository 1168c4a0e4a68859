"""The format of records: what is packed can be unpacked, and anything else is rejected."""

from __future__ import annotations

import pytest

from damage import changed, shuffled, torn
from nvccache.store import sections

RECORD = sections.pack("kind-1", [b"one", b"", b"three\nlines\0"])


@pytest.mark.parametrize("parts", [[b""], [b""] * 3, [b"\n", b"kind-1 1\n", b" "], [bytes(range(256))]])
def test_parts_of_a_record_survive_packing_and_unpacking(parts):
    assert sections.unpack("kind-1", sections.pack("kind-1", parts)) == parts


def test_the_packed_form_of_a_record_is_as_documented():
    assert RECORD == b"nvccache kind-1 3 0 12\nonethree\nlines\0"


@pytest.mark.parametrize(
    ("kind", "lengths"),
    [
        ("kind-2", b"3 0 12"),
        ("kind-", b"3 0 12"),
        ("kind-1", b"-3 0 15"),
        ("kind-1", b"3 0 999999999999"),
        ("kind-1", b"3 0 " + b"9" * 10000),
        ("kind-1", b"3 0 12 "),
        ("kind-1", b"3 0 1_2"),
    ],
)
def test_a_packed_record_of_another_kind_or_length_is_refused(kind, lengths):
    with pytest.raises(ValueError):
        sections.unpack(kind, b"nvccache kind-1 " + lengths + b"\nonethree\nlines\0")


@pytest.mark.parametrize("strings", [[], [""], ["", ""], ["a"], ["a b", "tab\t", "line\nend", "é", "\udcff"]])
def test_strings_in_a_record_survive_joining_and_splitting(strings):
    assert sections.split(sections.join(strings)) == strings


@pytest.mark.parametrize("section", [b"a", b"a\0b", b"\0\0x"])
def test_a_string_in_a_record_without_its_end_is_refused(section):
    with pytest.raises(ValueError, match="not terminated"):
        sections.split(section)


SCHEMA = sections.Schema(
    "made-up-1",
    ("name", sections.STRING),
    ("content", sections.BYTES),
    ("words", sections.STRINGS),
    ("pairs", sections.PAIRS),
    ("seconds", sections.NUMBER),
)
VALUES = {
    "name": "n\udcff",
    "content": b"\0\n",
    "words": ["", "x y", "\udcff"],
    "pairs": [("a", ""), ("b", "c")],
    "seconds": 1.25,
}


def test_the_fields_of_a_record_come_back_by_their_names():
    assert SCHEMA.decode(SCHEMA.encode(VALUES)) == VALUES
    nothing = {name: type(value)() for name, value in VALUES.items()}
    assert SCHEMA.decode(SCHEMA.encode(nothing)) == nothing


def test_encoding_a_record_with_a_missing_or_extra_field_raises():
    with pytest.raises(AssertionError):
        SCHEMA.encode({**VALUES, "other": ""})
    with pytest.raises((AssertionError, KeyError)):
        SCHEMA.encode({name: value for name, value in VALUES.items() if name != "name"})


def test_decoding_a_damaged_record_raises_valueerror_or_gives_every_field():
    whole = SCHEMA.encode(VALUES)
    assert [cut for cut in torn(whole) if decoded(cut)] == []
    for record in (*changed(whole), *shuffled(whole, 2000)):
        assert decoded(record).keys() in (set(), VALUES.keys())


def decoded(record: bytes) -> dict[str, object]:
    """Nothing for what is refused; any exception but ValueError fails the test."""
    try:
        return SCHEMA.decode(record)
    except ValueError:
        return {}


@pytest.mark.parametrize(("index", "section"), [(2, b"x"), (3, b"a\0"), (4, b""), (4, b"many")])
def test_a_field_of_a_record_of_another_type_is_refused(index, section):
    parts = sections.unpack("made-up-1", SCHEMA.encode(VALUES))
    parts[index] = section
    with pytest.raises(ValueError):
        SCHEMA.decode(sections.pack("made-up-1", parts))
