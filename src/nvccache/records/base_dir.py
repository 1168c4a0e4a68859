"""Gives nvcc relative paths below NVCCACHE_BASE_DIR, so that all checkouts there share records.

As with ccache, absolute paths of inputs and include directories below the base directory become relative to
the working directory. All other arguments stay as they are. So `__FILE__`, messages, line tables and the
paths in records are the same in every checkout. Depfiles contain the names that plain nvcc would write there,
because ninja and make take a relative and an absolute name for two files.

The base directory contains checkouts. The checkout of a call is the subdirectory that contains its working
directory, or the base directory itself if that has a `.git`. With NVCCACHE_BASE_DIR=auto, the checkout is the
outermost directory with a `.git` that contains the working directory.

If a base directory is set, direct hits load this module, so it is part of the hot path.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence

from nvccache.commandline.tokens import INPUT, Argument, UnknownOption, scan
from nvccache.config import AUTO

_LISTS = frozenset(["include-path", "system-include", "pre-include"])


def base_of(base_dir: str, cwd: str) -> str:
    """The real path of the base directory; empty if the working directory is not below it."""
    if base_dir == AUTO:
        repository = next(filter(os.path.lexists, repositories_above(cwd)), "")
        return os.path.dirname(repository)
    base = base_dir.rstrip("/")
    if base and not _is_below(cwd, base):
        base = os.path.realpath(base)  # because the links in `cwd` are resolved, too
    return base if _is_below(cwd, base) else ""


def repositories_above(cwd: str) -> list[str]:
    """The paths at which checkouts that contain the working directory have their `.git`, outermost first."""
    parts = cwd.split("/")
    return ["/".join([*parts[:count], ".git"]) for count in range(2, len(parts) + 1)]


def checkout_of(base_dir: str, cwd: str) -> str:
    """The checkout of a call; empty if the working directory is not below the base directory."""
    base = base_of(base_dir, cwd)
    if not base or os.path.lexists(base + "/.git"):
        return base
    inner = cwd[len(base) + 1 :].partition("/")[0]
    return f"{base}/{inner}" if inner else base


def relative_arguments(
    arguments: Sequence[str], base_dir: str, cwd: str
) -> tuple[list[str], dict[bytes, bytes]]:
    """The arguments for nvcc, and the typed path of each file and directory in them, for `products.rule`.

    The arguments are unchanged if the working directory is not below the base directory.
    """
    base, scanned = base_of(base_dir, cwd), scan(arguments)
    if isinstance(scanned, UnknownOption) or not base:
        return list(arguments), {}
    bases = (base_dir.rstrip("/"), base)
    pairs: list[tuple[str, str]] = []
    relative = [token for argument in scanned for token in _tokens(argument, bases, cwd, pairs)]
    # If two typed paths become equal, the dictionary keeps the last of them: the one that did not change.
    pairs.sort(key=lambda pair: pair[0] == pair[1])
    names = {os.fsencode(path.rstrip("/")): os.fsencode(typed.rstrip("/")) for path, typed in pairs if path}
    return relative, names


def _tokens(
    argument: Argument, bases: tuple[str, str], cwd: str, pairs: list[tuple[str, str]]
) -> tuple[str, ...]:
    """The tokens for nvcc; adds to the pairs each path, and the directory of a file, with the typed one."""
    value = argument.value
    if argument.name == INPUT:
        typed = [argument.tokens[0]]
    elif argument.name not in _LISTS or not value or '"' in value:
        return argument.tokens
    else:
        typed = value.split(",")
    paths = [_relative(path, bases, cwd) for path in typed]
    pairs += zip(paths, typed, strict=True)
    if argument.name in (INPUT, "pre-include"):  # headers beside it have names relative to it
        pairs += zip(map(os.path.dirname, paths), map(os.path.dirname, typed), strict=True)
    return (*argument.tokens[:-1], argument.tokens[-1].removesuffix(value or typed[0]) + ",".join(paths))


def _relative(path: str, bases: tuple[str, str], cwd: str) -> str:
    """The path relative to the working directory if it is below a base; otherwise the path itself.

    Only the leading directories that the path shares with the working directory are replaced. The rest of the
    path stays as typed, so that links in it, and `..` after a link, lead to the same places as before.
    """
    for base in bases:
        if _is_below(path, base):
            parts, own = (bases[1] + path[len(base) :]).split("/"), cwd.split("/")
            pairs = zip(parts, own, strict=False)
            common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
            relative = "/".join([".."] * (len(own) - common) + parts[common:]) or "."
            return path if relative[0] in "-/" else relative
    return path


def _is_below(path: str, base: str) -> bool:
    return len(base) > 1 and f"{path}/".startswith(f"{base}/")
