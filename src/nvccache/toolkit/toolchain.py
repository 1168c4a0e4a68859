"""Which program a command starts, the digest that identifies it, and where the loader finds its libraries.

Since the executables of a toolkit have 200 MB, their digests are stored as memos, by stat signature.
The observer records which libraries a tool loads. The loader is queried only for runs on other machines.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from nvccache import environment
from nvccache.files import elf, keys, signatures
from nvccache.nvcc_lookup import is_program
from nvccache.store.store import Store

# The directory with variants of libraries for certain processors, which the loader searches first.
VARIANTS = "glibc-hwcaps"
OF_NVIDIAS_TOOLS = tuple(
    f"""
    libc.so.6 libdl.so.2 libgcc_s.so.1 libm.so.6 libpthread.so.0 librt.so.1 libstdc++.so.6 {VARIANTS}
    """.split()
)
PRELOAD_LIST = "/etc/ld.so.preload"
_LISTED = rb"(?m)^\t(?:\S+ => )?(/.+) \(0x[0-9a-f]+\)$"


def resolve(name: str, search_path: str) -> str:
    """The program that a shell would start for `name`, argv[0] of a command; empty if there is none."""
    if "/" in name:
        return name if is_program(name) else ""
    return environment.found_on(search_path, name)


def missing_program(names: Sequence[str], environ: Mapping[str, str]) -> str:
    """The first name for which there is no program, or empty. Some toolkits lack some of the tools."""
    return next((name for name in names if not resolve(name, environ.get("PATH", ""))), "")


def digest_of_program(path: str, store: Store) -> str:
    """The digest of an executable's content, from a memo if there is one; raises OSError."""
    signature = signatures.signature_of(path)
    if signature is None:
        raise FileNotFoundError(f"no file `{path}`")
    memo_key = keys.key_of("tool", [("file", (path, signatures.to_text([signature])))])
    digest = store.find_memo(memo_key)
    if not digest:
        digest = keys.digest_file(path)
        if signatures.is_settled(signature, time.time_ns()) and signatures.signature_of(path) == signature:
            store.add_memo(memo_key, digest)
    return digest


def is_compiler(name: str, environ: Mapping[str, str]) -> bool:
    """Whether `name` starts the binary of gcc or clang, not a script or a wrapper with another name.

    Raises OSError if there is no such program.
    """
    real_path = os.path.realpath(program_of(name, environ))
    return elf.is_elf(real_path) and is_compiler_name(real_path)


def is_compiler_name(path: str) -> bool:
    """Whether a program is named like gcc or clang, and not like a program that they start."""
    return any(part in os.path.basename(path) for part in ("gcc", "g++", "clang", "c++"))


def program_of(name: str, environ: Mapping[str, str]) -> str:
    """The program that a shell with this environment would start; raises OSError if there is none."""
    path = resolve(name, environ.get("PATH", ""))
    if not path:
        raise FileNotFoundError(f"no program `{name}`")
    return path


def is_regular_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


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
