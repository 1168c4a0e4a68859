"""What a preprocessed text says apart from where its lines are: the text that early cut-off goes by.

A comment, a licence or a blank line more moves every line below it. The compilers write where a line is
into diagnostics and debug information, and nowhere else, unless the text itself asks for it
(line_readers.py). So cudafe++ and cicc are keyed by the text without line markers and blank lines, where
line_options.py finds no reason against it. Found by comparing PTX and objects before and after such edits
(CUDA 11.8 to 13.5).
"""

from __future__ import annotations

import re

from nvccache.files import keys
from nvccache.preprocessed import line_readers

_QUOTE_AFTER_R = re.compile(rb'"(?<=R")')  # many times faster than a search for both
_RAW_STRING = re.compile(rb'R"([^()\\\s]{0,16})\(')
_ESCAPED = re.compile(rb"\\.")
_LAST_WORD = re.compile(rb"\w+$")
_KEPT = b"\n\x01"
_MARKER = re.compile(rb"\n# \d+ ([^\n]*)")
_BLANK_LINES = re.compile(rb"\n\n+")
# From where a system header is entered, or returned to, to where another file is.
_ENTERS_SYSTEM = re.compile(rb'\n# \d+ "[^\n]*" [12] 3(?: 4)?\n')
_LEAVES_SYSTEM = re.compile(rb'\n# \d+ "[^\n]*" [12](?: 4)?\n')
# What stands between two stretches of text: which of 1 main file, 2 system header, 4 C linkage holds.
_IN_MAIN_FILE, _IN_SYSTEM_HEADER, _IN_C = 1, 2, 4
_MARKS = tuple(b"\x02%d" % kind for kind in range(8))
_AS_IT_IS = b"\x028 "
_WORTH_KEEPING = 2048  # bytes
_SHORT = 8  # digits, which tell that one file is not as it was


def digest_of(text: bytes) -> str:
    """The digest of what a preprocessed text says, or empty if where its lines are may be part of it."""
    return digests_of(text)[0]


def digests_of(text: bytes) -> tuple[str, dict[bytes, str]]:
    """That digest, and a short one of what each file of the user says, by its name in line markers."""
    kept = _with_raw_strings_kept(text)
    if not kept:
        return "", {}
    files: dict[bytes, list[bytes]] = {}
    said, of_system = _said(kept, files)
    of_files = {name: keys.digest_bytes(b"\n".join(parts))[:_SHORT] for name, parts in files.items() if parts}
    if line_readers.are_in(kept) and line_readers.reach(of_system, b"\n".join(_without(said, of_system))):
        return "", of_files
    return keys.digest_bytes(b"\n".join(said)), of_files


def _said(text: bytes, files: dict[bytes, list[bytes]]) -> tuple[list[bytes], list[bytes]]:
    """The text without markers and blank lines, with a mark where a file of another standing begins.

    Whether a file is the source itself, a system header or implies C linkage decides which diagnostics
    there are, and what a declaration means. System headers are most of a text and hardly ever edited: they
    stand as they are, each behind its length, which saves most of the time; the second list is of them alone.
    What other files say is added to `files`.
    """
    text = b"\n" + text
    first = _MARKER.match(text)
    main = first[1] if first else b""
    said: list[bytes] = []
    of_system: list[bytes] = []
    done = position = 0
    while entered := _ENTERS_SYSTEM.search(text, position):
        start = entered.start()
        left = _LEAVES_SYSTEM.search(text, entered.end() - 1)
        position = left.start() if left else len(text)
        if position - start < _WORTH_KEEPING:
            continue  # such as a header that is entered again, for nothing
        said += _said_by_user(text[done:start], main, files)
        of_system.append(text[start:position])
        said += (b"%s%d" % (_AS_IT_IS, position - start), of_system[-1])
        done = position
    return said + _said_by_user(text[done:], main, files), of_system


def _without(said: list[bytes], of_system: list[bytes]) -> list[bytes]:
    known = set(map(id, of_system))
    return [part for part in said if id(part) not in known]


def _said_by_user(text: bytes, main: bytes, files: dict[bytes, list[bytes]]) -> list[bytes]:
    before, *parts = _MARKER.split(text)  # then in turn what a marker says and the text behind it
    pairs = zip([main, *parts[::2]], [before, *parts[1::2]], strict=True)
    stretches = [(where, body) for where, body in pairs if len(body) > 1]
    markers = {where for where, _ in stretches}
    standings = {where: _standing_of(where, main) for where in markers}
    of_file = {where: files.setdefault(where.rpartition(b'"')[0][1:], []) for where in markers}
    said: list[bytes] = []
    standing = b""
    for where, body in stretches:
        words = body.strip(b"\n")
        if words:
            if standings[where] is not standing:
                standing = standings[where]
                said.append(standing)
            said.append(_BLANK_LINES.sub(b"\n", words))
            of_file[where].append(said[-1])
    return said


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
