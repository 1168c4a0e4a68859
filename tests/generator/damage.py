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


def damaged(words: list[str], chance: random.Random, times: int = 0) -> list[str]:
    """The words with so many things done to them, by default one to three."""
    found = list(words)
    for _ in range(times or chance.choice((1, 1, 2, 3))):
        if found:
            found = chance.choice(_KINDS)(found, chance)
    return [_BEGINS_AT_ROOT.sub(r"\1x/", word) for word in found]


def _truncated(words: list[str], chance: random.Random) -> list[str]:
    return words[: chance.randrange(len(words)) + 1][: -chance.choice((1, 1, 2)) or None] or words


def _without_one(words: list[str], chance: random.Random) -> list[str]:
    index = chance.randrange(len(words))
    return words[:index] + words[index + 1 :]


def _with_one_again(words: list[str], chance: random.Random) -> list[str]:
    return _inserted(words, chance.choice(words), chance)


def _with_a_stray_word(words: list[str], chance: random.Random) -> list[str]:
    return _inserted(words, chance.choice(STRAY_WORDS), chance)


def _inserted(words: list[str], word: str, chance: random.Random) -> list[str]:
    index = chance.randrange(len(words) + 1)
    return [*words[:index], word, *words[index:]]


def _with_two_swapped(words: list[str], chance: random.Random) -> list[str]:
    one, two = chance.randrange(len(words)), chance.randrange(len(words))
    found = list(words)
    found[one], found[two] = words[two], words[one]
    return found


def _with_one_cut(words: list[str], chance: random.Random) -> list[str]:
    index = chance.randrange(len(words))
    word = words[index]
    cut = chance.randrange(len(word) + 1)
    parts = chance.choice(([word[:cut]], [word[:cut], word[cut:]]))
    return [*words[:index], *parts, *words[index + 1 :]]


def _with_two_joined(words: list[str], chance: random.Random) -> list[str]:
    index = chance.randrange(len(words))
    return [*words[:index], "".join(words[index : index + 2]), *words[index + 2 :]]


def _with_random_bytes(words: list[str], chance: random.Random) -> list[str]:
    index = chance.randrange(len(words))
    word = os.fsencode(words[index])
    start = chance.randrange(len(word) + 1)
    added = bytes(chance.choice(_BYTES) for _ in range(chance.choice((1, 1, 2, 8))))
    changed = word[:start] + added + word[start + chance.choice((0, 1)) :]
    return [*words[:index], os.fsdecode(changed), *words[index + 1 :]]


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
