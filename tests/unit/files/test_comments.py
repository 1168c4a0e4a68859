"""Which comments can be left out of a source: those that g++ makes nothing of, in any reading of the text."""

from __future__ import annotations

import random
import subprocess
from ctypes import CDLL, c_size_t, create_string_buffer
from pathlib import Path

import pytest

from installations import NATIVE
from nvccache.files import keys
from nvccache.files.comments import without_comments

SAME = {
    "a reworded line comment": ("int a; // one\nint b;\n", "int a; // another\nint b;\n"),
    "a line comment that is added": ("int a;\n", "int a;  // one\n"),
    "a block at the end of a line": ("int a; /* one */\n", "int a; /* two, three */ \n"),
    "a block of several lines": ("/* one\n * two\n */\nint a;\n", "/* 1\n 2 // and\n three */\nint a;\n"),
    "a line with a division": ("int a = b / c; // one\n", "int a = b / c; // two\n"),
    "a comment for doxygen": ("/** \\brief one\n * \\param a */\n", "/** \\brief two \\n\n * it */\n"),
    "a comment after a definition": ("#define A 1 // one\n", "#define A 1 // two\n"),
}
OTHER = {
    "code": ("int a; // one\n", "int b; // one\n"),
    "the number of lines": ("/* one\n */\nint a;\n", "/* one */\nint a;\n"),
    "a comment before a token, which moves it": ("/* one */ int a;\n", "/* three */ int a;\n"),
    "a string like a comment": ('f("// one");\n', 'f("// two");\n'),
    "a string after a digit separator": ("f(1'0, \"' // one\");\n", "f(1'0, \"' // two\");\n"),
    "a line behind a quotation mark": ("#error don't // one\n", "#error don't // two\n"),
    "a raw string": ('R"(\n// one\n)";\n', 'R"(\n// two\n)";\n'),
    "a name in angle brackets": ("#include <a//one>\n", "#include <a//two>\n"),
    "such a name after a digraph": ("%:include <a//one>\n", "%:include <a//two>\n"),
    "a comment that takes in the next line": ("// one \\\nint a;\n", "// one\nint a;\n"),
    "a line that continues a string": ('f("one \\\n// two");\n', 'f("one \\\n// three");\n'),
    "a trigraph for a backslash": ("// one ??/\nint a;\n", "// two ??/\nint a;\n"),
    "a blank after a backslash": ("// one \\ \nint a;\n", "// two \\ \nint a;\n"),
    "a NUL after a backslash": ("// one \\\0\nint a;\n", "// two \\\0\nint a;\n"),
    "a character by its name": ("int a; // one\n", "int a; // \\N{RIGHT-TO-LEFT OVERRIDE}\n"),
    "the end of a block in a line comment": ("/*\n// one */ int a;\n", "/*\n// two */ int a;\n"),
    "an end of a block and a new one": ("/*\nx *//* one */ y\n", "/*\nx *//* two */ y\n"),
    "the end of a block before a slash": ("/*\nx *// one\n", "/*\nx */\n"),
    "two blocks with code between": ("/* a */ one /* b */\n", "/* a */ two /* b */\n"),
    "a block that a backslash continues": ("#define A /* one \\\n*/ x\n", "#define A /* two \\\n*/ x\n"),
    "an end spliced of two lines": ("/* one *\\\n/ int a; /* b */\n", "/* one *\\\n/ int b; /* b */\n"),
    "a backslash before a comment": ("int a; \\// one\n", "int a; \\\n"),
    "an end of a block that looks like a begin": ("/*\n/*/ int a; // */\n", "/*\n/*/ int b; // */\n"),
    "angle brackets after the end of a block": ("/*\n*/ #include <a//b>\n", "/*\n*/ #include <a//c>\n"),
    "angle brackets after a form feed": ("\f#include <a//b>\n", "\f#include <a//c>\n"),
    "a lone carriage return, which ends a line": ("// a\rint a;\n", "// a\rint b;\n"),
    "a raw string behind a spliced prefix": ('R\\\n"(\n// one\n)";\n', 'R\\\n"(\n// two\n)";\n'),
    "what -Wall warns of": ("int a; /* one */\n", "int a; /* one /* two */\n"),
    "what -Wbidi-chars warns of": ("int a; // one\n", "int a; // \u202e\n"),
    "what silences a warning": ("f(); /* fall through */\n", "f(); /* and on */\n"),
}
# fmt: off
SOUP = ["/*", "*/", "//", '"', "'", "\\", "\\\n", "\n", "x", "*", "/", " ", "<", "#", 'R"(', ')"', "??/\n",
        "// c\n", "\r"]
MORE_SOUP = [b"// Lint", b"/* Fall", b"\\U", b"\\n{", b"\0", b"\f", b'R\\\n"', b"%:", b"?", b"\xd8\xa7",
             b"\xf0\x9f\x98\x80", b"\xed\x9f\xbf", b"\xed\xa0\x80", b"\xe0\x9f\xbf", b"\xf4\x90\x80\x80"]
# fmt: on


def test_a_comment_with_invalid_utf_8_is_not_left_out_of_the_code() -> None:
    assert without_comments(b"int a; // \xff\n") != without_comments(b"int a; // one\n")


@pytest.mark.parametrize(("before", "after"), SAME.values(), ids=SAME)
def test_sources_that_differ_by_comments_alone_have_equal_code(before: str, after: str) -> None:
    assert without_comments(before.encode()) == without_comments(after.encode())
    assert _preprocessed(before) == _preprocessed(after)


@pytest.mark.parametrize(("before", "after"), OTHER.values(), ids=OTHER)
def test_sources_that_may_differ_by_more_have_different_code(before: str, after: str) -> None:
    assert without_comments(before.encode()) != without_comments(after.encode())


def test_text_with_equal_code_is_equal_to_the_preprocessor() -> None:
    """Random soup of all that could be read as the begin or end of a comment."""
    chance = random.Random(20261129)
    compared = 0
    while compared < 150:
        soup = [chance.choice(SOUP) for _ in range(chance.randint(3, 20))]
        other = list(soup)
        other[chance.randrange(len(other))] += chance.choice(SOUP)
        before, after = "".join(soup), "".join(other)
        if before != after and without_comments(before.encode()) == without_comments(after.encode()):
            assert _preprocessed(before) == _preprocessed(after), (before, after)
            compared += 1


def test_the_launcher_leaves_out_the_same_comments(tmp_path: Path) -> None:
    sources = [NATIVE / "launcher" / name for name in ("comments.c", "xxh3.c")]
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "library", *sources], check=True)
    function, found = CDLL(str(tmp_path / "library")).sum_of_code, create_string_buffer(16)
    texts = [text.encode() for pair in (*SAME.values(), *OTHER.values()) for text in pair]
    chance = random.Random(20261130)
    more = [*map(str.encode, SOUP), *MORE_SOUP]
    for _ in range(20_000):
        texts.append(b"".join(chance.choices(more, k=chance.randint(1, 20))))
    for text in texts:
        assert function(create_string_buffer(text), c_size_t(len(text)), found)
        assert found.raw == keys.sum_bytes(without_comments(text)), text


def _preprocessed(text: str) -> tuple[bytes, int]:
    command = ["g++", "-E", "-w", "-x", "c++", "-"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    return done.stdout, done.returncode
