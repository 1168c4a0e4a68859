"""Random sources: a real one with things done to its bytes, or bytes alone."""

from __future__ import annotations

import random
from collections.abc import Callable

from scenarios.support.sources import SOURCES

_BASES = ("a.cu", "b.cu", "internal.cu", "macros.cu", "headers.cu", "features.cu", "device_warning.cu")
_FRAGMENTS = (
    b"\0",
    b"\xff\xfe",
    b"\xc3",  # the beginning of a character
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\r",
    b"\\\n",
    b"\\",
    b"\f\v",
    b"\x1a",
    b'"',
    b"'",
    b"/*",
    b"*/",
    b"//\xe9\n",
    b"/*\0\xff*/",
    b'\n#line 7 "x\xff.h"\n',
    b'\n# 1 "one.h" 1\n',
    b'\n#include "m.cu"\n',
    b'\n#include "one.h"\n',
    b"\n#pragma once\n",
    b"\n#pragma nv_diag_suppress 177\n",
    b"\n#error \xff\n",
    b"\n#warning \xe9\0\n",
    b"\n#if 0\n\xff\xff\n#endif\n",
    b"\n#define X \xff\n",
    b"??=define Q 1\n",
    b"\nint caf\xc3\xa9;\n",
    b'\nconst char *s = "\xff\xfe\0";\n',
    b'\nstatic const char *const t = R"x(\xff"\n)x";\n',
    b"\nint i = __LINE__; const char *f = __FILE__;\n",
    b'\n#ident "\xff"\n',
    b"\n__global__ void more(int *x) { x[1] = __LINE__; }\n",
    b'\nasm("");\n',
    b'__has_include("two.h")',
    b'\n#if __has_include("two.h")\n#include "two.h"\n#endif\n',
)


def make_source(seed: str) -> bytes:
    """The source of a seed; half of them still mean something to a compiler."""
    chance = random.Random(f"{seed} source")
    if chance.random() < 0.06:
        return chance.randbytes(chance.choice((0, 1, 7, 300, 5000)))
    text = SOURCES[chance.choice(_BASES)].encode()
    kinds = _GENTLE if chance.random() < 0.5 else (*_GENTLE, *_ROUGH)
    for _ in range(chance.choice((1, 1, 2, 4))):
        text = chance.choice(kinds)(text, chance)
    return text


def _between_lines(text: bytes, chance: random.Random) -> bytes:
    lines = text.split(b"\n")
    index = chance.randrange(len(lines))
    return b"\n".join([*lines[:index], chance.choice(_FRAGMENTS), *lines[index:]])


def _with_comment(text: bytes, chance: random.Random) -> bytes:
    content = bytes(byte for byte in chance.randbytes(chance.choice((3, 40, 400))) if byte not in b"*\n\\?")
    return b"/*" + content + b"*/" + text


def _with_string(text: bytes, chance: random.Random) -> bytes:
    content = bytes(byte for byte in chance.randbytes(chance.choice((3, 40))) if byte not in b'"\n\\\r\0?')
    return text + b'\nextern const char text[];\nconst char text[] = "' + content + b'";\n'


def _with_long_line(text: bytes, chance: random.Random) -> bytes:
    size = chance.choice((5_000, 70_000, 1_500_000))
    return text + chance.choice(
        (b"\n//" + b"x" * size, b"\n" + b" " * size, b"\nint y" + b"y" * (size // 9) + b";")
    )


def _with_many_lines(text: bytes, chance: random.Random) -> bytes:
    return b"\n" * chance.choice((3_000, 70_000)) + text


def _with_other_line_ends(text: bytes, chance: random.Random) -> bytes:
    return text.replace(b"\n", chance.choice((b"\r\n", b"\n\n", b" \n")))


def _without_end(text: bytes, chance: random.Random) -> bytes:
    return text.rstrip()


def _with_fragment(text: bytes, chance: random.Random) -> bytes:
    index = chance.randrange(len(text) + 1)
    return text[:index] + chance.choice(_FRAGMENTS) + text[index:]


def _with_changed_bytes(text: bytes, chance: random.Random) -> bytes:
    found = bytearray(text)
    for _ in range(chance.choice((1, 1, 3, 20))):
        if found:
            found[chance.randrange(len(found))] = chance.randrange(256)
    return bytes(found)


def _truncated(text: bytes, chance: random.Random) -> bytes:
    return text[: chance.randrange(len(text) + 1)]


def _with_part_again(text: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(text) + 1)
    part = text[start : start + chance.choice((1, 10, 200))]
    index = chance.randrange(len(text) + 1)
    return text[:index] + part + text[index:]


_GENTLE: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _between_lines,
    _between_lines,
    _with_comment,
    _with_string,
    _with_long_line,
    _with_many_lines,
    _with_other_line_ends,
    _without_end,
)
_ROUGH: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _with_fragment,
    _with_changed_bytes,
    _with_changed_bytes,
    _truncated,
    _with_part_again,
)
