"""Removes those comments from a C++ source that cannot change the preprocessor's output.

Only comments at the end of a line are removed, so that no token moves; newlines stay. Text that may not be a
comment also stays: on a line with quotation marks, on a directive with `<` (`#include <a//b>`), on a line
that continues the line before, or on one where another comment ends. Comments also stay if they contain a
backslash, suppress a warning of gcc (`/* fall through */`), or may cause one. A line is treated in the same
way whether or not it is inside a comment that began on an earlier line.

Do not use this if other tools than the preprocessor read the file, or if messages may quote the source.
"""

from __future__ import annotations

import re

from nvccache.files import keys, untrusted

LARGEST = 1 << 18  # bytes; a larger file would take more than a few milliseconds
# Files with these are not changed: a raw string can look like code, trigraphs and blanks after a backslash
# can continue a line, and for gcc, a lone carriage return ends a line.
_UNCLEAR = rb'R(?:\\\r?\n)*"|\?\?|\\[ \t\f\v\r]+\n|\r(?!\n)'
_COMMENT = rb"""(?mx)
    ^ (?<!\\\n) (?! [^\n]* (?:\#|%:) [^\n]* < )
    (?P<code> [^"'/\\\n]* (?: (?<!\*) / (?![/*]) [^"'/\\\n]* )* ) (?<!\*)
    (?: // (?: (?!\*/) [^\\\n] )* | /\* (?!/) (?: (?!\*/) [^\\] )* \*/ [ \t\r]* ) $
"""
# Comments with these stay. gcc warns of the last two: `/*`, and characters that change the text's direction.
_KEPT = rb"(?is)fall|lint|./\*|[\xd8\xe2]"


def without_comments(text: bytes) -> bytes:
    if b"//" not in text and b"/*" not in text:
        return text
    try:
        text.decode()
    except UnicodeDecodeError:  # clang warns of invalid UTF-8 in comments
        return text
    return text if re.search(_UNCLEAR, text) else re.sub(_COMMENT, _code_of, text)


def _code_of(match: re.Match[bytes]) -> bytes:
    code = match["code"]
    comment = match[0][len(code) :]
    if re.search(_KEPT, comment):
        return match[0]
    if comment.startswith(b"//"):
        return code.rstrip(b" \t")
    return code + b"/*" + b"\n" * comment.count(b"\n") + b"*/"


def digest_of_code(path: str) -> str:
    """The digest of a file without comments; raises OSError, for example if it is larger than LARGEST."""
    return keys.digest_bytes(without_comments(untrusted.read_named(path, LARGEST)))
