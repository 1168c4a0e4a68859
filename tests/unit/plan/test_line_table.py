"""Line tables: which sources' dates they hold, and whether these are still so."""

from __future__ import annotations

import os
import struct
import time

import pytest

from nvccache.plan.line_table import dates_in, sources_in
from nvccache.records.input_records import UnreadableError


def image(table: bytes, name: bytes = b".debug_line") -> bytes:
    """An ELF file with one section of this name and content."""
    names = b"\0" + name + b"\0"
    start = 64
    head = b"\x7fELF\x02\x01".ljust(40, b"\0") + struct.pack("<Q", start + len(names) + len(table))
    head = head.ljust(58, b"\0") + struct.pack("<HHH", 64, 2, 1)
    row = struct.Struct("<IIQQQQIIQQ")
    rows = row.pack(1, 1, 0, 0, start + len(names), len(table), 0, 0, 1, 0)
    rows += row.pack(0, 3, 0, 0, start, len(names), 0, 0, 1, 0)
    return head.ljust(start, b"\0") + names + table + rows


def unit(*files: tuple[bytes, int, bytes], version: int = 2) -> bytes:
    """A table of files: name, number of the directory, and encoded date and size."""
    listed = b"".join(name + b"\0" + bytes([directory]) + dates for name, directory, dates in files)
    lengths = bytes([3, 0, 1])  # of opcodes 1 and 2
    rest = b"\1\1\xfb\x0e" + lengths + b"/dir\0other\0\0" + listed + b"\0"
    head = struct.pack("<HI", version, len(rest))
    return struct.pack("<I", len(head + rest)) + head + rest


NONE = b"\0\0"
DATED = b"\x80\xc0\xe2\xdd\x03\x90\x01"  # 1001955328 and 144


def test_every_file_of_every_unit_is_found():
    table = unit((b"a.cu", 1, DATED), (b"b.h", 2, NONE)) + unit((b"c.h", 0, NONE), (b"/d.h", 1, NONE))
    assert sources_in(image(table)) == [
        ("/dir/a.cu", 1001955328, 144),
        ("other/b.h", 0, 0),
        ("c.h", 0, 0),
        ("/d.h", 0, 0),
    ]
    assert sources_in(image(table, b".nv.merc.debug_line")) == sources_in(image(table))


def test_there_may_be_none():
    assert sources_in(image(unit())) == []
    assert sources_in(image(unit((b"a.cu", 1, DATED)), b".debug_info")) == []
    assert sources_in(b"no image") == []


@pytest.mark.parametrize(
    "content",
    [
        image(unit((b"a.cu", 1, NONE), version=5)),
        image(unit((b"a.cu", 9, NONE))),
        image(unit((b"a.cu", 1, NONE))[:-4]),
        b"an archive with .debug_line in it",
    ],
)
def test_what_is_not_understood_is_refused(content):
    with pytest.raises(UnreadableError):
        sources_in(content)


def listed(path: str, date: int, size: int) -> bytes:
    return image(unit((path.encode(), 0, number(date) + number(size))))


def number(value: int) -> bytes:
    """As LEB128."""
    digits = []
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])


@pytest.fixture
def source(tmp_path) -> str:
    """A file created a while ago."""
    path = tmp_path / "a.cu"
    path.write_text("text")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    time.sleep(0.12)
    return str(path)


def test_a_source_counts_with_its_date_and_size(source):
    held = listed(source, 1_000_000_000, 4)
    assert dates_in([held, held, b""], time.time_ns()) == [(source, f"{source}:1000000000:4")]


def test_a_missing_source_counts_as_missing(source):
    os.unlink(source)
    assert dates_in([listed(source, 0, 0)], time.time_ns()) == [(source, "")]


def test_a_source_that_the_tool_does_not_date_does_not_count(source):
    assert dates_in([listed(source, 0, 0)], time.time_ns()) == []
    os.utime(source, (0, 0))
    os.truncate(source, 0)
    os.utime(source, (0, 0))
    assert dates_in([listed(source, 0, 0)], time.time_ns()) == [(source, f"{source}:0:0")], "or it does"


@pytest.mark.parametrize(("date", "size"), [(1_000_000_001, 4), (1_000_000_000, 5), (0, 4)])
def test_a_source_that_changed_while_it_was_linked_is_refused(source, date, size):
    with pytest.raises(UnreadableError):
        dates_in([listed(source, date, size)], time.time_ns())


def test_a_source_that_appeared_or_vanished_while_it_was_linked_is_refused(source):
    started = time.time_ns()
    os.rename(source, source + ".moved")
    with pytest.raises(UnreadableError):
        dates_in([listed(source, 1_000_000_000, 4)], started)
    os.rename(source + ".moved", source)
    with pytest.raises(UnreadableError):
        dates_in([listed(source, 0, 0)], started)
