"""nvlink: links the device code of objects, archives and libraries into one image per architecture.

With -dlto it compiles their code, with libnvvm.so below -nvvmpath. It searches for `-lname` (strace, CUDA
11.8 to 13.5) in the directories of -L, in any position on the command line, then in those of LIBRARY_PATH:
first everywhere for libname.so, which is left to the host linker, then for libname.a, continuing after an
unusable one.

An object of nvcc has device code in sections of its own, and host code, which is edited more often. Only
those sections are part of the key, so that such an edit does not link, or with -dlto compile, all device code
again. Found by linking objects whose other sections were overwritten: the cubin and the registration file
were the same (CUDA 11.8 to 13.5, tests/scenarios/same_result/test_device_links.py). 13.5 also validates
relocations of other sections, which does not affect its output.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from nvccache.files import elf, keys, untrusted
from nvccache.plan.stages.tool import Grammar, Tool, never
from nvccache.store.store import Store
from nvccache.toolkit import toolchain

_DIRECTORIES = ("-L", "--library-path")
_LIBRARIES = ("-l", "--library")
_COMPILER_PATH = "-nvvmpath"
_HOST_LINKER_SCRIPT = "--gen-host-linker-script"
# A library it loads, and a file this may read, which is built in since CUDA 11.8.
_COMPILER_FILES = ("lib64/libnvvm.so", "libdevice/libdevice.10.bc")
_DEVICE_SECTIONS = (b"__nv", b".nv", b".rela__nv", b".rela.nv")
_ARCHIVE = b"!<arch>\n"
_THIN_ARCHIVE = b"!<thin>\n"
_MEMBER_HEADER = 60


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
        if path.endswith(".a"):
            digest = digest_of(path)
        else:
            digest = toolchain.digest_of_program(path, store) if _is_read(path) else ""
        parts += [path, digest]
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


def digest_of(path: str) -> str:
    """The digest of the parts of a file that nvlink uses; raises OSError."""
    return _digest(untrusted.read_named(path))


def is_thin_archive(path: str) -> bool:
    """Whether an archive only refers to its members, which can change while it does not; raises OSError."""
    with open(path, "rb") as stream:
        return stream.read(len(_THIN_ARCHIVE)) == _THIN_ARCHIVE


def _digest(content: bytes) -> str:
    kind = "device code"
    try:
        if content.startswith(_ARCHIVE):
            members = [("member", (name, _digest(member))) for name, member in _members(content)]
            return keys.key_of(kind, members)
        sections = _device_sections(content)
    except ValueError:
        sections = None
    if sections is None:
        return keys.digest_bytes(content)
    header = (content[:20], content[48:52])  # up to the machine, and its flags
    return keys.key_of(kind, [("header", header), *(("section", section) for section in sections)])


def _device_sections(content: bytes) -> list[tuple[bytes, bytes]] | None:
    """(name, content) of each; None if it is no host object. Raises ValueError."""
    if not elf.is_understood(content):
        return None
    kind, machine = elf.type_and_machine(content)
    if kind != elf.RELOCATABLE or machine == elf.CUDA_MACHINE:  # of a cubin everything is used
        return None
    found = [section for section in elf.sections(content) if section[0].startswith(_DEVICE_SECTIONS)]
    return [(section[0], elf.content_of(content, section)) for section in found]


def _members(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(name, content) of an archive's members, without dates and owners; raises ValueError."""
    position = len(_ARCHIVE)
    while position < len(content):
        header = content[position : position + _MEMBER_HEADER]
        if len(header) < _MEMBER_HEADER or not header.endswith(b"`\n"):
            raise ValueError("no header of a member")
        size = int(header[48:58])
        start = position + _MEMBER_HEADER
        if start + size > len(content):
            raise ValueError("a member extends past the end")
        name = header[:16].rstrip()
        # The symbol table is redundant, and contains a date.
        if name not in (b"/", b"/SYM64/"):
            yield name, content[start : start + size]
        position = start + size + size % 2


TOOL = Tool(
    kind="nvlink",
    program="nvlink",
    grammar_of=grammar_of,
    own_roles=("reg.c",),
    is_located_anywhere=True,
    folds_mathematics=True,
    found_files=_libraries_read,
    digest_of_named=digest_of,
    key_components={"libraries": _library_parts},
    lines_matter=never,
    obstacle=_obstacle,
    reports_user_errors=True,
)
