"""What people are shown: printable on one line, whatever it was made of."""

from __future__ import annotations

import os

import pytest

from nvccache.log import printable


@pytest.mark.parametrize("text", ["", "a b", "/home/müller/x.cu", "日本.cu", "-DX=\\n", "`x`"])
def test_what_is_printable_stays_as_it_is(text):
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\r\tc\0", "a\\nb\\r\\tc\\x00"),
        ("\x7f\x85\x9b31m", "\\x7f\\x85\\x9b31m"),
        ("a\u202ecb\u2066\u200f", "a\\u202ecb\\u2066\\u200f"),
        ("a\u2028b\u00a0", "a\\u2028b\\xa0"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
        (os.fsdecode(b"\xff\x9b"), "\\xff\\x9b"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(text, shown):
    assert printable(text) == shown
    assert shown.isascii() and shown.isprintable()
