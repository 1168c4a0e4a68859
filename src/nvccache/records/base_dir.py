"""Paths in a checkout, written so that they mean the same in another one.

A path in the checkout is kept as the way to it from the working directory, behind a mark that tells it from
a path that was typed like that: `/base/one/src/a.cu` relative to `/base/one/build` is `<mark>1/src/a.cu`, one
level up and then down. Everything after what the two have in common stays to the letter, so that the path of
the other checkout is the one nvcc would print. A path that is not in the checkout stays as it is, and is the
same for all.

`NVCCACHE_BASE_DIR` names a directory that holds checkouts: the checkout is what lies in there and has the
working directory in it. Where it is not set, the checkout is the innermost directory with the working
directory and the sources in it.

Part of the hot path.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MARK = "\1"
_DELIMITERS = "=,:;\"' \t"  # what can stand before a path within an option's value, or end it
_GLUING = ("-I", "-L")
_MAPS = "-prefix-map="  # of files, macros, debug information


class Relocation:
    """The checkout that a call is made in, and its working directory."""

    __slots__ = ("_above", "_parts", "base", "checkout", "cwd")

    def __init__(self, base_dir: str, cwd: str, sources: Iterable[str] = ()) -> None:
        """`sources` tell where the checkout is if no base directory is set; none for no relocation."""
        self.cwd = cwd  # an absolute path
        self.base = _base_of(base_dir, cwd)  # as it was set; empty if it does not hold the working directory
        # Empty for no relocation.
        self.checkout = "" if self.base else _common_directory(cwd, sources)
        self._above = (self.base or os.path.dirname(self.checkout)).rstrip("/")
        inner = cwd[len(self._above) + 1 :] if self.base or self.checkout else ""
        self._parts = inner.split("/") if inner else []
        if self.base:
            self.checkout = "/".join([self.base, *self._parts[:1]])

    def in_place(self) -> Relocation:
        """The same call with all its paths as they are."""
        made = Relocation("", self.cwd)
        made.base = self.base
        return made

    def of_directory(self) -> Relocation:
        """The same call with the working directory as its checkout."""
        made = Relocation("", self.cwd, [os.path.join(self.cwd, "source")])
        made.base = self.base
        return made

    def encode(self, path: str) -> str:
        """A path as it can be kept; one that is not in the checkout stays as it is."""
        if path.startswith(MARK):
            return MARK + path  # typed like that
        if not self._parts or not _is_below(path, self.checkout):
            return path
        parts = path[len(self._above) + 1 :].split("/")
        common = 0
        for ours, theirs in zip(self._parts, parts, strict=False):
            if ours != theirs:
                break
            common += 1
        return f"{MARK}{len(self._parts) - common}" + "".join(["/" + part for part in parts[common:]])

    def decode(self, kept: str) -> str:
        """The path in this checkout of what `encode` kept; raises ValueError where it leads above base."""
        if not kept.startswith(MARK):
            return kept
        if kept.startswith(MARK + MARK):
            return kept[1:]
        up, slash, rest = kept[1:].partition("/")
        if not self.checkout or not up.isdecimal() or int(up) > len(self._parts):
            raise ValueError("a path above the base directory")
        return "/".join([self._above, *self._parts[: len(self._parts) - int(up)]]) + slash + rest

    def encode_within(self, text: str) -> str:
        """A word with each path of the checkout in it encoded: `-ffile-prefix-map=/base/one=.`"""
        if not self.checkout:
            return text
        start = text.find(self.checkout)
        while start >= 0:
            end = start
            while end < len(text) and text[end] not in _DELIMITERS:
                end += 1
            if start == 0 or text[start - 1] in _DELIMITERS or text[start - 2 : start] in _GLUING:
                kept = self.encode(text[start:end])
                text = text[:start] + kept + text[end:]
                end = start + len(kept)
            start = text.find(self.checkout, end)
        return text

    def in_checkout(self, paths: Iterable[str]) -> list[str]:
        """Those of some paths that are in the checkout, encoded."""
        return [self.encode(path) for path in paths if self.checkout and _is_below(path, self.checkout)]

    def mapped_directory(self, word: str) -> list[str]:
        """The working directory as a word maps it: `./one/build` by `-ffile-prefix-map=/base=.`.

        Such a name tells one checkout from another without the base directory in it.
        """
        cwd = self.cwd
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


def path_from(kept: str, cwd: str) -> str:
    """The path that `Relocation.encode` kept for a call in this working directory."""
    up, _, rest = kept[1:].partition("/")
    if not kept.startswith(MARK) or not up.isdecimal():
        return os.path.join(cwd, kept.removeprefix(MARK))
    return os.path.normpath(os.path.join(cwd, *[".."] * int(up), rest))


def _is_below(path: str, base: str) -> bool:
    return path == base or path.startswith(base + "/")


def _base_of(base_dir: str, cwd: str) -> str:
    base = base_dir.rstrip("/")
    if base and not _is_below(cwd, base):
        base = os.path.realpath(base)  # the working directory comes with links resolved
    return base if len(base) > 1 and _is_below(cwd, base) else ""


def _common_directory(cwd: str, sources: Iterable[str]) -> str:
    """The innermost directory with all of these in it; empty if that is the root, or without a source."""
    paths = [os.path.dirname(os.path.normpath(os.path.join(cwd, source))) for source in sources]
    if not paths or not cwd.startswith("/") or cwd.startswith("//"):
        return ""
    return os.path.commonpath([cwd, *paths]).rstrip("/")
