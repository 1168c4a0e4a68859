"""Damage to command lines: words lost, moved, cut short, joined, or with a byte changed."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable

from generator.values import STRAY_WORDS

# What is left of a relative path must not name a file elsewhere, to which nvcc may write.
_BEGINS_AT_ROOT = re.compile("(^|=)/")
# No slash, so that no word comes to name a file elsewhere, and no NUL, which no argument can hold.
_BYTES = bytes(sorted(set(range(1, 256)) - {ord("/")}))


def damaged(argv: list[str], chance: random.Random, times: int = 0) -> list[str]:
    """The words with so many things done to them, by default one to three."""
    found = list(argv)
    for _ in range(times or chance.choice((1, 1, 2, 3))):
        if found:
            found = chance.choice(_KINDS)(found, chance)
    return [_BEGINS_AT_ROOT.sub(r"\1x/", word) for word in found]


def _truncated(argv: list[str], chance: random.Random) -> list[str]:
    return argv[: chance.randrange(len(argv)) + 1][: -chance.choice((1, 1, 2)) or None] or argv


def _without_one(argv: list[str], chance: random.Random) -> list[str]:
    index = chance.randrange(len(argv))
    return argv[:index] + argv[index + 1 :]


def _with_one_again(argv: list[str], chance: random.Random) -> list[str]:
    return _inserted(argv, chance.choice(argv), chance)


def _with_a_stray_word(argv: list[str], chance: random.Random) -> list[str]:
    return _inserted(argv, chance.choice(STRAY_WORDS), chance)


def _inserted(argv: list[str], word: str, chance: random.Random) -> list[str]:
    index = chance.randrange(len(argv) + 1)
    return [*argv[:index], word, *argv[index:]]


def _with_two_swapped(argv: list[str], chance: random.Random) -> list[str]:
    one, two = chance.randrange(len(argv)), chance.randrange(len(argv))
    found = list(argv)
    found[one], found[two] = argv[two], argv[one]
    return found


def _with_one_cut(argv: list[str], chance: random.Random) -> list[str]:
    index = chance.randrange(len(argv))
    word = argv[index]
    cut = chance.randrange(len(word) + 1)
    parts = chance.choice(([word[:cut]], [word[:cut], word[cut:]]))
    return [*argv[:index], *parts, *argv[index + 1 :]]


def _with_two_joined(argv: list[str], chance: random.Random) -> list[str]:
    index = chance.randrange(len(argv))
    return [*argv[:index], "".join(argv[index : index + 2]), *argv[index + 2 :]]


def _with_random_bytes(argv: list[str], chance: random.Random) -> list[str]:
    index = chance.randrange(len(argv))
    word = os.fsencode(argv[index])
    start = chance.randrange(len(word) + 1)
    added = bytes(chance.choice(_BYTES) for _ in range(chance.choice((1, 1, 2, 8))))
    changed = word[:start] + added + word[start + chance.choice((0, 1)) :]
    return [*argv[:index], os.fsdecode(changed), *argv[index + 1 :]]


_KINDS: tuple[Callable[[list[str], random.Random], list[str]], ...] = (
    _truncated,
    _without_one,
    _with_one_again,
    _with_a_stray_word,
    _with_a_stray_word,
    _with_two_swapped,
    _with_one_cut,
    _with_two_joined,
    _with_random_bytes,
    _with_random_bytes,
)
