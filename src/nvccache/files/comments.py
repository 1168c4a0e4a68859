"""Removes those comments from a C++ source that cannot change the preprocessor's output.

Only comments at the end of a line are removed, so that no token moves; newlines stay. Text that may not be a
comment also stays: on a line with quotation marks, on a directive with `<` (`#include <a//b>`), on a line
that continues the line before or is continued, or on one where another comment ends. Comments also stay if
they suppress a warning of gcc (`/* fall through */`), or may cause one. A line is treated in the same way
whether or not it is inside a comment that began on an earlier line. launcher/comments.c does the same.

Do not use this if other tools than the preprocessor read the file, or if messages may quote the source.
Direct hits in another checkout load this module. So it uses no regular expressions: loading `re` takes 5 ms.
"""

from __future__ import annotations

from nvccache.files import keys, untrusted

LARGEST = 1 << 18  # bytes; a larger file would take more than a few milliseconds
_BLANKS = b" \t\f\v\r\0"  # for gcc, between a backslash and the end of a line
# Comments with these stay: the first two silence a warning of gcc, the others may cause one. All but `/*` may
# begin a character that reverses text.
_KEPT = (b"fall", b"lint", b"/*", b"\\u", b"\\n{", b"\xd8", b"\xe2")


def without_comments(text: bytes) -> bytes:
    if (b"//" not in text and b"/*" not in text) or _is_unclear(text):
        return text
    text += b"\n"
    parts = []
    copied = at = 0
    while (start := text.find(b"/", at)) >= 0:
        at = start + 1
        if text[at] not in b"/*":
            continue
        at = text.find(b"\n", start)
        end = _end_of_comment(text, start, at)
        at = end or at
        code, comment = text[copied:start], text[start:end].lower()
        if not end or [kept for kept in _KEPT if comment.find(kept, 1) > 0]:
            continue
        is_block = comment.startswith(b"/*")
        parts.append(code + b"/*%s*/" % (b"\n" * comment.count(b"\n")) if is_block else code.rstrip(b" \t"))
        copied = end
    return b"".join([*parts, text[copied:-1]])


def _is_unclear(text: bytes) -> bool:
    """Whether a text may have a raw string, a trigraph, or an unusual end of a line, or is not UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:  # clang warns of invalid UTF-8 in comments
        return True
    lines = text.split(b"\n")[:-1] if b"\\" in text else ()
    return (
        b'R"' in text.replace(b"\\\n", b"")
        or b"??" in text
        or text.count(b"\r") > text.count(b"\r\n")  # for gcc, a lone carriage return ends a line
        or any(line.rstrip(_BLANKS)[-1:] == b"\\" != line[-1:] for line in lines)  # also continues a line
    )


def _end_of_comment(text: bytes, start: int, line_end: int) -> int:
    """The end of a comment's last line; 0 if the comment must stay."""
    begin = text.rfind(b"\n", 0, start) + 1
    close = text.find(b"*/", start + 2) if text[start + 1] in b"*" else line_end
    end = text.find(b"\n", close)
    code, line, whole = text[begin:start], text[begin:line_end], text[begin : close + 1]
    names_file = b"<" in line and b"<" in line.partition(b"#")[2] + line.partition(b"%:")[2]
    is_joined = b"\\" in code or b"\\\n" in whole or b"*/" in whole or text.endswith(b"\\\n", 0, begin)
    is_last = close > 0 and not text[close + 2 : end].strip(b" \t\r")
    return end if is_last and not (is_joined or names_file or b'"' in code or b"'" in code) else 0


def digest_of_code(path: str) -> str:
    """The digest of a file without comments; raises OSError, for example if it is larger than LARGEST."""
    return keys.digest_bytes(without_comments(untrusted.read_named(path, LARGEST)))
