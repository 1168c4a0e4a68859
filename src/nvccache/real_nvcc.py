"""The nvcc that stands behind this call: never this program itself, under whatever name it goes."""

from __future__ import annotations

import os
import stat
import sys

from nvccache.config import config_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SHIM_MARK = b"# The nvcc shim of nvccache."  # in the scripts that `install` wrote once
MARK_WITHIN = 8192  # bytes; before it came at most the path of an interpreter, twice

NESTED = 3
OWN_NAMES = ("nvccache", "nvccache-python")  # the executables that an installation brings

# What has been started as nvcc on the way to this process, so that a wrapper which looks for nvcc on
# PATH, and finds this program again, ends up one further and not in a loop.
TRIED_VARIABLE = "_NVCCACHE_TRIED"


def find(typed: str, configured: str, environ: Mapping[str, str]) -> str:
    """The path of the nvcc to run, or empty when there is none; `why_none` says why.

    `typed` is the compiler of a launcher's command line, or empty for a call under the name nvcc;
    `configured` is the setting `nvcc`, which counts only for the latter. What a path names is run or nothing:
    PATH is searched for a bare name, and for what stands behind nvccache where the path leads to that. The
    path stays as it was typed, or as nvcc makes it of an entry of PATH, links and relative paths included:
    nvcc finds its toolkit from the name it is called by, and names headers so.
    """
    tried = environ.get(TRIED_VARIABLE, "").split(":")

    def times(path: str) -> int:
        return tried.count(os.path.abspath(path))

    name = typed or configured or "nvcc"
    if "/" in name:
        if not is_program(name):
            return ""
        # What a setting names may be a wrapper that has found us again, and must get what stands behind us.
        # A path that is typed twice may be meant so (a host compiler that calls nvcc), but not without end.
        if not is_ours(name) and times(name) < (NESTED if typed else 1):
            return name
    behind_us = [
        candidate
        for candidate in _on_path(_sought(name), environ)
        if is_program(candidate) and not is_ours(candidate)
    ]
    # What was tried comes last: a wrapper wants the next one, but a host compiler may call the same again.
    return next((path for most in (1, NESTED) for path in behind_us if times(path) < most), "")


def paths_tried(nvcc: str, typed: str, configured: str, environ: Mapping[str, str]) -> tuple[list[str], bool]:
    """The paths that `find` tries, up to the nvcc that it found, and whether they depend on PATH."""
    name = typed or configured or "nvcc"
    if name == nvcc:
        return [name], False
    on_path = list(_on_path(_sought(name), environ))
    found = on_path[: on_path.index(nvcc) + 1] if nvcc in on_path else [nvcc]
    return [*([name] if "/" in name else []), *found], True


def why_none(typed: str, configured: str, origin: str, environ: Mapping[str, str]) -> tuple[int, str]:
    """The exit status that a shell has for it, and a sentence; `origin` is that of the setting (Config)."""
    name = typed or configured or "nvcc"
    named, comma = f"`{name}`", ""
    if configured and not typed:
        named += f", which {f'`{config_file(environ)}`' if origin == 'file' else origin} names"
        comma = ","
    if "/" in name and not is_program(name):
        status, trouble = _trouble_with(name)
        return status, f"cannot run {named}: {trouble}"
    for candidate in _on_path(_sought(name), environ):
        if os.path.isfile(candidate) and not is_program(candidate):
            return 126, f"cannot run `{candidate}`: Permission denied"
    return 127, f"there is no compiler {named}{comma} behind nvccache on PATH"


def is_ours(path: str) -> bool:
    """Whether a program is this one: a link to nvccache, as shims are, or the very file that was started."""
    real_path = os.path.realpath(path)
    if os.path.basename(real_path) in OWN_NAMES or real_path == os.path.realpath(sys.argv[0]):
        return True
    try:
        # A FIFO must not wait for its other end.
        descriptor = os.open(real_path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return is_file and SHIM_MARK in os.read(descriptor, MARK_WITHIN)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def guarded(environ: Mapping[str, str], nvcc: str) -> dict[str, str]:
    """The environment for what this call starts."""
    tried, path = environ.get(TRIED_VARIABLE, ""), os.path.abspath(nvcc)
    return {**environ, TRIED_VARIABLE: f"{tried}:{path}" if tried else path}


def _trouble_with(path: str) -> tuple[int, str]:
    try:
        os.stat(path)
    except OSError as error:
        return 127 if isinstance(error, FileNotFoundError) else 126, error.strerror or ""
    return 126, "Is a directory" if os.path.isdir(path) else "Permission denied"


def _on_path(name: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Where a program may be, as nvcc makes it up: an empty entry of PATH is the working directory."""
    for directory in environ.get("PATH", os.defpath).split(":"):
        yield (directory.rstrip("/") if directory else ".") + "/" + name


def _sought(name: str) -> str:
    """What to look for on PATH: behind nvccache itself stands an nvcc."""
    program = os.path.basename(name)
    return "nvcc" if program in OWN_NAMES else program


def is_program(path: str) -> bool:
    """Whether a path leads to a file that may be executed."""
    return os.path.isfile(path) and os.access(path, os.X_OK)
