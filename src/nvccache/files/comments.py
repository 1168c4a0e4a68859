"""The text of a C++ source without the comments that cannot change the preprocessor's output.

Only comments at the end of a line are removed, so that no token moves; newlines stay. What might not be a
comment is left as it is: lines with quotation marks, directives with `<` (`#include <a//b>`), lines that
continue the line before or on which a comment ends, comments with a backslash, those that silence gcc
(`/* fall through */`), and those of which it may warn. A line is treated in the same way whether or not it is
inside a comment that began on an earlier line.

Not to be used if anything but the preprocessor reads the file, or if there are messages: these quote sources.
"""

from __future__ import annotations

import re

from nvccache.files import keys, untrusted

LARGEST = 1 << 18  # bytes; more would take longer than a few milliseconds
# A raw string can look like code, trigraphs and blanks after a backslash can continue a line, and for gcc a
# lone carriage return ends a line.
_UNCLEAR = rb'R(?:\\\r?\n)*"|\?\?|\\[ \t\f\v\r]+\n|\r(?!\n)'
_COMMENT = rb"""(?mx)
    ^ (?<!\\\n) (?! [^\n]* (?:\#|%:) [^\n]* < )
    (?P<code> [^"'/\\\n]* (?: (?<!\*) / (?![/*]) [^"'/\\\n]* )* ) (?<!\*)
    (?: // (?: (?!\*/) [^\\\n] )* | /\* (?!/) (?: (?!\*/) [^\\] )* \*/ [ \t\r]* ) $
"""
# The last two make gcc warn: `/*` in a comment, and characters that change the direction of writing.
_KEPT = rb"(?is)fall|lint|./\*|[\xd8\xe2]"


def without_comments(text: bytes) -> bytes:
    if b"//" not in text and b"/*" not in text:
        return text
    try:
        text.decode()
    except UnicodeDecodeError:  # of which clang warns in comments
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
    """The digest of a file without comments; raises OSError, also if it is larger than LARGEST."""
    return keys.digest_bytes(without_comments(untrusted.read_named(path, LARGEST)))
