"""The user's settings file: which settings it has, on which lines, and what is wrong with it.

Loaded only where there is such a file, or a setting that is wrong. One bad line does not cost the others:
what TOML rejects as a whole is read line by line, as every setting stands on a line of its own.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Collection
from typing import Any

from nvccache.values import dataclass

_LARGEST = 1 << 20  # bytes
_NAME = r"""\s*["']?([^"'=\s\[\].]*)"""
UNKNOWN, FILE = "unknown", "file"  # in place of a setting's name: a name that is none, and the file itself

Found = dict[str, tuple[int, object]]


@dataclass(slots=True)
class Problem:
    """One setting that is wrong."""

    setting: str  # its name, UNKNOWN or FILE
    where: str  # a variable, or a file's line
    text: str
    word: str = ""  # the name that is none


def read(path: str, settings: Collection[str]) -> tuple[Found, list[Problem]]:
    """Of `settings`, by name: (line, value); and what is wrong. Anything but a file is a problem."""
    try:
        text = _content(path).decode("utf-8-sig")
    except OSError as error:
        return {}, [Problem(FILE, f"`{path}`", f"cannot be read: {error.strerror}")]
    except UnicodeDecodeError as error:
        return {}, [Problem(FILE, f"`{path}`", f"is not a text in UTF-8: {error.reason}")]
    try:
        values = parsed(text)
    except (ValueError, RecursionError):  # which is also what Python says of a number with very many digits
        return _line_by_line(path, text, settings)
    lines = text.splitlines()
    return _known(path, {name: (_line_of(name, lines), value) for name, value in values.items()}, settings)


def _content(path: str) -> bytes:
    """The bytes of a file; raises OSError. No FIFO holds up a compile, and no device fills its memory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is no regular file")
        content = b""
        while part := os.read(descriptor, _LARGEST + 1 - len(content)):
            content += part
    finally:
        os.close(descriptor)
    if len(content) > _LARGEST:
        raise OSError(0, "it is too large")
    return content


def parsed(text: str) -> dict[str, Any]:
    """Raises ValueError and RecursionError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def _name_in(line: str) -> str:
    """What stands where a line of TOML has a name; may be empty."""
    import re

    match = re.match(_NAME, line)
    return match[1] if match else ""


def _line_of(name: str, lines: list[str]) -> int:
    """The line on which a setting or a table stands, counted from one."""
    for number, line in enumerate(lines, 1):
        if _name_in(line.lstrip(" \t[")) == name:
            return number
    return 1


def _line_by_line(path: str, text: str, settings: Collection[str]) -> tuple[Found, list[Problem]]:
    found: Found = {}
    problems: list[Problem] = []
    is_in_table = False  # and so are all lines after its head: what they set is no setting of ours
    for number, line in enumerate(text.splitlines(), 1):
        where = f"`{path}` line {number}"
        is_head = line.lstrip().startswith("[")
        is_of_table = is_in_table and not is_head
        is_in_table = is_in_table or is_head
        try:
            values = parsed(line)
        except (ValueError, RecursionError):
            name = _name_in(line)
            of = name if name in settings and not is_in_table else FILE
            problems.append(Problem(of, where, 'is no line of TOML such as `max_size = "10G"`'))
            continue
        for name, value in [] if is_of_table else values.items():
            if name in found:
                of = name if name in settings else FILE
                problems.append(Problem(of, where, f"sets `{name}` for the second time"))
            else:
                found[name] = number, value
    known, others = _known(path, found, settings)
    return known, [*problems, *others]


def _known(path: str, found: Found, settings: Collection[str]) -> tuple[Found, list[Problem]]:
    unknown = [(line, name) for name, (line, _) in found.items() if name not in settings]
    problems = [
        Problem(UNKNOWN, f"`{path}` line {line}", f"there is no setting `{name}`", name)
        for line, name in sorted(unknown)
    ]
    return {name: value for name, value in found.items() if name in settings}, problems
