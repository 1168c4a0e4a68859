"""Line markers: which files a pass names, in which order, and lines that are no markers."""

from __future__ import annotations

import pytest

from nvccache import passes
from nvccache.passes import listed_files


def test_files_are_listed_in_the_order_in_which_they_are_first_entered():
    text = b'# 1 "a.cu"\nint a;\n# 1 "b.h" 1\n# 1 "c.h" 1 3\n# 2 "b.h" 2\n# 2 "a.cu" 2\n# 1 "b.h" 1\n'
    assert listed_files(text) == [(b"a.cu", False), (b"b.h", False), (b"c.h", True)]


def test_a_line_marker_in_the_middle_of_a_file_lists_no_file():
    assert listed_files(b'# 0 "a.cu"\n# 100 "bogus.y"\nint x;\n') == [(b"a.cu", False)]


@pytest.mark.parametrize(
    ("name", "is_absolute"),
    [("/a.h", True), ("<built-in>", True), ("<command-line>", True), ("/p//", True), ("a.h", False),
     ("../a.h", False), ("<stdin>", False), ("\\303\\244.h", False), ("", False)],
)  # fmt: skip
def test_relative_file_names_in_line_markers_are_detected(name: str, is_absolute: bool) -> None:
    texts = f'# 0 "{name}"\nint x;\n', f'# 1 "/a.cu"\nint x;\n# 7 "{name}" 3 4\nint y;\n'
    assert [passes.are_absolute(text.encode()) for text in texts] == [is_absolute] * 2
    assert passes.are_absolute(b"int x;\n")


def test_line_markers_of_builtin_names_list_no_file():
    text = b'# 0 "a.cu"\n# 0 "<built-in>"\n# 1 "<command-line>" 1\n# 1 "/usr/x.h" 1 3 4\n'
    assert listed_files(text) == [(b"a.cu", False), (b"/usr/x.h", True)]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (b'q\\"uote.h', b'q"uote.h'),
        (b"b\\\\s.h", b"b\\s.h"),
        (b"\\303\\274.h", "ü.h".encode()),
        (b"a b.h", b"a b.h"),
    ],
)
def test_escapes_in_file_names_of_line_markers_are_undone(written, name):
    assert listed_files(b'# 1 "a.cu"\n# 1 "' + written + b'" 1\n')[1] == (name, False)


def test_text_that_resembles_a_line_marker_is_not_parsed():
    text = b'# 1 "a.cu"\nconst char *s = " 1\n";\nputs("x # 1 \\"no.h\\" 1");\n #1 "y.h" 1\n'
    assert listed_files(text) == [(b"a.cu", False)]


def test_file_names_in_line_markers_are_kept_as_bytes():
    assert listed_files(b'# 1 "\xff.cu"\n') == [(b"\xff.cu", False)]


def test_a_file_included_as_system_header_and_as_user_header_is_listed_twice():
    first = [(b"a", False), (b"b", True)]
    second = [(b"b", False), (b"c", False)]
    assert passes.union([first, second]) == [(b"a", False), (b"b", True), (b"b", False), (b"c", False)]


def test_files_are_listed_from_line_markers_that_begin_a_file():
    text = b'# 0 "a.cu"\n# 1 "/made//"\n# 1 "<odd>"\n# 0 "no.h" 1\n# 1 "b.h" 1\n# 1 "/dev/stdin"\nint x;\n'
    text += b'# 12 "c.h"\n# 1 "d.h" 3\n# 1 "b.h" 3\n# 1 "back\\\\.h"\n# 1 "" 2\n'
    listed = [(b"a.cu", False), (b"b.h", False), (b"/dev/stdin", False), (b"d.h", True), (b"back\\.h", False)]
    assert listed_files(text) == [*listed[:4], (b"b.h", True), listed[4], (b"", False)]
    assert listed_files(b"int x;\n") == []
