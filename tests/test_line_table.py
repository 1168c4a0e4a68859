"""Line tables: whether they hold dates, and what is taken to hold some."""

from __future__ import annotations

import struct

from nvccache.line_table import holds_dates


def image(table: bytes, name: bytes = b".debug_line") -> bytes:
    """An ELF file with one section, whose name and content these are."""
    names = b"\0" + name + b"\0"
    start = 64
    head = b"\x7fELF\x02\x01".ljust(40, b"\0") + struct.pack("<Q", start + len(names) + len(table))
    head = head.ljust(58, b"\0") + struct.pack("<HHH", 64, 2, 1)
    row = struct.Struct("<IIQQQQIIQQ")
    rows = row.pack(1, 1, 0, 0, start + len(names), len(table), 0, 0, 1, 0)
    rows += row.pack(0, 3, 0, 0, start, len(names), 0, 0, 1, 0)
    return head.ljust(start, b"\0") + names + table + rows


def unit(*dates: bytes, version: int = 2) -> bytes:
    files = b"".join(b"a.cu\0" + b"\1" + date + b"\x90\x01" for date in dates)
    lengths = bytes([3, 0, 1])  # of opcodes 1 and 2
    rest = b"\1\1\xfb\x0e" + lengths[:1] + lengths[1:] + b"/dir\0other\0\0" + files + b"\0"
    head = struct.pack("<HI", version, len(rest))
    return struct.pack("<I", len(head + rest)) + head + rest


def test_a_date_is_found_in_any_file_of_any_unit():
    assert holds_dates(image(unit(b"\x80\xc0\xe2\xdd\x03")))
    assert holds_dates(image(unit(b"\0") + unit(b"\0", b"\x01")))


def test_there_may_be_none():
    assert not holds_dates(image(unit(b"\0") + unit(b"\0", b"\0")))
    assert not holds_dates(image(unit(b"\x01"), b".debug_info"))
    assert not holds_dates(b"no image")


def test_what_is_not_understood_may_hold_some():
    assert holds_dates(image(unit(b"\0", version=5)))
    assert holds_dates(image(unit(b"\0")[:-6]))
    assert holds_dates(b"an archive with .debug_line in it")
