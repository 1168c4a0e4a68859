"""nvlink: links the device code of objects, archives and libraries into one image per architecture.

With -dlto it compiles their code, with libnvvm.so below -nvvmpath. It searches for `-lname` (strace, CUDA
11.8 to 13.5) in the directories of -L, in any position on the command line, then in those of LIBRARY_PATH:
first everywhere for libname.so, which is left to the host linker, then for libname.a, continuing after an
unusable one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from nvccache.plan.stages.tool import Grammar, Tool, never
from nvccache.store.store import Store
from nvccache.toolkit import toolchain

_DIRECTORIES = ("-L", "--library-path")
_LIBRARIES = ("-l", "--library")
_COMPILER_PATH = "-nvvmpath"
_HOST_LINKER_SCRIPT = "--gen-host-linker-script"
# A library it loads, and a file this may read, which is built in since CUDA 11.8.
_COMPILER_FILES = ("lib64/libnvvm.so", "libdevice/libdevice.10.bc")
_THIN_ARCHIVE = b"!<thin>\n"


def grammar_of(argv: Sequence[str]) -> Grammar:
    registration = {"--register-link-binaries": "reg.c"}
    makes_ptx = "-emit-ptx" in argv  # then it ends before it registers anything
    return Grammar(
        kind="nvlink",
        writes={"-o": "cubin"} | ({} if makes_ptx else registration),
        names={"--host-ccbin": "host compiler"} | (registration if makes_ptx else {}),
        ignored=frozenset(registration.values()),
        is_cached=not any(token.startswith(("-optf", "--options-file")) for token in argv)
        # Such names may be literal file names; whether they are was not tried.
        and not any(mark in name for name in _values(argv, _LIBRARIES) for mark in ":/"),
        dates_linked_sources=compiles(argv),
        # It runs the host linker in a shell to print the built-in linker script.
        runs_programs=any(token.startswith(_HOST_LINKER_SCRIPT) for token in argv),
    )


def compiles(argv: Sequence[str]) -> bool:
    """Whether it compiles what it links: only then does it get the path of libnvvm."""
    return argv[0].rpartition("/")[2] == "nvlink" and any(token.startswith(_COMPILER_PATH) for token in argv)


def _libraries(argv: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The libraries that a command finds by search, in its order, including unused ones."""
    directories = _values(argv, _DIRECTORIES)
    directories += [directory for directory in environ.get("LIBRARY_PATH", "").split(":") if directory]
    names = dict.fromkeys(_values(argv, _LIBRARIES))
    candidates = [
        os.path.join(directory, f"lib{name}{suffix}")
        for name in names
        for suffix in (".so", ".a")
        for directory in directories
    ]
    for path in _values(argv, (_COMPILER_PATH,)):
        candidates += [os.path.join(path, name) for name in _COMPILER_FILES]
    return [path for path in candidates if os.path.isfile(path)]


def _is_read(path: str) -> bool:
    """Whether a found file is read: shared libraries are not, except the compiler's."""
    return not path.endswith(".so") or path.endswith(_COMPILER_FILES)


def _libraries_read(argv: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    return list(filter(_is_read, _libraries(argv, environ)))


def _library_parts(argv: Sequence[str], environ: Mapping[str, str], store: Store) -> list[str]:
    """The libraries that the command finds by name, in its order."""
    parts = []
    for path in _libraries(argv, environ):
        parts += [path, toolchain.digest_of_program(path, store) if _is_read(path) else ""]
    return parts


def _obstacle(argv: Sequence[str], environ: Mapping[str, str], named: Sequence[str]) -> str:
    if any(is_thin_archive(path) for path in (*named, *_libraries(argv, environ))):
        return "it links a thin archive, whose members are not tracked"
    return ""


def _values(argv: Sequence[str], options: tuple[str, ...]) -> list[str]:
    """The elements of a list option: joined to it, after `=`, or in the next argument."""
    found: list[str] = []
    is_next = False
    for token in argv[1:]:
        if is_next:
            found += token.split(",")
            is_next = False
        elif token in options:
            is_next = True
        elif token.startswith(options):
            option = next(option for option in options if token.startswith(option))
            found += token.removeprefix(option).removeprefix("=").split(",")
    return [element for element in found if element]


def is_thin_archive(path: str) -> bool:
    """Whether an archive only refers to its members, which can change while it does not; raises OSError."""
    with open(path, "rb") as stream:
        return stream.read(len(_THIN_ARCHIVE)) == _THIN_ARCHIVE


TOOL = Tool(
    kind="nvlink",
    program="nvlink",
    grammar_of=grammar_of,
    is_located_anywhere=True,
    folds_mathematics=True,
    found_files=_libraries_read,
    key_components={"libraries": _library_parts},
    lines_matter=never,
    obstacle=_obstacle,
    reports_user_errors=True,
)
