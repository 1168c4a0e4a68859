"""Random sources: a real one with things done to its bytes, or bytes alone."""

from __future__ import annotations

import random

from scenarios.support.sources import SOURCES

_BASES = ("a.cu", "b.cu", "internal.cu", "macros.cu", "headers.cu", "features.cu", "device_warning.cu")
_FRAGMENTS = (
    *(b"\0", b"\xff\xfe", b"\xc3", b"\xef\xbb\xbf", b"\r\n", b"\\\n", b'"', b"/*", b"*/", b"/*\0\xff*/"),
    *(b'\n#line 7 "x\xff.h"\n', b'\n# 1 "one.h" 1\n', b'\n#include "m.cu"\n', b'\n#include "one.h"\n'),
    *(b"\n#error \xff\n", b"\n#warning \xe9\0\n", b"\n#if 0\n\xff\xff\n#endif\n", b"\n#define X \xff\n"),
    *(b'\nconst char *s = "\xff\xfe\0";\n', b'\nstatic const char *const t = R"x(\xff"\n)x";\n'),
    b"\n__global__ void more(int *x) { x[1] = __LINE__; }\nconst char *f = __FILE__;\n",
    b'\n#if __has_include("two.h")\n#include "two.h"\n#endif\n',
)


def make_source(seed: str) -> bytes:
    """The source of a seed; half of them still mean something to a compiler."""
    chance = random.Random(f"{seed} source")
    if chance.random() < 0.06:
        return chance.randbytes(chance.choice((0, 1, 7, 300, 5000)))
    text = SOURCES[chance.choice(_BASES)].encode()
    is_rough = chance.random() < 0.5
    for _ in range(chance.choice((1, 1, 2, 4))):
        text = (_damaged if is_rough and chance.random() < 0.5 else _edited)(text, chance)
    return text


def _edited(text: bytes, chance: random.Random) -> bytes:
    """A fragment between two lines, a comment of any bytes, many lines, or other ends of lines."""
    lines = text.split(b"\n")
    index = chance.randrange(len(lines))
    comment = bytes(byte for byte in chance.randbytes(chance.choice((3, 40, 400))) if byte not in b"*\n\\?")
    return chance.choice(
        (
            b"\n".join([*lines[:index], chance.choice(_FRAGMENTS), *lines[index:]]),
            b"/*" + comment + b"*/" + text,
            b"\n" * chance.choice((3_000, 70_000)) + text,
            text.replace(b"\n", chance.choice((b"\r\n", b"\n\n", b" \n"))),
        )
    )


def _damaged(text: bytes, chance: random.Random) -> bytes:
    """A fragment anywhere, another byte, or the text cut off."""
    index = chance.randrange(len(text) + 1)
    added = chance.choice((chance.choice(_FRAGMENTS), chance.randbytes(1), b""))
    return text[:index] + added + (text[index + len(added) :] if added else b"")
