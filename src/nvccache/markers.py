"""Line markers: which files a preprocessor pass entered, in which order, and from where.

`# 12 "file" 1 3 4`: the flags say 1 entered, 2 returned to, 3 system header, 4 C linkage. The first
marker of a text names the source, without a flag. nvcc's own list of dependencies is a filter over
the markers of every pass, device passes first: a file is listed when it is entered, the first time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MARKER = re.compile(rb'# \d+ "((?:[^"\\]|\\.)*)"([ 0-9]*)')
# Looking for the ends of the markers that change the file, then back to where their lines begin, is
# many times faster than matching every line.
_CHANGE_END = re.compile(rb'" [12](?: 3)?(?: 4)?\n')
_ANY = re.compile(rb'^# \d+ "(?:[^"\\\n]|\\.)*"[ 0-9]*\n', re.MULTILINE)
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entered:
    """A file a pass entered, and the files that included it; none for the source itself."""

    name: bytes
    is_system: bool
    includers: tuple[bytes, ...]


def entered_files(preprocessed: bytes) -> list[Entered]:
    """The files a pass entered, in order of their first time, the source first."""
    source = _MARKER.match(preprocessed)
    if not source:
        return []
    stack = [unescaped(source[1])]
    system = {stack[0]: False}
    includers: dict[bytes, dict[bytes, None]] = {stack[0]: {}}
    for end in _CHANGE_END.finditer(preprocessed):
        marker = _MARKER.match(preprocessed, preprocessed.rfind(b"\n", 0, end.start()) + 1)
        if not marker:
            continue
        if b"2" in marker[2]:
            # Whatever name stands there: `#line` may have made it up.
            del stack[max(1, len(stack) - 1) :]
            continue
        name = unescaped(marker[1])
        if not name.startswith(b"<"):
            system.setdefault(name, b"3" in marker[2])
            includers.setdefault(name, {})[stack[-1]] = None
        stack.append(name)
    return [Entered(name, system[name], tuple(includers[name])) for name in system]


def union(passes: Iterable[Sequence[Entered]]) -> list[tuple[bytes, bool]]:
    """The files of all passes with whether each is a system header, each where it was first entered."""
    found: dict[bytes, bool] = {}
    for files in passes:
        for file in files:
            found.setdefault(file.name, file.is_system)
    return list(found.items())


def without_markers(preprocessed: bytes) -> bytes:
    """The text alone."""
    return _ANY.sub(b"", preprocessed)


def unescaped(name: bytes) -> bytes:
    """A name as it stands in a marker, without escapes."""
    if b"\\" not in name:
        return name

    def plain(match: re.Match[bytes]) -> bytes:
        escaped = match.group(1)
        return bytes([int(escaped, 8) & 255]) if len(escaped) == 3 else escaped

    return _ESCAPE.sub(plain, name)
