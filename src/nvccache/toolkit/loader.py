"""Where the dynamic loader finds the libraries of a program.

The observer records which libraries a tool loads. The loader is queried only for runs on other machines.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

# The directory with variants of libraries for certain processors, which the loader searches first.
VARIANTS = "glibc-hwcaps"
OF_NVIDIAS_TOOLS = tuple(
    f"""
    libc.so.6 libdl.so.2 libgcc_s.so.1 libm.so.6 libpthread.so.0 librt.so.1 libstdc++.so.6 {VARIANTS}
    """.split()
)
PRELOAD_LIST = "/etc/ld.so.preload"
_LISTED = rb"(?m)^\t(?:\S+ => )?(/.+) \(0x[0-9a-f]+\)$"


def first_directories(program: str, environ: Mapping[str, str]) -> list[str]:
    """The directories that are searched for libraries before the system's. The working directory is `.`.

    They are those in LD_LIBRARY_PATH, and the `lib` above the program, to which Conda's run paths lead.
    """
    directory = os.path.dirname(os.path.realpath(program))
    above = [os.path.dirname(directory), os.path.dirname(os.path.dirname(directory))]
    search_path = environ.get("LD_LIBRARY_PATH", "").replace(";", ":")
    named = search_path.split(":") if search_path else []
    return list(dict.fromkeys([*(name or "." for name in named), *(os.path.join(up, "lib") for up in above)]))


def paths_in(directories: Iterable[str], names: Collection[str]) -> list[str]:
    """The path of each name in each directory; for files in the working directory, the name alone."""
    return [
        name if directory in ("", ".") else os.path.join(directory, name)
        for directory in dict.fromkeys(directories)
        for name in names
    ]


def own_directories(program: str, environ: Mapping[str, str]) -> list[str]:
    """The first directories that contain libraries of NVIDIA's tools, or whose names the loader expands."""
    return [
        os.path.abspath(directory)
        for directory in first_directories(program, environ)
        if "$" in directory or any(map(os.path.exists, paths_in([directory], OF_NVIDIAS_TOOLS)))
    ]


def libraries_of(program: str, environ: Mapping[str, str]) -> list[str]:
    """The libraries that a program would load, and the loader; empty if unknown. Raises OSError."""
    import re

    from nvccache.machine import process

    if "LD_AUDIT" in environ:
        return []
    done = process.run([program], {**environ, "LD_TRACE_LOADED_OBJECTS": "1"})
    if done.status != 0 or b"=> not found" in done.stdout:
        return []
    return list(dict.fromkeys(map(os.fsdecode, re.findall(_LISTED, done.stdout))))
