"""The format of records: what is packed can be unpacked, and anything else is rejected."""

from __future__ import annotations

import os
import random

import pytest

from damage import changed, shuffled, torn
from nvccache.store import sections

RECORD = sections.pack("kind-1", [b"one", b"", b"three\nlines\0"])


def unpacked(record: bytes, kind: str = "kind-1", count: int = 3) -> list[bytes] | None:
    """None for what is refused; any exception but ValueError fails the test."""
    try:
        return sections.unpack(kind, record, count)
    except ValueError:
        return None


@pytest.mark.parametrize(
    "parts",
    [
        [b""],
        [b"", b"", b""],
        [b"\n", b"nvccache kind-1 1\n", b" "],
        [bytes(range(256)), b"\0" * 1000],
    ],
)
def test_sections_come_back(parts):
    assert sections.unpack("kind-1", sections.pack("kind-1", parts), len(parts)) == parts


def test_random_sections_come_back():
    choose = random.Random(1)
    for _ in range(200):
        parts = [choose.randbytes(choose.randint(0, 40)) for _ in range(choose.randint(1, 9))]
        assert sections.unpack("k", sections.pack("k", parts), len(parts)) == parts


def test_the_form_is_what_the_module_says():
    assert RECORD == b"nvccache kind-1 3 0 12\nonethree\nlines\0"


@pytest.mark.parametrize(
    ("kind", "count"), [("kind-2", 3), ("kind-", 3), ("", 3), ("kind-1", 2), ("kind-1", 4)]
)
def test_a_record_of_another_version_is_refused(kind, count):
    assert unpacked(RECORD, kind, count) is None


def test_no_torn_record_is_taken_for_one():
    assert [record for record in torn(RECORD) if unpacked(record) is not None] == []


def test_a_changed_byte_is_refused_or_changes_one_section_alone():
    header = RECORD.index(b"\n") + 1
    for position, record in enumerate(changed(RECORD)):
        found = unpacked(record)
        if position < header:
            # Only the sum of lengths is checked here; the checksum is the store's.
            assert found is None or b"".join(found) == record[header:]
        else:
            assert found is not None
            assert (
                sum(found[index] != part for index, part in enumerate([b"one", b"", b"three\nlines\0"])) == 1
            )


def test_mangled_records_raise_nothing_but_value_errors():
    for record in shuffled(RECORD, 3000):
        found = unpacked(record)
        assert found is None or len(found) == 3


@pytest.mark.parametrize(
    "lengths",
    [
        b"-3 0 15",
        b"3 0 999999999999",
        b"3 0 9999999999999",
        b"3 0 " + b"9" * 10000,
        b"3 0 12 ",
        b"3  12",
        b"3 0 0x0c",
        b"3 0 1_2",
        b"3 0 +12",
        b"3 0 12.0",
        b"3 0 \xd9\xa1",
        b"3\t0\t12",
        b"18446744073709551619 0 12",
    ],
)
def test_lengths_that_are_no_lengths_are_refused(lengths):
    assert unpacked(b"nvccache kind-1 " + lengths + b"\nonethree\nlines\0") is None


@pytest.mark.parametrize(
    "record", [b"", b"\n", b" \n", b"nvccache\n", b"nvccache kind-1\n", b"{}", b"\0" * 9]
)
def test_what_is_no_record_is_refused(record):
    assert unpacked(record) is None


@pytest.mark.parametrize(
    "strings",
    [
        [],
        [""],
        ["", ""],
        ["a"],
        ["a b", "tab\t", "line\nend", "é", "\udcff\udc80", "\1" + "0/x"],
    ],
)
def test_strings_come_back(strings):
    assert sections.split(sections.join(strings)) == strings
    assert sections.split_bytes(sections.join(strings)) == [os.fsencode(string) for string in strings]


def test_no_two_lists_of_strings_share_a_section():
    lists = ([], [""], ["", ""], ["a"], ["a", ""], ["", "a"], ["a", "b"], ["ab"])
    assert len({sections.join(list(strings)) for strings in lists}) == len(lists)


@pytest.mark.parametrize("section", [b"a", b"a\0b", b"\0\0x"])
def test_a_string_without_an_end_is_refused(section):
    for split in (sections.split, sections.split_bytes):
        with pytest.raises(ValueError, match="not terminated"):
            split(section)


def test_tuples_come_back_in_their_width():
    assert sections.in_tuples(list("abcdef"), 3) == [("a", "b", "c"), ("d", "e", "f")]
    assert sections.in_tuples([], 2) == []


@pytest.mark.parametrize("count", [1, 2, 4, 5])
def test_a_tuple_that_is_cut_short_is_refused(count):
    with pytest.raises(ValueError, match="incomplete"):
        sections.in_tuples(["x"] * count, 3)


SCHEMA = sections.Schema(
    "made-up-1",
    ("name", sections.STRING),
    ("content", sections.BYTES),
    ("words", sections.STRINGS),
    ("paths", sections.PATHS),
    ("pairs", sections.PAIRS),
    ("triples", sections.TRIPLES),
    ("seconds", sections.NUMBER),
    ("is_so", sections.FLAG),
)
VALUES = {
    "name": "n\udcff",
    "content": b"\0\n",
    "words": ["", "x y", "\udcff"],
    "paths": [b"a", b"\xff"],
    "pairs": [("a", ""), ("b", "c")],
    "triples": [("a", "b", "c")],
    "seconds": 1.25,
    "is_so": True,
}


def test_the_fields_of_a_record_come_back_by_their_names():
    given = {**VALUES, "paths": ["a", "\udcff"]}
    assert SCHEMA.decode(SCHEMA.encode(given)) == VALUES
    nothing = {name: type(value)() for name, value in VALUES.items()}
    assert SCHEMA.decode(SCHEMA.encode(nothing)) == nothing


def test_a_value_without_a_field_and_a_field_without_a_value_are_noticed():
    with pytest.raises(AssertionError):
        SCHEMA.encode({**VALUES, "other": ""})
    with pytest.raises((AssertionError, KeyError)):
        SCHEMA.encode({name: value for name, value in VALUES.items() if name != "name"})


def test_a_damaged_record_is_refused_by_its_schema_or_has_every_field():
    whole = SCHEMA.encode({**VALUES, "paths": ["a"]})
    assert [cut for cut in torn(whole) if decoded(cut)] == []
    for record in (*changed(whole), *shuffled(whole, 2000)):
        assert decoded(record).keys() in (set(), VALUES.keys())


def decoded(record: bytes) -> dict[str, object]:
    """Nothing for what is refused; any exception but ValueError fails the test."""
    try:
        return SCHEMA.decode(record)
    except ValueError:
        return {}


@pytest.mark.parametrize(
    ("index", "section"),
    [(2, b"x"), (3, b"x"), (4, b"a\0"), (5, b"a\0b\0"), (6, b""), (6, b"many")],
)
def test_a_section_that_is_not_of_its_type_is_refused(index, section):
    parts = sections.unpack("made-up-1", SCHEMA.encode({**VALUES, "paths": ["a"]}), 8)
    parts[index] = section
    with pytest.raises(ValueError):
        SCHEMA.decode(sections.pack("made-up-1", parts))


def test_a_record_of_another_kind_is_refused():
    other = sections.Schema("made-up-2", ("name", sections.STRING))
    more = sections.Schema("made-up-1", ("name", sections.STRING))
    for schema in (other, more):
        with pytest.raises(ValueError):
            schema.decode(SCHEMA.encode({**VALUES, "paths": ["a"]}))
