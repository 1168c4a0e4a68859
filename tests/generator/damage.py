"""Damage to command lines: words lost, moved, cut short, joined, or with a byte changed."""

from __future__ import annotations

import os
import random
import re

from generator.values import STRAY_WORDS

# What is left of a relative path must not name a file elsewhere, to which nvcc may write.
_BEGINS_AT_ROOT = re.compile("(^|=)/")
# No slash, so that no word comes to name a file elsewhere, and no NUL, which no argument can hold.
_BYTES = bytes(sorted(set(range(1, 256)) - {ord("/")}))
_KINDS = (
    "cut short",
    "one lost",
    "one again",
    "stray",
    "stray",
    "swapped",
    "cut",
    "joined",
    "bytes",
    "bytes",
)


def damaged(argv: list[str], chance: random.Random, times: int = 0) -> list[str]:
    """The words with so many things done to them, by default one to three."""
    found = list(argv)
    for _ in range(times or chance.choice((1, 1, 2, 3))):
        if found:
            found = _damaged(found, chance.choice(_KINDS), chance)
    return [_BEGINS_AT_ROOT.sub(r"\1x/", word) for word in found]


def _damaged(argv: list[str], kind: str, chance: random.Random) -> list[str]:
    index, other = chance.randrange(len(argv)), chance.randrange(len(argv))
    before, word, after = argv[:index], argv[index], argv[index + 1 :]
    if kind == "shortened":
        return before or argv
    if kind == "lost":
        return before + after
    if kind in ("again", "stray"):
        return [*before, argv[other] if kind == "again" else chance.choice(STRAY_WORDS), word, *after]
    if kind == "swapped":
        found = list(argv)
        found[index], found[other] = argv[other], word
        return found
    if kind == "joined":
        return [*before, "".join(argv[index : index + 2]), *argv[index + 2 :]]
    raw = os.fsencode(word)
    if kind == "cut":
        cut = chance.randrange(len(raw) + 1)
        parts = chance.choice(([raw[:cut]], [raw[:cut], raw[cut:]]))
        return [*before, *map(os.fsdecode, parts), *after]
    start = chance.randrange(len(raw) + 1)
    added = bytes(chance.choice(_BYTES) for _ in range(chance.choice((1, 1, 2, 8))))
    changed = raw[:start] + added + raw[start + chance.choice((0, 1)) :]
    return [*before, os.fsdecode(changed), *after]
