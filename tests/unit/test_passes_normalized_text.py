"""Normalized text: moved lines do not count, and every other difference does."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Sequence

import pytest

from nvccache import passes
from scenarios.support.toolkits import HOST_COMPILER

MAIN = b'# 0 "a.cu"\n# 0 "<built-in>"\n# 1 "a.cu"\n'


def digest_of(text: bytes) -> str:
    return passes.meaning_of(text)


def say(text: bytes | str) -> str:
    """The digest of a text of the source file itself."""
    return digest_of(MAIN + (text.encode() if isinstance(text, str) else text))


def is_distinguished(one: bytes | str, other: bytes | str) -> bool:
    """Whether two texts have different digests, or none, which is safe."""
    digests = say(one), say(other)
    return digests[0] != digests[1] or digests == ("", "")


@pytest.mark.parametrize(
    "moved",
    [
        "\n\nint x;\nint y;\n",
        "int x;\n\n\n\nint y;\n",
        "int x;\nint y;",
        '# 90 "a.cu"\nint x;\nint y;\n',
        'int x;\n# 90 "a.cu"\nint y;\n',
        'int x;\n# 90 "a.cu"\n# 91 "a.cu"\n\nint y;\n',
        'int x;\n# 1 "b.h" 1\n# 2 "a.cu" 2\nint y;\n',
        'int x;\n# 1 "/usr/b.h" 1 3 4\n\n\n# 2 "a.cu" 2\nint y;\n',
        'int x;\nint y;\n# 9 "b.h" 1',
    ],
)
def test_moved_lines_do_not_change_the_digest(moved):
    assert say(moved) == say("int x;\nint y;\n") != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int x;\n", "int y;\n"),
        ("int x;\nint y;\n", "int y;\nint x;\n"),
        ("int x;\n", "int x;\nint x;\n"),
        ("int x;int y;\n", "int x;\nint y;\n"),
        ("#pragma once_more\nint x;\n", "int x;\n"),
        ("#pragma unroll 2\nfor\n", "#pragma unroll 4\nfor\n"),
        ("#pragma nv_diag_suppress 177\nint x;\n", "int x;\n#pragma nv_diag_suppress 177\n"),
        ('const char *s = "a b";\n', 'const char *s = "a  b";\n'),
        (' # 1 "b.h" 3\nint x;\n', "int x;\n"),
        ('# 1 "b.h" 3 +\n', "# 1\n"),
        ("#1\nint x;\n", "#2\nint x;\n"),
        ("int x;\n#0\nint y;\n", 'int x;\n# 1 "b.h" 1\nint y;\n'),
        ("int x;\n\x020\nint y;\n", 'int x;\n# 1 "b.h" 1\nint y;\n'),
    ],
)
def test_changed_text_changes_the_digest(one, other):
    assert is_distinguished(one, other)


@pytest.mark.parametrize("name", ["c.h", "/usr/include/b.h", 'q\\"3 4\\".h', "3 4.h"])
def test_another_header_name_does_not_change_the_digest(name):
    assert say(f'# 1 "{name}" 1\nint x;\n') == say('# 1 "b.h" 1\nint x;\n') != ""


def test_another_source_name_does_not_change_the_digest():
    text = '# 0 "{0}"\n# 1 "{0}"\nint x;\n# 1 "h.h" 1\nint y;\n# 4 "{0}" 2\nint z;\n'
    one, other = (digest_of(text.format(name).encode()) for name in ("a.cu", "/p/b c.cu"))
    assert one == other != ""


def test_text_without_line_markers_has_a_digest_of_its_content():
    texts = (b"int x;\n", b"int y;\n", b'int x;\n# 1 "a.cu"\nint y;\n', b"# 1\n")
    assert len({digest_of(text) for text in texts}) == len(texts)
    assert digest_of(b"int x;\n\n\nint y;\n") == digest_of(b"int x;\nint y;\n")


def test_empty_preprocessed_text_has_a_digest():
    assert say("\n\n") == say("") != say("int x;\n")


def test_odd_line_ends_and_blanks_hide_no_difference_of_texts():
    """Counting them costs a hit; they must not hide a difference."""
    assert is_distinguished("int x;\r\nint y;\r\n", "int x;\r\nint z;\r\n")
    assert is_distinguished("int x;\n   \n", "int x;\n   \nint y;\n")
    assert say(b"int x;\n\x020\nint y;\n") == ""


# What may precede a raw string: in words of the text, and in literals that mislead.
BEFORE = (
    "auto s = ", 'f("R", ', 'f("\\"", ', "f('\"', ", "f(1'000, ", 'f(FOO_R, "xR", ', 'f(R"y(\n"\n)y", ',
    'f(")", R"(")", ', 'f("x"_s, ', "int c = 'a\"';", "f('\"a', u8'\"', ", 'auto r = "a"R"(b"; if(x)"c"; ',
    'auto r = R"(a)"R"(b"; if(x)"c"; ',
)  # fmt: skip


@pytest.mark.parametrize("before", BEFORE)
def test_changed_lines_within_a_raw_string_change_the_digest(before):
    for kind in ("R", "u8R", "LR"):
        for change in ("\n\n\n", '\n# 1 "b.h" 1 3\n', '\n)" \n', "\n\n# 1\n"):
            texts = [f'{before}{kind}"q(1{lines}2)q";\nint x;\n' for lines in ("\n\n", change)]
            assert is_distinguished(*texts)


@pytest.mark.parametrize("mark", ["", "a-b", '"', "0123456789abcdef"])
def test_raw_strings_with_any_delimiter_keep_their_lines_in_the_digest(mark):
    texts = [f'auto s = R"{mark}( )z" \n{lines}){mark}";\nint x;\n' for lines in ("\n", "\n\n")]
    assert is_distinguished(*texts)


@pytest.mark.parametrize(
    "text",
    [
        "char c = 'R';\n{0}int x;\n",
        'const char *s = "ERROR";\n{0}int x;\n',
        'f("R", "(");\n{0}int x;\nf(")");\n',
        'auto s = R"(x)", t = "z";\n{0}int x;\n',
        'auto s = R"q(x()q", t = R"(z)";\n{0}int x;\n',
    ],
)
def test_lines_moved_around_a_string_do_not_change_the_digest(text):
    """The handling of raw strings must not cost these hits."""
    assert say(text.format("")) == say(text.format("\n\n")) == say(text.format('# 9 "a.cu"\n')) != ""


def test_text_that_can_query_its_line_or_file_has_no_normalized_digest():
    for place in ("LINE", "FILE", "COLUMN", "source_location"):
        for where in ('# 1 "b.h" 1\n', f'# 1 "/usr/s.h" 1 3 4\n{"int s;" * 500}\n', ""):
            assert say(f'{where}int f(int at = __builtin_{place}());\n# 2 "a.cu" 2\nint x;\n') == ""
            assert say(f'{where}int f(int at = 1);\n# 2 "a.cu" 2\nint x;\n') != ""


WORDS = (
    "int x;",
    "x = 1'000;",
    "LR ",
    '"s"',
    '"R"',
    "'\"'",
    'f("\\"");',
    '"//"',
    "\t",
    "\r",
    "#",
    "# 1",
    "",
    "",
)
LINES = (
    '# 1 "a.cu"', '# 9 "a.cu" 2', '# 1 "b.h" 1', '# 1 "c.h" 1', '# 1 "b.h" 1 3', '# 1 "b.h" 2 3 4',
    '# 3 "b.h" 4', '# 1 "b\\"3.h" 1', "#pragma p", "int y;",
)  # fmt: skip


def meaning(lines: Sequence[str]) -> list[tuple[object, str]]:
    """Each line that is no marker, and whether it is of the main file, a system header and C."""
    found, standing = [], (True, False, False)
    for line in lines:
        if marker := re.fullmatch(r'# \d+ "((?:[^"\\]|\\.)*)"((?: [1-4])*)', line):
            standing = (marker[1] == "a.cu", "3" in marker[2], "4" in marker[2])
        elif line:
            found.append((standing, line))
    return found


@pytest.mark.parametrize("shortest", [0, passes._SHORTEST_STRETCH])
def test_two_texts_of_different_meaning_never_have_one_digest(shortest, monkeypatch):
    """Moved lines have the same one, mostly: a system header that is kept has its markers."""
    monkeypatch.setattr(passes, "_SHORTEST_STRETCH", shortest)
    chance = random.Random(7)
    moved = found = 0
    for _ in range(3000):
        lines = chance.choices((*WORDS, *LINES), k=chance.randrange(2, 9))
        at = chance.randrange(len(lines) + 1)
        other = [
            *lines[:at],
            *chance.choices(("", *LINES), k=chance.randrange(3)),
            *lines[at + (at % 5 == 0) :],
        ]
        is_one = say("\n".join(lines)) == say("\n".join(other)) != ""
        if meaning(lines) != meaning(other):
            assert not is_one, (lines, other)
        elif lines != other:
            moved += 1
            found += is_one
    assert moved > 200
    assert found > moved * 0.2


SYSTEM = "".join(f"\nint s{n};\n" for n in range(400))
INCLUDING = (
    f'int x;\n{{0}}# 1 "/usr/s.h" 1 3 4\n{SYSTEM}# 9 "/usr/s.h" 3 4\nint t;\n'
    f'# 1 "u.h" 1\nint u;\n{{0}}int v;\n# 99 "/usr/s.h" 2 3 4\n{SYSTEM}# 3 "a.cu" 2\n{{0}}int y;\n'
)


def test_moved_lines_around_a_large_system_header_do_not_change_the_digest():
    plain = say(INCLUDING.format(""))
    assert plain == say(INCLUDING.format("\n\n")) != ""
    assert plain == say(INCLUDING.replace("# 3", "# 77").format(""))


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("int s7;", "int s8;"),
        ("int t;", "int t;\nint t2;"),
        ("int u;", "int w;"),
        ("int y;", "int z;"),
        ('# 3 "a.cu" 2\n{0}int y;\n', "int y;\n"),
        ('# 99 "/usr/s.h" 2 3 4\n', ""),
        (' 1 3 4\n', ' 1 3\n'),
        (' 2 3 4\n', ' 2\n'),
    ],
)  # fmt: skip
def test_changes_in_a_large_system_header_change_the_digest(was, now):
    assert was in INCLUDING
    assert say(INCLUDING.format("")) != say(INCLUDING.replace(was, now, 1).format("")) != ""


@pytest.mark.parametrize(
    ("inside", "has_digest"), [("\n{0}", True), ('\n# 7 "u.h" 2\n{0}', False), ("\n# pragma\n{0}", False)]
)
def test_a_raw_string_in_a_large_system_header_changes_the_digest_or_prevents_one(inside, has_digest):
    text = INCLUDING.replace("int s9;", f'auto r = R"x({inside})x";')
    lines = [say(text.format(more)) for more in ("", "\n")]
    assert ("" not in lines) == has_digest
    assert lines[0] != lines[1] or not has_digest


def test_source_text_cannot_forge_the_digest_of_a_large_system_header():
    header = f'# 1 "/usr/s.h" 1 3 4\n{SYSTEM}'
    assert is_distinguished(header, f"\x028 {len(header)}\n\n{header}")


def test_real_preprocessor_output_with_moved_lines_has_the_same_digest(tmp_path):
    """A comment moves lines."""
    source = 'const char *s = R"(x)"; const char *t = "R";\n%s\nint launch() { return 1; }\n'
    texts = {}
    for name, text in {"plain": source % "", "moved": source % "// a comment\n\n/* and\nmore */"}.items():
        path = tmp_path / "a.cc"
        path.write_text("#include <stddef.h>\n" + text)
        command = [HOST_COMPILER, "-E", "-x", "c++", str(path)]
        texts[name] = subprocess.run(command, check=True, capture_output=True).stdout
    digests = {name: digest_of(text) for name, text in texts.items()}
    assert texts["plain"] != texts["moved"]
    assert digests["plain"] == digests["moved"] != ""
