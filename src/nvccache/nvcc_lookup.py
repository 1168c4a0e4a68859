"""Finds the real nvcc, and never nvccache itself, whatever the name of the link to nvccache is."""

from __future__ import annotations

import os
import sys

from nvccache.config import config_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PROGRAM = b"\x7fELF"
NESTED = 3  # how often a program may occur in a chain of nvccs that start each other
OWN_NAMES = ("nvccache", "nvccache-python")  # the executables of an installation

# This variable lists the programs that ancestors of this process started as nvcc. If a wrapper looks up nvcc
# on PATH and finds nvccache again, it gets the next nvcc, so that there is no endless loop.
TRIED_VARIABLE = "_NVCCACHE_TRIED"


def find(typed: str, configured: str, environ: Mapping[str, str]) -> str:
    """The path of the nvcc to run; empty if there is none, which `why_none` explains.

    `typed` is the compiler in `nvccache COMPILER ...`. It is empty if nvccache was called as `nvcc`; only
    then is `configured`, the setting `nvcc`, used. A path is run as it is. PATH is searched only for a name
    without slash, or if the path leads to nvccache. The result is the typed path, or an entry of PATH joined
    with the name as nvcc would join them, since nvcc finds its toolkit, and names headers, by argv[0].
    """
    tried = environ.get(TRIED_VARIABLE, "").split(":")

    def times(path: str) -> int:
        return tried.count(os.path.abspath(path))

    name = typed or configured or "nvcc"
    if "/" in name:
        if not is_program(name):
            return ""
        # A configured nvcc that was tried is a wrapper that found nvccache again: it must get the next nvcc
        # on PATH. A typed path may recur on purpose, as with a host compiler that calls nvcc, but not
        # forever.
        if not is_ours(name) and times(name) < (NESTED if typed else 1):
            return name
    others = [
        candidate
        for candidate in _on_path(_name_to_find(name), environ)
        if is_program(candidate) and not is_ours(candidate)
    ]
    # Programs that were tried come last: a wrapper wants the next nvcc, but a host compiler that calls nvcc
    # may want the same nvcc again.
    return next((path for most in (1, NESTED) for path in others if times(path) < most), "")


def paths_tried(nvcc: str, typed: str, configured: str, environ: Mapping[str, str]) -> tuple[list[str], bool]:
    """The paths that `find` tried, up to the nvcc that it found, and whether they depend on PATH."""
    name = typed or configured or "nvcc"
    if name == nvcc:
        return [name], False
    on_path = list(_on_path(_name_to_find(name), environ))
    found = on_path[: on_path.index(nvcc) + 1] if nvcc in on_path else [nvcc]
    return [*([name] if "/" in name else []), *found], True


def why_none(typed: str, configured: str, origin: str, environ: Mapping[str, str]) -> tuple[int, str]:
    """Why `find` failed: a shell's exit status for it, and a sentence. `origin` is the setting's."""
    name = typed or configured or "nvcc"
    named, comma = f"`{name}`", ""
    if configured and not typed:
        named += f", which is set in {f'`{config_file(environ)}`' if origin == 'file' else origin}"
        comma = ","
    if "/" in name and not is_program(name):
        status, trouble = _trouble_with(name)
        return status, f"cannot run {named}: {trouble}"
    for candidate in _on_path(_name_to_find(name), environ):
        if os.path.isfile(candidate) and not is_program(candidate):
            return 126, f"cannot run `{candidate}`: Permission denied"
    return 127, f"there is no compiler {named}{comma} on PATH besides nvccache"


def is_ours(path: str) -> bool:
    """Whether a program is nvccache: a link to it, as a shim is, or the file that this process runs."""
    real_path = os.path.realpath(path)
    return os.path.basename(real_path) in OWN_NAMES or real_path == os.path.realpath(sys.argv[0])


def guarded(environ: Mapping[str, str], nvcc: str) -> dict[str, str]:
    """The environment for child processes, with this nvcc added to TRIED_VARIABLE."""
    tried, path = environ.get(TRIED_VARIABLE, ""), os.path.abspath(nvcc)
    return {**environ, TRIED_VARIABLE: f"{tried}:{path}" if tried else path}


def _trouble_with(path: str) -> tuple[int, str]:
    try:
        os.stat(path)
    except OSError as error:
        return 127 if isinstance(error, FileNotFoundError) else 126, error.strerror or ""
    return 126, "Is a directory" if os.path.isdir(path) else "Permission denied"


def _on_path(name: str, environ: Mapping[str, str]) -> Iterator[str]:
    """The paths to try, composed as nvcc composes them: an empty entry of PATH is the working directory."""
    for directory in environ.get("PATH", os.defpath).split(":"):
        yield (directory.rstrip("/") if directory else ".") + "/" + name


def _name_to_find(name: str) -> str:
    """The name to look up on PATH: the base name of the program, or `nvcc` for nvccache itself."""
    program = os.path.basename(name)
    return "nvcc" if program in OWN_NAMES else program


def is_program(path: str) -> bool:
    """Whether a path leads to an executable file."""
    return os.path.isfile(path) and os.access(path, os.X_OK)


def is_script(nvcc: str) -> bool:
    """Whether an nvcc is a script: not an ELF program. False if the file cannot be read."""
    try:
        with open(nvcc, "rb") as stream:
            return stream.read(len(_PROGRAM)) != _PROGRAM
    except OSError:
        return False
