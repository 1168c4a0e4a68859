"""The forms of sizes and times that commands print."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nvccache.cli import builds, output

ago, at, seconds, size = output.format_ago, output.format_time, output.format_seconds, output.format_size


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        (seconds, 0.00049, "0 s"), (seconds, 0.0005, "0 ms"), (seconds, 0.9994, "999 ms"),
        (seconds, 0.9995, "1.00 s"), (seconds, 59.99, "59.99 s"), (seconds, 60, "1 min 0 s"),
        (seconds, 3599.9, "59 min 59 s"), (seconds, 7384, "2 h 3 min"),
        (ago, 1.9, "just now"), (ago, 2, "2 s ago"), (ago, 86400, "1 day ago"),
        (ago, 86399.9, "23 h 59 min ago"), (ago, 2 * 86400, "2 days ago"),
        (size, 0, "0 bytes"), (size, 1, "1 byte"), (size, 1023, "1023 bytes"),
        (size, 1024, "1.0 KiB"), (size, 1 << 20, "1.0 MiB"), (size, 5 << 50, "5120.0 TiB"),
        (at, 1e20, "an unknown time"),
    ],
)  # fmt: skip
def test_sizes_and_times_are_printed_in_units_that_suit_them(form, value, text):
    assert form(value) == text


def test_long_lines_are_split_between_words_on_a_terminal_only(monkeypatch):
    line = "a word-with-hyphens `and/a/long/path/as/well`"
    assert output.wrapped(line) == [line]
    monkeypatch.setattr(output.sys, "stdout", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setenv("COLUMNS", "20")
    assert output.wrapped(line) == ["a word-with-hyphens", "    `and/a/long/path/as/well`"]
    monkeypatch.setenv("COLUMNS", "200")
    assert list(map(len, output.wrapped("x " * 60))) == [79, 43]


def test_only_quoted_paths_below_the_working_directory_are_shortened(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    text = f"`{{}}a.h` changed, `/x{tmp_path}/a.h` and {tmp_path}/b.h did not, nor `{tmp_path}`"
    assert builds.relative(text.format(f"{tmp_path}/")) == text.format("")
