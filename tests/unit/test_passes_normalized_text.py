"""Normalized text: moved lines do not count, and every other difference does."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence

import pytest

import preprocessed
from nvccache import passes
from scenarios.support.toolkits import HOST_COMPILER

MAIN = b'# 0 "a.cu"\n# 0 "<built-in>"\n# 1 "a.cu"\n'


def digest_of(text: bytes) -> str:
    return passes.meaning_of(text).digest


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
def test_where_lines_are_does_not_count(moved):
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
def test_what_is_said_counts(one, other):
    assert is_distinguished(one, other)


@pytest.mark.parametrize(
    "marker",
    ['# 1 "b.h" 1', '# 1 "b.h" 1 3', '# 1 "b.h" 1 3 4', '# 1 "b.h" 1 4', '# 1 "a.cu" 2 3', '# 7 "x a.cu"'],
)
def test_whether_it_is_said_in_the_source_in_a_header_or_in_a_header_of_the_system_counts(marker):
    inline = say("int x;\nint y;\nint z;\n")
    assert say(f'int x;\n{marker}\nint y;\n# 2 "a.cu" 2\nint z;\n') != inline
    assert say(f"int x;\n{marker}\nint y;\nint z;\n") not in (
        inline,
        say(f'int x;\n{marker}\nint y;\n# 2 "a.cu" 2\nint z;\n'),
    )


def test_standings_differ_from_each_other():
    flags = ["", " 3", " 4", " 3 4"]
    texts = [f'# 1 "{name}" 1{flag}\nint x;\n' for name in ("b.h", "a.cu") for flag in flags]
    assert len({say(text) for text in texts}) == len(texts)


@pytest.mark.parametrize("name", ["c.h", "/usr/include/b.h", 'q\\"3 4\\".h', "3 4.h"])
def test_the_name_of_a_header_does_not_count(name):
    assert say(f'# 1 "{name}" 1\nint x;\n') == say('# 1 "b.h" 1\nint x;\n') != ""


def test_the_name_of_the_source_does_not_count():
    text = '# 0 "{0}"\n# 1 "{0}"\nint x;\n# 1 "h.h" 1\nint y;\n# 4 "{0}" 2\nint z;\n'
    one, other = (digest_of(text.format(name).encode()) for name in ("a.cu", "/p/b c.cu"))
    assert one == other != ""


def test_text_without_markers_says_something_too():
    texts = (b"int x;\n", b"int y;\n", b'int x;\n# 1 "a.cu"\nint y;\n', b"\x01", b"# 1\n")
    assert len({digest_of(text) for text in texts}) == len(texts)
    assert digest_of(b"int x;\n\n\nint y;\n") == digest_of(b"int x;\nint y;\n")


def test_a_text_that_says_nothing():
    assert digest_of(b"") == ""
    assert say("\n\n") == say("") != say("int x;\n")


def test_ends_of_lines_and_blanks_may_count():
    """Counting them costs a hit; they must not hide a difference."""
    assert is_distinguished("int x;\r\nint y;\r\n", "int x;\r\nint z;\r\n")
    assert is_distinguished("int x;\n   \n", "int x;\n   \nint y;\n")
    assert is_distinguished(b"int x;\x01\nint y;\n", b"int x;\nint y;\n")
    assert say(b"int x;\n\x01int y;\n") == ""


# What may precede a raw string: in words of the text, and in literals that mislead.
BEFORE = (
    "auto s = ", 'f("R", ', 'f("\\"", ', "f('\"', ", "f(1'000, ", 'f(FOO_R, "xR", ', 'f(R"y(\n"\n)y", ',
    'f(")", R"(")", ', 'f("x"_s, ', "int c = 'a\"';", "f('\"a', u8'\"', ", 'auto r = "a"R"(b"; if(x)"c"; ',
    'auto r = R"(a)"R"(b"; if(x)"c"; ',
)  # fmt: skip


@pytest.mark.parametrize("before", BEFORE)
def test_lines_inside_a_raw_string_count(before):
    for kind in ("R", "u8R", "LR"):
        for change in ("\n\n\n", '\n# 1 "b.h" 1 3\n', '\n)" \n', "\n\n# 1\n"):
            texts = [f'{before}{kind}"q(1{lines}2)q";\nint x;\n' for lines in ("\n\n", change)]
            assert is_distinguished(*texts)


@pytest.mark.parametrize("mark", ["", "a-b", '"', "0123456789abcdef"])
def test_the_delimiter_of_a_raw_string_is_known(mark):
    texts = [f'auto s = R"{mark}( )z" \n{lines}){mark}";\nint x;\n' for lines in ("\n", "\n\n")]
    assert is_distinguished(*texts)


@pytest.mark.parametrize(
    "text",
    [
        'auto s = FOO_R"(";\n{0}int x;\nauto t = ")";\n',
        'f("R", "(");\n{0}int x;\nf(")");\n',
        'auto s = "\\"R" "(";\n{0}int x;\nauto t = ")";\n',
        "char c = 'R';\n{0}int x;\n",
        'auto s = R"(x)";\n{0}int x;\n',
        'auto s = R"(x\n\ny)", t = "z";\n{0}int x;\n',
        'auto s = R"(R"x()", t = "z";\n{0}int x;\n',
    ],
)
def test_lines_around_a_string_do_not_count(text):
    """The handling of raw strings must not cost these hits."""
    assert say(text.format("")) == say(text.format("\n\n")) == say(text.format('# 9 "a.cu"\n')) != ""


def test_text_that_can_ask_for_its_position_is_keyed_with_lines():
    for place in ("LINE", "FILE", "COLUMN", "source_location"):
        for where in ('# 1 "b.h" 1\n', f'# 1 "/usr/s.h" 1 3 4\n{"int s;" * 500}\n', ""):
            assert say(f'{where}int f(int at = __builtin_{place}());\n# 2 "a.cu" 2\nint x;\n') == ""
            assert say(f'{where}int f(int at = 1);\n# 2 "a.cu" 2\nint x;\n') != ""


WORDS = (
    "int x;", "x = 1'000;", "FOO_R ", "LR ", ")", '(char *)"c"', '"s"', '"R"', "'\"'", "'R'", "'\\''",
    '"x"_R', 'f("\\"");', 'f("\\\\");', 'u8"x"', '"("', '"(R"', '")"', '"//"', "/**/", "\t", "\r",
    "#", "\x01",
)  # fmt: skip
MISLEADING = ("'a\"'", "'\"R'", "u8'a\"'")
LINES = (
    "", "", '# 1 "a.cu"', '# 9 "a.cu" 2', '# 1 "b.h" 1', '# 1 "c.h" 1', '# 1 "b.h" 1 3', '# 1 "b.h" 2 3 4',
    '# 3 "b.h" 4', '# 1 "b\\"3.h" 1', ' # 1 "b.h"', "# 1", "#pragma p", " ", "int y;", ")", '")',
)  # fmt: skip


def any_lines(chance: random.Random, words: Sequence[str], glue: str) -> list[str]:
    """Words and raw strings, on lines of their own or in a row, and lines that may be markers among them."""
    text = ""
    for _ in range(chance.randrange(2, 9)):
        text += chance.choice(words) if chance.random() < 0.6 else any_raw_string(chance)
        text += chance.choice((glue, glue, "\n", f"\n{chance.choice(LINES)}\n"))
    return text.split("\n")


def any_raw_string(chance: random.Random) -> str:
    prefix, mark = chance.choice(("R", "R", "u8R", "LR")), chance.choice(("", "x", '"'))
    inside = "\n".join(chance.choices((*LINES, '"', ')x"', "R"), k=chance.randrange(1, 5)))
    inside = inside.replace(f'){mark}"', ")")
    return f'{prefix}"{mark}({inside}){mark}"'


def edited(lines: Sequence[str], chance: random.Random) -> list[str]:
    """Some lines added or one dropped, anywhere."""
    at = chance.randrange(len(lines) + 1)
    return [
        *lines[:at],
        *chance.choices(LINES, k=chance.randrange(3)),
        *lines[at + (chance.random() < 0.2) :],
    ]


def read(lines: Sequence[str]) -> list[tuple[preprocessed.Standing, str]] | None:
    """The meaning of the lines, or None if no preprocessor writes them, or no compiler would accept them."""
    try:
        return preprocessed.read(MAIN + "\n".join(lines).encode())
    except ValueError:
        return None


@pytest.mark.by_default("plain-0", "misleading-0", "in a row-0")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("words", "glue"),
    [
        pytest.param(WORDS, " ", id="plain"),
        pytest.param((*WORDS, *MISLEADING * 3), " ", id="misleading"),
        pytest.param((*WORDS, *MISLEADING), "", id="in a row"),
    ],
)
def test_two_texts_that_say_different_things_never_have_one_digest(seed, words, glue, monkeypatch):
    """And moved lines have the same one, mostly; for half of them even small system headers are kept."""
    chance = random.Random(seed)
    usual = passes._SHORTEST_STRETCH
    moved = found = 0
    for number in range(3000):
        monkeypatch.setattr(passes, "_SHORTEST_STRETCH", 0 if number % 2 else usual)
        lines = any_lines(chance, words, glue)
        other = edited(lines, chance)
        is_one = say("\n".join(lines)) == say("\n".join(other)) != ""
        lines_before, lines_after = read(lines), read(other)
        if lines_before is None or lines_after is None:
            continue
        if lines_before != lines_after:
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


def test_lines_around_a_large_system_header_do_not_count():
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
def test_what_a_large_system_header_says_counts(was, now):
    assert was in INCLUDING
    assert say(INCLUDING.format("")) != say(INCLUDING.replace(was, now, 1).format("")) != ""


def test_a_stretch_cannot_be_taken_for_a_header_that_is_kept():
    header = f'# 1 "/usr/s.h" 1 3 4\n{SYSTEM}'
    assert is_distinguished(header, f"\x028 {len(header)}\n\n{header}")


def test_what_the_host_compiler_writes_is_read_in_the_same_way(tmp_path):
    """A comment moves lines; one more line in a raw string changes the text."""
    source = 'const char *s = R"(\n# 7 "x.h" 3\n\n)"; const char *t = "R";\n%s\nint launch() { return 1; }\n'
    texts = {}
    for name, text in {
        "plain": source % "",
        "moved": source % "// a comment\n\n/* and\nmore */",
        "longer": source.replace("3\n", "3\n\n") % "",
    }.items():
        path = tmp_path / "a.cc"
        path.write_text("#include <stddef.h>\n" + text)
        command = [HOST_COMPILER, "-E", "-x", "c++", str(path)]
        texts[name] = subprocess.run(command, check=True, capture_output=True).stdout
    digests = {name: digest_of(text) for name, text in texts.items()}
    assert texts["plain"] != texts["moved"]
    assert digests["plain"] == digests["moved"] != digests["longer"] != ""
    assert preprocessed.read(texts["plain"]) == preprocessed.read(texts["moved"])
