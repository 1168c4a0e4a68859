"""The dependency file of -MD and -MMD, made from line markers as nvcc makes it.

nvcc's list is a filter over the line markers of every pass, device passes first: a file is listed
when it is entered, the first time. The form was compared with nvcc's own on 11.8 to 13.5.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# "# 12 "file" 1 3": the flags say 1 entered, 2 returned to, 3 system header.
_MARKER = re.compile(rb'^# \d+ "((?:[^"\\]|\\.)*)"([ 0-9]*)$', re.MULTILINE)
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)


def entered_files(preprocessed: bytes) -> list[tuple[bytes, bool]]:
    """The files a pass entered, in order, first the source; with whether each is a system header."""
    found: dict[bytes, bool] = {}
    for match in _MARKER.finditer(preprocessed):
        flags = match.group(2).split()
        name = _unescape(match.group(1))
        if (b"1" in flags or not found) and not name.startswith(b"<"):
            found.setdefault(name, b"3" in flags)
    return list(found.items())


def _unescape(name: bytes) -> bytes:
    if b"\\" not in name:
        return name

    def plain(match: re.Match[bytes]) -> bytes:
        escaped = match.group(1)
        return bytes([int(escaped, 8) & 255]) if len(escaped) == 3 else escaped

    return _ESCAPE.sub(plain, name)


def union(passes: Iterable[Sequence[tuple[bytes, bool]]]) -> list[tuple[bytes, bool]]:
    """The files of all passes, each where it was first entered."""
    found: dict[bytes, bool] = {}
    for files in passes:
        for name, is_system in files:
            found.setdefault(name, is_system)
    return list(found.items())


def render(target: bytes, files: Sequence[bytes], phony: bool) -> bytes:
    """The make rule, byte for byte as nvcc writes it: blanks are escaped in names, not in the target."""
    escaped = [name.replace(b" ", b"\\ ") for name in files]
    text = target + b" : " + b" \\\n    ".join(escaped) + b"\n"
    if phony:
        text += b"".join(b"\n" + name + b":\n" for name in escaped[1:])
    return text
