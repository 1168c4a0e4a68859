"""Paths under the base directory, written so that they mean the same in another checkout.

`NVCCACHE_BASE_DIR` names a directory that holds checkouts. A path below it is kept as the way to it
from the working directory, behind a mark that tells it from a path that was typed like that:
`/base/one/src/a.cu` seen from `/base/one/build` is `<mark>1/src/a.cu`, one level up and then down.
Everything after what the two have in common stays to the letter, so that the path of the other checkout
is the one nvcc would print. A path that has nothing in common with the working directory below the base is
in no checkout of this call's: it stays as it is, and is the same for all.

Part of the hot path.
"""

from __future__ import annotations

import os

MARK = "\1"
_DELIMITERS = "=,:;\"' \t"  # what can stand before a path within an option's value, or end it
_GLUING = ("-I", "-L")
_MAPS = "-prefix-map="  # of files, macros, debug information


class Relocation:
    """The base directory and the working directory of one call; `base` is empty for no relocation."""

    __slots__ = ("_parts", "base")

    def __init__(self, base_dir: str, cwd: str) -> None:
        base = base_dir.rstrip("/")
        if base and not _is_below(cwd, base):
            base = os.path.realpath(base)  # the working directory comes with links resolved
        self.base = base if len(base) > 1 and _is_below(cwd, base) else ""
        self._parts = cwd[len(self.base) + 1 :].split("/") if len(cwd) > len(self.base) else []

    def encode(self, path: str) -> str:
        """A path as it can be kept; one that is not below the base directory stays as it is."""
        if path.startswith(MARK):
            return MARK + path  # typed like that
        if not self.base or not _is_below(path, self.base):
            return path
        parts = path[len(self.base) + 1 :].split("/") if len(path) > len(self.base) else []
        common = 0
        for ours, theirs in zip(self._parts, parts, strict=False):
            if ours != theirs:
                break
            common += 1
        if not common:
            return path
        return f"{MARK}{len(self._parts) - common}" + "".join(["/" + part for part in parts[common:]])

    @property
    def checkout(self) -> str:
        """The directory in which paths are encoded, with the working directory in it; or empty."""
        return "/".join([self.base, *self._parts[:1]])

    def decode(self, kept: str) -> str:
        """The path in this checkout of what `encode` kept; raises ValueError where it leads above base."""
        if not kept.startswith(MARK):
            return kept
        if kept.startswith(MARK + MARK):
            return kept[1:]
        up, slash, rest = kept[1:].partition("/")
        if not self.base or not up.isdecimal() or int(up) > len(self._parts):
            raise ValueError("a path above the base directory")
        return "/".join([self.base, *self._parts[: len(self._parts) - int(up)]]) + slash + rest

    def encode_within(self, text: str) -> str:
        """A word with each path below the base directory in it encoded: `-ffile-prefix-map=/base/one=.`"""
        if not self.base:
            return text
        start = text.find(self.base)
        while start >= 0:
            end = start
            while end < len(text) and text[end] not in _DELIMITERS:
                end += 1
            if start == 0 or text[start - 1] in _DELIMITERS or text[start - 2 : start] in _GLUING:
                kept = self.encode(text[start:end])
                text = text[:start] + kept + text[end:]
                end = start + len(kept)
            start = text.find(self.base, end)
        return text

    def below_base(self, paths: list[str]) -> list[str]:
        """Those of some paths that are below the base directory, encoded."""
        return [self.encode(path) for path in paths if self.base and _is_below(path, self.base)]

    def mapped_directory(self, word: str) -> list[str]:
        """The working directory as a word maps it: `./one/build` by `-ffile-prefix-map=/base=.`.

        Such a name tells one checkout from another without the base directory in it.
        """
        cwd = "/".join([self.base, *self._parts])
        found = []
        start = word.find(_MAPS)
        while start >= 0:
            start += len(_MAPS)
            old, _, new = word[start:].partition("=")
            if cwd.startswith(old):
                for delimiter in _DELIMITERS:
                    new = new.partition(delimiter)[0]
                found.append(new + cwd[len(old) :])
            start = word.find(_MAPS, start)
        return found


def _is_below(path: str, base: str) -> bool:
    return path == base or path.startswith(base + "/")
