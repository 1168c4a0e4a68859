"""Encodes paths in a checkout so that they are valid in another checkout.

A path in the checkout is stored relative to the working directory, after a mark byte that no typed path
starts with: `/base/one/src/a.cu` relative to `/base/one/build` is `<mark>1/src/a.cu`, one level up and then
down. Everything after the common prefix is kept verbatim, so that the decoded path is the one nvcc would
print in the other checkout. Paths outside the checkout are stored unchanged.

`NVCCACHE_BASE_DIR` names a directory that holds checkouts: the checkout is its subdirectory that contains the
working directory, or the base directory itself if it has a `.git`. With `auto`, it is the outermost directory
with a `.git`. If it is unset, no path is encoded.

Part of the hot path.
"""

from __future__ import annotations

import os

from nvccache.config import AUTO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MARK = "\1"
_DELIMITERS = "=,:;\"' \t"  # characters that can precede or end a path within an option's value
_PREFIX_MAP = "-prefix-map="  # of files, macros, debug information


class Relocation:
    """The checkout that a call is made in, and its working directory."""

    __slots__ = ("_parts", "base", "checkout", "cwd")

    def __init__(self, base_dir: str, cwd: str) -> None:
        self.cwd = cwd  # an absolute path
        self.base = base_of(base_dir, cwd)  # empty if the working directory is outside
        inner = cwd[len(self.base) + 1 :] if self.base else ""
        self._parts = inner.split("/") if inner else []
        is_checkout = bool(self.base) and os.path.lexists(self.base + "/.git")
        # Empty for no relocation.
        self.checkout = (
            "/".join([self.base, *self._parts[:1]]) if self._parts and not is_checkout else self.base
        )

    def in_place(self) -> Relocation:
        """The same call, with all paths unchanged."""
        relocation = Relocation("", self.cwd)
        relocation.base = self.base
        return relocation

    def encode(self, path: str) -> str:
        """The stored form of a path; paths outside the checkout are unchanged."""
        if path.startswith(MARK):
            return MARK + path  # escapes a path that itself starts with the mark
        if not self.checkout or not _is_below(path, self.checkout):
            return path
        parts = path[len(self.base) :].split("/")[1:]
        common = 0
        for ours, theirs in zip(self._parts, parts, strict=False):
            if ours != theirs:
                break
            common += 1
        return f"{MARK}{len(self._parts) - common}" + "".join(["/" + part for part in parts[common:]])

    def decode(self, encoded: str) -> str:
        """The path in this checkout that an encoded path means; raises ValueError if it is above the base."""
        if not encoded.startswith(MARK):
            return encoded
        if encoded.startswith(MARK + MARK):
            return encoded[1:]
        up, slash, rest = encoded[1:].partition("/")
        if not self.checkout or not up.isdecimal() or int(up) > len(self._parts):
            raise ValueError("a path above the base directory")
        return "/".join([self.base, *self._parts[: len(self._parts) - int(up)]]) + slash + rest

    def encode_maps(self, text: str) -> str:
        """Options, with the checkout encoded where one hides it: `-ffile-prefix-map=/base/one=.`"""
        head, *maps = text.split(_PREFIX_MAP)
        for old, separator, new in (each.partition("=") for each in maps):
            head += _PREFIX_MAP + self.encode(old) + separator + new
        return head

    def in_checkout(self, paths: Iterable[str]) -> list[str]:
        """The paths that are in the checkout, encoded."""
        return [self.encode(path) for path in paths if self.checkout and _is_below(path, self.checkout)]

    def mapped_directory(self, argument: str) -> list[str]:
        """The working directory as an argument maps it: `./one/build` for `-ffile-prefix-map=/base=.`.

        The mapped name differs between checkouts though the base directory is not part of it.
        """
        cwd = self.cwd
        names = []
        start = argument.find(_PREFIX_MAP)
        while start >= 0:
            start += len(_PREFIX_MAP)
            old, _, new = argument[start:].partition("=")
            if cwd.startswith(old):
                for delimiter in _DELIMITERS:
                    new = new.partition(delimiter)[0]
                names.append(new + cwd[len(old) :])
            start = argument.find(_PREFIX_MAP, start)
        return names


def _is_below(path: str, base: str) -> bool:
    return path == base or path.startswith(base + "/")


def base_of(base_dir: str, cwd: str) -> str:
    """The real path of the base directory; empty if the working directory is not below it."""
    if base_dir == AUTO:
        found = next(filter(os.path.lexists, repositories_above(cwd)), "")
        return os.path.dirname(found)
    base = base_dir.rstrip("/")
    if base and not _is_below(cwd, base):
        base = os.path.realpath(base)  # links in the working directory are resolved already
    return base if len(base) > 1 and _is_below(cwd, base) else ""


def repositories_above(cwd: str) -> list[str]:
    """Where a Git checkout that contains the working directory may have its `.git`, the outermost first."""
    parts = cwd.split("/")
    return ["/".join([*parts[:count], ".git"]) for count in range(2, len(parts) + 1)]
