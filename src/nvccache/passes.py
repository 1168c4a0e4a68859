"""Facts about the text of a preprocessor pass: its files, and its digest without line numbers.

Line markers such as `# 12 "file" 1 3 4` name the files of a text. The flags mean: 1 file entered, 2 file
returned to, 3 system header, 4 C linkage. The first marker names the source, without flags. nvcc makes the
depfile from the markers of all passes, device passes first. It lists a name at its first marker with line 1,
which is where the file is entered, or where `#line 1` invents a name.

A new comment or blank line moves every line below it, but compilers write line numbers only into diagnostics
and debug information, unless the text itself reads them. If it does not, and line_options.py allows it, the
keys of cudafe++ and cicc therefore contain only the normalized text, without line markers and blank lines.
That this is safe was found by comparing PTX and objects before and after such edits (CUDA 11.8 to 13.5).

The facts are stored in the result of a pass (record.py). The text is not stored, since a hit seldom needs it.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Iterable, Iterator, Sequence

from nvccache.files import keys
from nvccache.store import sections
from nvccache.values import dataclass

# Regular expressions are compiled where they are used: if the cache has all passes of a call, none is needed.
# A text reads its own line or file name through these builtins, with which std::source_location is declared,
# too.
_BUILTIN = b"__builtin_"
_POSITION_READERS = tuple(_BUILTIN + name for name in (b"source_location", b"LINE", b"FILE", b"COLUMN"))
# The possible start of a raw string, with its delimiter; searching for `"` is faster than searching for `R"`.
_RAW_STRING = rb'"(?<=R")(?=([^()\\\s]{0,16})\()'
_MARKER = re.compile(rb"\n# \d+ ([^\n]*)")
_BLANK_LINES = re.compile(rb"\n\n+")
# A stretch of system headers: from a marker that enters or returns to one, up to a marker that enters or
# returns to any other file.
_ENTERS_SYSTEM = rb'\n# \d+ "[^\n]*" [12] 3(?: 4)?\n'
_LEAVES_SYSTEM = rb'\n# \d+ "[^\n]*" [12](?: 4)?\n'
# A mark says from what kind of file the text after it is: the sum of 1 main file, 2 system header, 4 C
# linkage.
_IN_MAIN_FILE, _IN_SYSTEM_HEADER, _IN_C = 1, 2, 4
_MARKS = tuple(b"\x02%d" % kind for kind in range(8))
_VERBATIM = b"\x028 "
_SHORTEST_STRETCH = 2048  # bytes
_FIRST_MARKER = rb'# \d+ "((?:[^"\\]|\\.)*)"([ 0-9]*)'
_FIRST_LINE = rb'\n# 1 "([^"\\\n]*(?:\\.[^"\\\n]*)*)"([ 0-9]*)'
# `<built-in>` and `<command-line>` are no files, and have no text.
_RELATIVE = rb'\n# \d+ "(?!/|<built-in>"|<command-line>")'
_DIRECTORY = rb'(# \d+ "(?:[^"\\\n]|\\.)*"\n)# \d+ "(?:[^"\\\n]|\\.)*//"\n(?=# )'
# (text, mark); for a stretch of system headers, the text contains their markers, and the mark is empty.
_Piece = tuple[bytes | memoryview, bytes]
_ESCAPE = rb"(?s)\\([0-7]{3}|.)"
_KIND = "pass-1"


def meaning_of(text: bytes) -> str:
    """The digest of a text without its line numbers; empty if any line number may matter."""
    if _reads_position(text) or _MARKS[0][:1] in text:
        return ""
    pieces = list(_pieces(text))
    of_user = (body for body, _ in pieces if isinstance(body, bytes))
    if _has_raw_string(text, b"\n# ") or any(_has_raw_string(body, b"\n") for body in of_user):
        return ""
    return keys.digest_of_lines(_without_lines(pieces))


def _reads_position(text: bytes) -> bool:
    at = text.find(_BUILTIN)
    while at >= 0 and not text.startswith(_POSITION_READERS, at):
        at = text.find(_BUILTIN, at + len(_BUILTIN))
    return at >= 0


def _has_raw_string(text: bytes, part: bytes) -> bool:
    """Whether a raw string may contain `part`, such as the start of a marker, which is then no marker.

    Text that only looks like the beginning of a raw string counts, too.
    """
    for opened in re.finditer(_RAW_STRING, text):
        end = text.find(b")" + opened[1] + b'"', opened.end())
        if end < 0 or text.find(part, opened.end(), end) >= 0:
            return True
    return False


def _pieces(text: bytes) -> Iterator[_Piece]:
    """The pieces of text from files of one kind, without empty ones.

    System headers are most of a text and rarely change. A whole stretch of them is one piece, including its
    markers, since splitting it would take most of the time.
    """
    first = re.match(rb"# \d+ ([^\n]*)", text)
    main, marks = first[1] if first else b'""', dict[bytes, bytes]()
    entering, leaving = re.compile(_ENTERS_SYSTEM), re.compile(_LEAVES_SYSTEM)
    done = position = first.end() if first else 0
    while entered := entering.search(text, position):
        start = entered.start()
        left = leaving.search(text, entered.end() - 1)
        position = left.start() if left else len(text)
        if position - start < _SHORTEST_STRETCH:
            continue  # for instance a header that its include guard skips
        yield from _pieces_of_user(text[done:start], main, marks)
        yield memoryview(text)[start:position], b""
        done = position
    yield from _pieces_of_user(text[done:], main, marks)


def _pieces_of_user(text: bytes, main: bytes, marks: dict[bytes, bytes]) -> Iterator[_Piece]:
    """The pieces between stretches; `main` is the name in the first marker, `marks` a memo of `_mark_of`."""
    before, *parts = _MARKER.split(text)  # parts: name with flags, text, name with flags, and so on
    marked = [
        (marks.get(where) or marks.setdefault(where, _mark_of(where, main)), body)
        for where, body in zip([main, *parts[::2]], [before, *parts[1::2]], strict=True)
        if len(body) > 1 and body.strip(b"\n")
    ]
    for mark, bodies in itertools.groupby(marked, operator.itemgetter(0)):
        yield b"\n".join([body for _, body in bodies]), mark


def _without_lines(pieces: Iterable[_Piece]) -> Iterator[bytes | memoryview]:
    """The text without markers and blank lines, with a mark before each piece.

    The kind (main file, system header, C linkage) affects diagnostics and the meaning of declarations. A
    stretch of system headers is kept as it is, after its length.
    """
    for body, mark in pieces:
        yield mark or b"%s%d" % (_VERBATIM, len(body))
        yield _BLANK_LINES.sub(b"\n", body).strip(b"\n") if mark else body


def _mark_of(where: bytes, main: bytes) -> bytes:
    """The mark for the kind of a file; `where` is the quoted name and the flags of a line marker."""
    name, _, flags = where.rpartition(b'"')
    is_main = name == main.rpartition(b'"')[0]
    kind = _IN_MAIN_FILE * is_main + _IN_SYSTEM_HEADER * (b"3" in flags) + _IN_C * (b"4" in flags)
    return _MARKS[kind]


@dataclass(frozen=True, slots=True)
class Pass:
    """Facts about one pass."""

    listed: tuple[tuple[bytes, bool], ...]  # (file for the depfile, whether it is a system header)
    meaning: str = ""  # the digest of the normalized text, or empty
    is_absolute: bool = False  # whether all names in markers are absolute paths

    def encoded(self) -> bytes:
        """The facts as bytes, to be stored in a result."""
        names = [b"%d%s" % (is_system, name) for name, is_system in self.listed]
        return sections.pack(_KIND, [self.meaning.encode(), b"%d" % self.is_absolute, *names])


def facts_of_text(preprocessed: bytes) -> Pass:
    """The facts about a pass whose output is `preprocessed`."""
    listed = tuple(listed_files(preprocessed))
    return Pass(listed, meaning_of(preprocessed), are_absolute(preprocessed))


def decoded(facts: bytes) -> Pass:
    """The inverse of `Pass.encoded`; raises ValueError."""
    meaning, is_absolute, *names = sections.unpack(_KIND, facts)
    listed = tuple([(name[1:], name[:1] == b"1") for name in names])
    return Pass(listed, meaning.decode(), is_absolute == b"1")


def listed_files(preprocessed: bytes) -> list[tuple[bytes, bool]]:
    """(file, whether it is a system header) for each dependency that nvcc lists for a pass, the source first.

    A file may be listed as both: gcc marks a line of a system header as the user's if it expands a user's
    macro.
    """
    source = re.match(_FIRST_MARKER, preprocessed)
    found = {(unescaped(source[1]), False): None} if source else {}
    for marker in re.finditer(_FIRST_LINE, preprocessed):
        # A marker with a directory, such as the working directory for debug information, names no file.
        is_directory = marker[1].endswith(b"/")
        if not is_directory and not marker[1].startswith(b"<"):
            found.setdefault((unescaped(marker[1]), b"3" in marker[2]))
    return list(found)


def union(passes: Iterable[Sequence[tuple[bytes, bool]]]) -> list[tuple[bytes, bool]]:
    """The entries of all passes, without repetitions."""
    return list(dict.fromkeys(itertools.chain.from_iterable(passes)))


def are_absolute(preprocessed: bytes) -> bool:
    """Whether all names in markers are absolute paths."""
    return not any(re.search(_RELATIVE, text) for text in (b"\n" + preprocessed[:1024], preprocessed))


def without_directory(preprocessed: bytes) -> bytes:
    """The text without the marker for the working directory, which gcc adds with `-g` after the first marker.

    It matters only for debug information, which the tool that reads the text generates itself. To be
    recognized, it must be followed directly by another marker.
    """
    directory = re.match(_DIRECTORY, preprocessed)
    return preprocessed[: directory.end(1)] + preprocessed[directory.end() :] if directory else preprocessed


def unescaped(name: bytes) -> bytes:
    """A name as in a marker, with escapes such as `\\134` resolved."""
    if b"\\" not in name:
        return name

    def plain(match: re.Match[bytes]) -> bytes:
        escaped = match.group(1)
        return bytes([int(escaped, 8) & 255]) if len(escaped) == 3 else escaped

    return re.sub(_ESCAPE, plain, name)
