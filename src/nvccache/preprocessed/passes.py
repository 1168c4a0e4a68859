"""What the text of a preprocessor pass tells: which files it names, what it says, and of which checkout.

Which files, and in which order, is in its line markers, `# 12 "file" 1 3 4`: the flags say 1 entered, 2
returned to, 3 system header, 4 C linkage. The first marker of a text names the source, without a flag. nvcc's
own list of dependencies is a filter over the markers of every pass, device passes first: a name is listed
where a marker gives it the line 1, the first time. That is where a file is entered, or where `#line 1` makes
up a name.

What it says apart from where its lines are is the text that early cut-off goes by. A comment, a licence or a
blank line more moves every line below it. The compilers write where a line is into diagnostics and debug
information, and nowhere else, unless the text itself asks for it (line_readers.py). So cudafe++ and cicc are
keyed by the text without line markers and blank lines, but for those of the files that ask, where
line_options.py finds no reason against it. Found by comparing PTX and objects before and after such edits
(CUDA 11.8 to 13.5).

Facts about a pass are kept in its result (record.py), since the text itself is not: most passes that hit are
read by nobody.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from nvccache.files import keys
from nvccache.preprocessed import line_readers
from nvccache.preprocessed.declaration_heads import UnknownError
from nvccache.values import dataclass

_PLAIN_NAME = re.compile(rb"[ !#-\[\]-~]+")  # it stands in markers as it is
_QUOTE_AFTER_R = re.compile(rb'"(?<=R")')  # many times faster than a search for both
_RAW_STRING = re.compile(rb'R"([^()\\\s]{0,16})\(')
_ESCAPED = re.compile(rb"\\.")
_LAST_WORD = re.compile(rb"\w+$")
_KEPT = b"\n\x01"
_MARKER = re.compile(rb"\n# (\d+) ([^\n]*)")
_BLANK_LINES = re.compile(rb"\n\n+")
# From where a system header is entered, or returned to, to where another file is.
_ENTERS_SYSTEM = re.compile(rb'\n# \d+ "[^\n]*" [12] 3(?: 4)?\n')
_LEAVES_SYSTEM = re.compile(rb'\n# \d+ "[^\n]*" [12](?: 4)?\n')
# What stands between two stretches of text: which of 1 main file, 2 system header, 4 C linkage holds.
_IN_MAIN_FILE, _IN_SYSTEM_HEADER, _IN_C = 1, 2, 4
_MARKS = tuple(b"\x02%d" % kind for kind in range(8))
_AS_IT_IS, _WITH_LINES = b"\x028 ", b"\x029 "
# A block that is left open makes the text of a file one that is not understood.
_ENDS_STATEMENT = re.compile(rb"[;{}]\s*$|\n[ \t]*#[^\n]*\s*$")
_WORTH_KEEPING = 2048  # bytes
_OF_SYSTEM = b""
_LINE = 400  # bytes, about: a longer one that ends a piece is taken for no directive
_SHORT = 8  # digits, which tell that one file is not as it was
_FIRST_MARKER = re.compile(rb'# \d+ "((?:[^"\\]|\\.)*)"([ 0-9]*)')
_FIRST_LINE = re.compile(rb'\n# 1 "((?:[^"\\\n]|\\.)*)"([ 0-9]*)')
# Those of the preprocessor's own places have no text.
_RELATIVE = re.compile(rb'\n# \d+ "(?!/|<built-in>"|<command-line>")')
_ANY = re.compile(rb'^# \d+ "(?:[^"\\\n]|\\.)*"[ 0-9]*\n', re.MULTILINE)
_DIRECTORY = re.compile(rb'(# \d+ "(?:[^"\\\n]|\\.)*"\n)# \d+ "(?:[^"\\\n]|\\.)*//"\n(?=# )')
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a text says apart from where its lines are."""

    digest: str = ""  # empty where any of its lines may be part of it
    files: tuple[tuple[bytes, str], ...] = ()  # the user's, by name in line markers: short digests of each
    asking: frozenset[bytes] | None = None  # those that may ask where they stand; None: it is not known


@dataclass(frozen=True, slots=True)
class _Piece:
    """Text of one file behind a line marker; of system headers it holds markers of its own instead."""

    body: bytes
    number: bytes = b""  # what the marker says: the line
    where: bytes = b""  # and behind that a quoted name and flags

    @property
    def file(self) -> bytes:
        """Its name, `_OF_SYSTEM` for system headers."""
        return self.where.rpartition(b'"')[0][1:]


def meaning_of(text: bytes) -> Meaning:
    kept = _with_raw_strings_kept(text)
    if not kept:
        return Meaning()
    kept = b"\n" + kept
    first = _MARKER.match(kept)
    main = first[2] if first else b'""'
    pieces = list(_pieces(kept, main))
    files: dict[bytes, list[bytes]] = {}
    for piece in pieces:
        if piece.where:
            files.setdefault(piece.file, []).append(_BLANK_LINES.sub(b"\n", piece.body.strip(b"\n")))
    of_files = {name: b"\n".join(parts) for name, parts in files.items()}
    digests = tuple((name, keys.digest_bytes(content)[:_SHORT]) for name, content in of_files.items())
    try:
        asking = _asking(pieces, of_files) if line_readers.are_in(kept) else set()
    except UnknownError:
        return Meaning("", digests)
    kept_parts = _without_lines(pieces, main, asking)
    return Meaning(keys.digest_bytes(b"\n".join(kept_parts)), digests, frozenset(asking))


def _asking(pieces: Iterable[_Piece], of_files: dict[bytes, bytes]) -> set[bytes]:
    """The files that ask where they stand, or share a statement with one that does; raises UnknownError.

    A call may be split between two, and its line be that of either: cicc goes by the closing parenthesis.
    """
    of_system = [piece.body for piece in pieces if not piece.where]
    asking = line_readers.files_asking(of_system, of_files) | {_OF_SYSTEM}
    shared = _shared_statements(pieces)
    while more := {name for pair in shared if not asking.isdisjoint(pair) for name in pair} - asking:
        asking |= more
    return asking - {_OF_SYSTEM}


def _shared_statements(pieces: Iterable[_Piece]) -> set[tuple[bytes, bytes]]:
    """The files of which one goes on with what the other has begun, such as a call."""
    found = set()
    before = _Piece(b";")
    for piece in pieces:
        if piece.body.isspace():
            continue
        if piece.file != before.file and not _ENDS_STATEMENT.search(before.body[-_LINE:]):
            found.add((before.file, piece.file))
        before = piece
    return found


def _pieces(text: bytes, main: bytes) -> Iterator[_Piece]:
    """The text from one marker to the next where there is any; `main` is what the first one says.

    System headers are most of a text and hardly ever edited: they are one piece from where they are entered
    to where a file of another kind is, markers and all, which saves most of the time.
    """
    done = position = 0
    while entered := _ENTERS_SYSTEM.search(text, position):
        start = entered.start()
        left = _LEAVES_SYSTEM.search(text, entered.end() - 1)
        position = left.start() if left else len(text)
        if position - start < _WORTH_KEEPING:
            continue  # such as a header that is entered again, for nothing
        yield from _pieces_of_user(text[done:start], main)
        yield _Piece(text[start:position])
        done = position
    yield from _pieces_of_user(text[done:], main)


def _pieces_of_user(text: bytes, main: bytes) -> Iterator[_Piece]:
    before, *parts = _MARKER.split(text)  # then in turn what a marker says and the text behind it
    for number, where, body in zip(
        [b"0", *parts[::3]], [main, *parts[1::3]], [before, *parts[2::3]], strict=True
    ):
        if len(body) > 1 and body.strip(b"\n"):
            yield _Piece(body, number, where)


def _without_lines(pieces: Iterable[_Piece], main: bytes, asking: set[bytes]) -> list[bytes]:
    """The text without markers and blank lines, with a mark where a file of another standing begins.

    Whether a file is the source itself, a system header or implies C linkage decides which diagnostics
    there are, and what a declaration means. System headers stand as they are, each behind its length, and
    so do files that are `asking`, each behind its marker.
    """
    found: list[bytes] = []
    standings: dict[bytes, bytes] = {}
    standing = b""
    for piece in pieces:
        if not piece.where:
            found += (b"%s%d" % (_AS_IT_IS, len(piece.body)), piece.body)
            standing = b""
        elif piece.file in asking:
            found += (b"%s%s %s" % (_WITH_LINES, piece.number, piece.where), piece.body)
            standing = b""
        else:
            of_piece = standings.setdefault(piece.where, _standing_of(piece.where, main))
            if of_piece is not standing:
                standing = of_piece
                found.append(standing)
            found.append(_BLANK_LINES.sub(b"\n", piece.body.strip(b"\n")))
    return found


def _standing_of(where: bytes, main: bytes) -> bytes:
    """`where` is what follows the number in a line marker: a quoted name and its flags."""
    name, _, flags = where.rpartition(b'"')
    is_main = name == main.rpartition(b'"')[0]
    kind = _IN_MAIN_FILE * is_main + _IN_SYSTEM_HEADER * (b"3" in flags) + _IN_C * (b"4" in flags)
    return _MARKS[kind]


def _with_raw_strings_kept(text: bytes) -> bytes:
    """The text with a mark on each line inside a raw string, where lines are content; empty if in doubt."""
    if _MARKS[0][:1] in text or _KEPT[1:] in text:
        return b""
    parts = []
    done = 0
    for quote in _QUOTE_AFTER_R.finditer(text):
        start = quote.start() - 1
        if start < done:
            continue  # it is inside the last one
        is_string = _begins_raw_string(text, start, done)
        if is_string is None:
            return b""
        if is_string:
            opened = _RAW_STRING.match(text, start)
            end = text.find(b")" + opened[1] + b'"', opened.end()) if opened else -1
            if not opened or end < 0:
                return b""
            end += len(opened[1]) + 2
            parts += [text[done:start], text[start:end].replace(b"\n", _KEPT)]
            done = end
    return b"".join([*parts, text[done:]])


def _begins_raw_string(text: bytes, position: int, done: int) -> bool | None:
    """Whether the `R"` at a position begins a literal: it may end an identifier or another literal.

    `done` is where the last raw string ended. None where the quotation marks before it on its line cannot
    be paired off by counting them.
    """
    line = text[max(done, text.rfind(b"\n", 0, position) + 1) : position]
    plain = _ESCAPED.sub(b"", line)
    if b"'" in plain:
        return None  # a digit separator, or a character literal that may hold quotation marks
    if plain.count(b'"') % 2:
        return False
    word = _LAST_WORD.search(line)
    prefix = word[0] if word else b""
    if prefix not in (b"", b"u8", b"u", b"U", b"L"):
        return False
    # What follows a literal at once may be its suffix.
    return None if text.startswith(b'"', position - len(prefix) - 1) else True


@dataclass(frozen=True, slots=True)
class Pass:
    """Facts about one pass."""

    listed: tuple[tuple[bytes, bool], ...]  # what a dependency file lists, and whether it is of the system
    # The checkout, or else the working directory, if the text does not contain or ask for its path, or empty.
    free_of: str
    meaning: str = ""  # the digest of what it says apart from lines, or empty
    files: tuple[tuple[bytes, str], ...] = ()  # short digests of what each file of the user says, by its name
    is_absolute: bool = False  # each name in its markers is an absolute path

    def is_free_of(self, directory: str) -> bool:
        """Whether the text says nothing of where this directory is, as far as that is known."""
        return self.free_of != "" and f"{directory}/".startswith(f"{self.free_of}/")

    def encoded(self) -> bytes:
        """The form in which a result keeps them."""
        rows = [[_text(name), is_system] for name, is_system in self.listed]
        files = [[_text(name), digest] for name, digest in self.files]
        return json.dumps([rows, self.free_of, self.meaning, files, self.is_absolute]).encode()


def of_text(preprocessed: bytes, places: Iterable[str]) -> Pass:
    """The facts about a pass from what it wrote; `places` are the call's checkout and a directory in it."""
    meaning = meaning_of(preprocessed)
    free = (place for place in places if place and not _may_use(place, preprocessed, meaning.asking))
    listed = tuple(listed_files(preprocessed))
    return Pass(listed, next(free, ""), meaning.digest, meaning.files, are_absolute(preprocessed))


def _may_use(directory: str, text: bytes, asking: frozenset[bytes] | None) -> bool:
    """Whether what is made of a text may depend on the path of a directory.

    The names of files, which stand in the markers, can be asked for. `asking` are the user's that may ask for
    lines, by which they would ask for their names; a system header may do so in its functions.
    """
    needle = os.fsencode(directory)
    is_plain = _PLAIN_NAME.fullmatch(needle) is not None
    if is_plain and needle not in text:
        return False
    if needle in without_markers(text):
        return True
    if not line_readers.are_in(text):
        return False
    if not is_plain or asking is None or any(needle in name for name in asking):
        return True
    of_system = rb'\n# \d+ "[^"\n]*' + re.escape(needle) + rb'[^"\n]*" [12] 3'
    return re.search(of_system, text) is not None


def decoded(facts: bytes) -> Pass:
    """The inverse of `Pass.encoded`; raises ValueError."""
    try:
        rows, free_of, meaning, files, is_absolute = json.loads(facts)
        listed = tuple((_bytes(name), bool(is_system)) for name, is_system in rows)
        digests = tuple((_bytes(name), str(digest)) for name, digest in files)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return Pass(listed, str(free_of), str(meaning), digests, is_absolute is True)


def _text(name: bytes) -> str:
    return name.decode("latin-1")


def _bytes(name: object) -> bytes:
    return str(name).encode("latin-1")


def listed_files(preprocessed: bytes) -> list[tuple[bytes, bool]]:
    """What nvcc lists as dependencies of a pass, the source first, each with whether it is of the system.

    A name may stand there both ways: gcc calls a line of a system header the user's where a macro of his
    is expanded.
    """
    source = _FIRST_MARKER.match(preprocessed)
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
