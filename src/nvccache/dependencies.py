"""The dependency file of -MD and -MMD, made from line markers as nvcc makes it.

nvcc's list is a filter over the line markers of every pass, device passes first: a file is listed
when it is entered, the first time. The form was compared with nvcc's own on 11.8 to 13.5.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# `# 12 "file" 1 3 4`: the flags say 1 entered, 2 returned to, 3 system header, 4 C linkage. The first
# marker of a text names the source, without a flag. Looking for the ends of the few entering markers,
# then back to where their lines begin, is twenty times faster than matching every line.
_ENTERED_END = re.compile(rb'" 1(?: 3)?(?: 4)?\n')
_MARKER = re.compile(rb'# \d+ "((?:[^"\\]|\\.)*)"([ 0-9]*)')
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)


def entered_files(preprocessed: bytes) -> list[tuple[bytes, bool]]:
    """The files a pass entered, in order, first the source; with whether each is a system header."""
    found: dict[bytes, bool] = {}
    starts = [0]
    starts += [preprocessed.rfind(b"\n", 0, end.start()) + 1 for end in _ENTERED_END.finditer(preprocessed)]
    for start in starts:
        marker = _MARKER.match(preprocessed, start)
        if marker and not marker.group(1).startswith(b"<"):
            found.setdefault(_unescape(marker.group(1)), b"3" in marker.group(2).split())
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


def target(source: bytes, chosen: str | None, directory: str) -> bytes:
    """What the rule is for: the value of -MT or -o, else the source's name as that of an object.

    That is `a.o` for -ptx and -cubin, too. -odir goes in front as it is, even of an absolute path.
    """
    base = os.path.splitext(os.path.basename(source))[0]
    name = base + b".o" if chosen is None else os.fsencode(chosen)
    return os.fsencode(directory) + b"/" + name if directory else name


def render(target: bytes, files: Sequence[bytes], phony: bool) -> bytes:
    """The make rule, byte for byte as nvcc writes it: blanks are escaped in names, not in the target.

    The source, the first file, stands there as it was typed.
    """
    listed = [*files[:1], *map(_as_listed, files[1:])]
    escaped = [name.replace(b" ", b"\\ ") for name in listed]
    text = target + b" : " + b" \\\n    ".join(escaped) + b"\n"
    if phony:
        text += b"".join(b"\n" + name + b":\n" for name in escaped[1:])
    return text


def _as_listed(name: bytes) -> bytes:
    """The name of a header as nvcc takes it from the marker, whose escapes it does not understand.

    There two backslashes stand for one, which becomes a slash, and a quote ends the name.
    """
    before_quote, quote, _ = name.partition(b'"')
    return before_quote.replace(b"\\", b"/") + (b"\\" if quote else b"")
