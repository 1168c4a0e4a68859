"""Line markers: which files a preprocessor pass entered, in which order, and from where.

`# 12 "file" 1 3 4`: the flags say 1 entered, 2 returned to, 3 system header, 4 C linkage. The first
marker of a text names the source, without a flag. nvcc's own list of dependencies is a filter over
the markers of every pass, device passes first: a name is listed where a marker gives it the line 1, the first
time. That is where a file is entered, or where `#line 1` makes up a name.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MARKER = re.compile(rb'# \d+ "((?:[^"\\]|\\.)*)"([ 0-9]*)')
# Looking for the ends of the markers that change the file, then back to where their lines begin, is
# many times faster than matching every line.
_CHANGE_END = re.compile(rb'" [12](?: 3)?(?: 4)?\n')
_FIRST_LINE = re.compile(rb'\n# 1 "((?:[^"\\\n]|\\.)*)"([ 0-9]*)')
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


def listed_files(preprocessed: bytes) -> list[tuple[bytes, bool]]:
    """What nvcc lists as dependencies of a pass, the source first, each with whether it is of the system.

    A name may stand there both ways: gcc calls a line of a system header the user's where a macro of his
    is expanded.
    """
    source = _MARKER.match(preprocessed)
    found = {(unescaped(source[1]), False): None} if source else {}
    for marker in _FIRST_LINE.finditer(preprocessed):
        # Such as the name of the working directory, which is there for debug information.
        is_directory = marker[1].endswith(b"/")
        if not is_directory and not marker[1].startswith(b"<"):
            found.setdefault((unescaped(marker[1]), b"3" in marker[2]))
    return list(found)


def union(passes: Iterable[Sequence[tuple[bytes, bool]]]) -> list[tuple[bytes, bool]]:
    """What is listed for all passes, each where it is listed first."""
    return list(dict.fromkeys(itertools.chain.from_iterable(passes)))


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
