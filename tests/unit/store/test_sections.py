"""The form of records: what is packed comes back, and nothing else is taken for a record."""

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
            # Lengths that add up are all that holds the sections together; the checksum is the store's.
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
        with pytest.raises(ValueError, match="without an end"):
            split(section)


def test_tuples_come_back_in_their_width():
    assert sections.split_tuples(sections.join(list("abcdef")), 3) == [("a", "b", "c"), ("d", "e", "f")]
    assert sections.split_tuples(b"", 2) == []


@pytest.mark.parametrize("count", [1, 2, 4, 5])
def test_a_tuple_that_is_cut_short_is_refused(count):
    with pytest.raises(ValueError, match="cut short"):
        sections.split_tuples(sections.join(["x"] * count), 3)
