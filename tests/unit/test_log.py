"""The log: one line for each line of any message, no call disturbed, and no secrets shown."""

from __future__ import annotations

import os
import stat

import pytest

from nvccache import log
from nvccache.log import printable


def test_control_characters_in_a_log_line_are_escaped_and_a_new_log_is_private(tmp_path):
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_text("")
    old.chmod(0o644)
    head = f"[{os.getpid()}] "
    for path, mode in ((new, 0o600), (old, 0o644)):
        log.write(str(path), "bypass \x1b[2J a\n[1] direct hit /x.o", "second\r\udcff")
        assert path.read_text() == f"{head}bypass \\x1b[2J a\\n[1] direct hit /x.o\n{head}second\\r\\xff\n"
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_an_unwritable_log_is_silently_ignored(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in ("", str(tmp_path), str(tmp_path / "fifo"), str(tmp_path / "absent" / "log"), "/dev/full"):
        log.write(path, "message")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *((text, text) for text in ("", "/home/müller/日本 x.cu", "-DX=\\n")),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\r\tc\0", "a\\nb\\r\\tc\\x00"),
        ("\x7f\x85\x9b31m", "\\x7f\\x85\\x9b31m"),
        ("a\u202ecb\u2066\u200f", "a\\u202ecb\\u2066\\u200f"),
        ("a\u2028b\u00a0", "a\\u2028b\\xa0"),
        ("\U000e0041\ud800", "\\U000e0041\\ud800"),
        (os.fsdecode(b"\xff\x9b\x80") + "\udd00\udc7f", "\\xff\\x9b\\x80\\udd00\\udc7f"),
    ],
)
def test_terminal_control_characters_are_escaped(text, shown):
    assert printable(text) == shown and shown.isprintable()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_80,code=sm_80"),
        ("-DNDEBUG", "-DNDEBUG"),
        ("-I/opt/a=b", "-I/opt/a=b"),
        ("a-DX=1.cu", "a-DX=1.cu"),
        ("-DKEY=s3cret", "-DKEY=…"),
        ("-D KEY=s3cret", "-D KEY=…"),
        ("--define-macro=KEY=s3cret", "--define-macro=KEY=…"),
        ("-DA=1,KEY=s3cret", "-DA=…"),
        ("-Xcompiler -fPIC,-DKEY=s3cret,-Wall", "-Xcompiler -fPIC,-DKEY=…"),
        ('-Xcompiler -DKEY="s3cret, and more" -O2', "-Xcompiler -DKEY=…"),
        ("-DK  s3cret", "-DK…"),
        ("--define-macro=K\ts3cret", "--define-macro=K…"),
        ("-DF(a, b)=s3cret", "-DF(a, b)=…"),
        ("-DF('s3cret') s3cret", "-DF…"),
        ("RuntimeError: ['-c', '-DKEY=s3cret', 's3cret']", "RuntimeError: ['-c', '-DKEY=…"),
    ],
)
def test_macro_values_are_hidden_in_shown_arguments(text, shown):
    assert log.hide(text) == shown


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        ("--token=s3cret", "--token=…"), ("-x s3cret", "-x…"), ("-pthread", "-pthread"),
        ("no command writes the product", "no command writes the product"),
        ('gcc -D"KEY=s3 \\"cret" -E', 'gcc -D"KEY=…'),
    ],
)  # fmt: skip
def test_bypass_details_show_no_option_values(detail, shown):
    """It may come from an option file."""
    assert log.hide_detail(detail) == shown
