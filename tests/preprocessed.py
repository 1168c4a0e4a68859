"""A slow, careful reading of preprocessed text, to compare the quick one of passes.py with.

Goes from character to character as a compiler does: outside of literals a line `# 12 "name" 1 3 4` is a
marker and an empty line is nothing; a raw string goes on over lines, whatever they look like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_MARKER = re.compile(r'# \d+ "(?P<name>(?:[^"\\]|\\.)*)"(?P<flags>(?: [1234])*)$')
_NEARLY_MARKER = re.compile(r"# \d+ ")
_WORD = re.compile(r"[^\W\d][\w$]*")
_NUMBER = re.compile(r"\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*")
_PLAIN = re.compile(r"""(?P<quote>["'])(?:(?!(?P=quote))[^\\\n]|\\.)*(?P=quote)""")
_RAW = re.compile(r'"(?P<mark>[^()\\\s]{0,16})\((?:.*?)\)(?P=mark)"', re.DOTALL)
_RAW_PREFIXES = ("R", "u8R", "uR", "UR", "LR")

Standing = tuple[bool, bool, bool]  # main file, system header, C linkage


def read(text: bytes) -> list[tuple[Standing, str]]:
    """Each line that says something, over several lines where a raw string in it is, with its standing.

    Raises ValueError for a text that no preprocessor writes or no compiler takes.
    """
    lines = []
    main, standing = "", (True, False, False)
    for line in _logical_lines(text.decode("latin-1")):
        marker = _MARKER.match(line)
        if marker:
            main = main or marker["name"]
            standing = (marker["name"] == main, "3" in marker["flags"], "4" in marker["flags"])
        elif _NEARLY_MARKER.match(line):
            raise ValueError(f"no marker, and no C++: {line}")
        elif line:
            lines.append((standing, line))
    return lines


def _logical_lines(text: str) -> Iterator[str]:
    start = position = 0
    while position < len(text):
        if text[position] == "\n":
            yield text[start:position]
            start = position = position + 1
        else:
            position = _end_of_token(text, position)
    yield text[start:]


def _end_of_token(text: str, position: int) -> int:
    if text[position] in "\"'":
        return _end_of_suffix(text, _end_of(_PLAIN, text, position))
    number = _NUMBER.match(text, position)
    if number:
        return number.end()
    word = _WORD.match(text, position)
    if not word:
        return position + 1
    if word[0] in _RAW_PREFIXES and text[word.end() : word.end() + 1] == '"':
        return _end_of_suffix(text, _end_of(_RAW, text, word.end()))
    return word.end()


def _end_of(literal: re.Pattern[str], text: str, position: int) -> int:
    found = literal.match(text, position)
    if not found:
        raise ValueError(f"a literal without end: {text[position:]}")
    return found.end()


def _end_of_suffix(text: str, position: int) -> int:
    """A word right behind a literal is a part of it: `"x"R"(y)"` is no raw string."""
    suffix = _WORD.match(text, position)
    return suffix.end() if suffix else position
