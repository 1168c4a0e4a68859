"""The nvcc that stands behind this call: never this program itself, under whatever name it goes."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SHIM_MARK = b"# The nvcc shim of nvccache."  # within the first bytes of every shim that `install` writes
_MARK_WITHIN = 8192  # bytes; before it comes at most the path of an interpreter, twice

# What has been started as nvcc on the way to this process, so that a wrapper which looks for nvcc on
# PATH, and finds this program again, ends up one further and not in a loop.
TRIED_VARIABLE = "_NVCCACHE_TRIED"


def find(typed: str, configured: str, environ: Mapping[str, str]) -> str:
    """The path of the nvcc to run, or empty when there is none.

    `typed` is the compiler of a launcher's command line, or empty for a call under the name nvcc;
    `configured` is the setting `nvcc`, which counts only for the latter. The path stays as it was typed, or
    as nvcc makes it of an entry of PATH, links and relative paths included: nvcc finds its toolkit from the
    name it is called by, and names headers so.
    """
    tried = environ.get(TRIED_VARIABLE, "").split(":")
    for candidate in _candidates(typed, configured, environ):
        if os.path.abspath(candidate) not in tried and _is_program(candidate) and not is_ours(candidate):
            return candidate
    return ""


def is_ours(path: str) -> bool:
    """Whether a program is this one: a shim, a link to nvccache, or the very file that was started."""
    real_path = os.path.realpath(path)
    if os.path.basename(real_path) == "nvccache" or real_path == os.path.realpath(sys.argv[0]):
        return True
    try:
        with open(real_path, "rb") as stream:
            return SHIM_MARK in stream.read(_MARK_WITHIN)
    except OSError:
        return False


def guarded(environ: Mapping[str, str], nvcc: str) -> dict[str, str]:
    """The environment for what this call starts."""
    tried, path = environ.get(TRIED_VARIABLE, ""), os.path.abspath(nvcc)
    return {**environ, TRIED_VARIABLE: f"{tried}:{path}" if tried else path}


def _candidates(typed: str, configured: str, environ: Mapping[str, str]) -> Iterator[str]:
    if "/" in typed:
        yield typed
    if not typed and "/" in configured:
        yield configured
    name = os.path.basename(typed or configured or "nvcc")
    for directory in environ.get("PATH", os.defpath).split(":"):
        yield _in_entry(directory, name)


def _in_entry(directory: str, name: str) -> str:
    """A program in a directory of PATH, as nvcc makes it up: an empty entry is the working directory."""
    return (directory.rstrip("/") if directory else ".") + "/" + name


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
