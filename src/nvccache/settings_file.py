"""Reads the user's settings file: its settings with their lines, and its problems.

Only imported if the file exists or a setting is invalid. One invalid line does not affect the others: a file
that is not valid TOML is parsed line by line, since every setting is on a line of its own.
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
_LONGEST_NAME = 40
UNKNOWN, FILE = "unknown", "file"  # instead of a setting's name, for a misspelled one and for the file itself

# Settings of earlier versions: what replaces each, a clause. Compiles ignore them.
REMOVED = {
    "executor_min_seconds": "`jobs` says how many stages run here before one is sent",
    "observe": "what cannot be observed is not recorded; `NVCCACHE_DISABLE=1` runs plain nvcc",
    "remote_timeout": "a call waits two seconds for its remotes, then nobody asks them for a minute",
    "stats_dir": "calls are counted in the cache, and not where that is read-only",
    "umask": "new files get the permissions of a directory that others may write to, such as mode 2775",
}

Found = dict[str, tuple[int, object]]


@dataclass(slots=True)
class Problem:
    """An invalid setting."""

    setting: str  # its name, UNKNOWN or FILE
    where: str  # the variable, or the line of the file
    text: str
    word: str = ""  # the misspelled name

    @property
    def counted_as(self) -> str:
        """Its name in the event log, which also counts: the misspelled one, unless that is odd."""
        is_plain = self.word.isascii() and self.word.isidentifier() and len(self.word) <= _LONGEST_NAME
        return self.word if is_plain else self.setting


def instead_of(name: str) -> str:
    """What replaces a setting of an earlier version, to follow a sentence; empty if there was none."""
    name = name.removeprefix("NVCCACHE_").lower()
    return f" any more: {REMOVED[name]}" if name in REMOVED else ""


def read(path: str, settings: Collection[str]) -> tuple[Found, list[Problem]]:
    """The settings in the file, name -> (line, value), and its problems; only a regular file is read."""
    try:
        text = content(path).decode("utf-8-sig")
    except OSError as error:
        return {}, [Problem(FILE, f"`{path}`", f"cannot be read: {error.strerror}")]
    except UnicodeDecodeError as error:
        return {}, [Problem(FILE, f"`{path}`", f"is not a text in UTF-8: {error.reason}")]
    try:
        values = parsed(text)
    except (ValueError, RecursionError):  # also for a number with too many digits
        return _line_by_line(path, text, settings)
    lines = text.splitlines()
    return _known(path, {name: (_line_of(name, lines), value) for name, value in values.items()}, settings)


def content(path: str) -> bytes:
    """The bytes of a file; raises OSError. A FIFO must not block a compile, nor a device fill its memory."""
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
    """The name on a line of TOML; may be empty."""
    import re

    match = re.match(_NAME, line)
    return match[1] if match else ""


def _line_of(name: str, lines: list[str]) -> int:
    """The line of a setting or a table, counted from one."""
    for number, line in enumerate(lines, 1):
        if _name_in(line.lstrip(" \t[")) == name:
            return number
    return 1


def _line_by_line(path: str, text: str, settings: Collection[str]) -> tuple[Found, list[Problem]]:
    found: Found = {}
    problems: list[Problem] = []
    is_in_table = False  # from the first table's head to the end: no line there is a setting of ours
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
