"""Line markers: which files a preprocessor pass names, and in which order.

`# 12 "file" 1 3 4`: the flags say 1 entered, 2 returned to, 3 system header, 4 C linkage. The first
marker of a text names the source, without a flag. nvcc's own list of dependencies is a filter over
the markers of every pass, device passes first: a name is listed where a marker gives it the line 1, the first
time. That is where a file is entered, or where `#line 1` makes up a name.
"""

from __future__ import annotations

import itertools
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MARKER = re.compile(rb'# \d+ "((?:[^"\\]|\\.)*)"([ 0-9]*)')
_FIRST_LINE = re.compile(rb'\n# 1 "((?:[^"\\\n]|\\.)*)"([ 0-9]*)')
# Those of the preprocessor's own places have no text.
_RELATIVE = re.compile(rb'\n# \d+ "(?!/|<built-in>"|<command-line>")')
_ANY = re.compile(rb'^# \d+ "(?:[^"\\\n]|\\.)*"[ 0-9]*\n', re.MULTILINE)
_DIRECTORY = re.compile(rb'(# \d+ "(?:[^"\\\n]|\\.)*"\n)# \d+ "(?:[^"\\\n]|\\.)*//"\n(?=# )')
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)


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


def are_absolute(preprocessed: bytes) -> bool:
    """Whether each name in a marker is an absolute path."""
    return not _RELATIVE.search(b"\n" + preprocessed[:1024]) and not _RELATIVE.search(preprocessed)


def without_directory(preprocessed: bytes) -> bytes:
    """The text without the name of the working directory, which `-g` has gcc put behind the first marker.

    No text follows that marker but another one: it is there for debug information that the reader of this
    text makes itself.
    """
    directory = _DIRECTORY.match(preprocessed)
    return preprocessed[: directory.end(1)] + preprocessed[directory.end() :] if directory else preprocessed


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
