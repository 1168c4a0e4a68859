"""What the dynamic loader keeps of directories (`ld.so.cache`) and tells of the processor; which may be run.

glibc's libm chooses a variant of a function by FMA, FMA4, AVX2, AVX and SSE4.1 on x86-64 (every ifunc in
sysdeps/x86_64/fpu/multiarch, 2.33 to 2.42). Of a later glibc all features count, and elsewhere all of the
processor's capabilities. Loaded by direct hits on a machine that was not looked at before.
"""

from __future__ import annotations

import os
import re
import stat
import struct

from nvccache.files import elf, keys, untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_NAME = "ld.so.cache"  # glibc has it built in, behind a directory that is chosen when it is built
_MOST_BYTES = 64 << 20  # a hundred times that of a large system
_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = struct.Struct("<20sI24x")
_ENTRY = struct.Struct("<iIIIQ")
_DIRECTORIES_OF_SYSTEM = ("/lib", "/lib32", "/lib64", "/libx32")  # as the ABIs of PT_INTERP have them
_OURSELVES = "/proc/self/exe"
_VERSION = rb'(?m)^version\.version="(\d+)\.(\d+)'
_LAST_KNOWN_VERSION = (2, 42)
_ACTIVE = rb"(?m)^x86\.cpu_features\.features\[0x([0-9a-f]+)\]\.active\[0x([0-9a-f]+)\]=0x([0-9a-f]+)$"
# Leaf and register, as <sys/platform/x86.h> numbers them, and what of it libm looks at.
_FMA, _SSE4_1, _AVX, _AVX2, _FMA4 = 1 << 12, 1 << 19, 1 << 28, 1 << 5, 1 << 16
_LOOKED_AT = {(0, 2): _FMA | _SSE4_1 | _AVX, (1, 1): _AVX2, (2, 2): _FMA4}
_CAPABILITIES = rb"(?m)^dl_(?:hwcap\d*|platform)=.*$"


def said_of(path: str, names: Iterable[str]) -> str:
    """The digest of what the loader's cache says of these names, or of all of it if that is unclear.

    Empty if this cannot be a loader's cache: the path may come from a record that somebody made up.
    """
    if os.path.basename(path) != _NAME:
        return ""
    try:
        content = untrusted.read_named(path, _MOST_BYTES)
    except (FileNotFoundError, PermissionError):
        return "unreadable"  # for the loader as well
    except (OSError, ValueError):
        return ""
    wanted = {os.fsencode(name) for name in names}
    try:
        found = [("entry", (name, *value)) for name, value in _entries(content) if name in wanted]
    except (struct.error, ValueError):
        return keys.digest_bytes(content)
    return keys.key_of("cache of the loader", found)


def _entries(content: bytes) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
    """The name of a library, then where it is and for whom; raises struct.error and ValueError."""
    start = content.index(_MAGIC)  # behind a part of an older form, if there is one
    _, count = _HEADER.unpack_from(content, start)
    table = content[start + _HEADER.size :][: count * _ENTRY.size]
    for kind, name, path, system, hardware in _ENTRY.iter_unpack(table):
        where = [content[start + at : content.index(b"\0", start + at)] for at in (name, path)]
        yield where[0], (where[1], b"%d %d %d" % (kind, system, hardware))


def may_be_run(path: str) -> bool:
    """Whether a loader that only a record names is one that this machine would run anyway.

    That is our own, and those of the system that nobody but root can have put there.
    """
    try:
        if path.startswith("/") and path == elf.interpreter(_OURSELVES):
            return True
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    directory, name = os.path.split(path)
    is_of_root = status.st_uid == 0 and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    is_named_so = directory in _DIRECTORIES_OF_SYSTEM and name.startswith("ld") and ".so." in name
    return is_named_so and is_of_root and stat.S_ISREG(status.st_mode)


def features(loader: str, environ: Mapping[str, str]) -> str:
    """The class of the processor as this loader sees it; empty if it does not say (before glibc 2.33)."""
    from nvccache.machine import process

    try:
        answer = process.run([loader, "--list-diagnostics"], environ)
    except OSError:
        return ""
    version = re.search(_VERSION, answer.stdout)
    if answer.status != 0 or not version:
        return ""
    return class_in(answer.stdout, (int(version[1]), int(version[2])))


def class_in(diagnostics: bytes, version: tuple[int, int]) -> str:
    """The class in what `--list-diagnostics` says, or empty."""
    active = {
        (int(leaf, 16), int(register, 16)): int(bits, 16)
        for leaf, register, bits in re.findall(_ACTIVE, diagnostics)
    }
    if not active:
        return b"\n".join(re.findall(_CAPABILITIES, diagnostics)).decode(errors="replace")
    if version <= _LAST_KNOWN_VERSION and active.keys() >= _LOOKED_AT.keys():
        active = {place: active[place] & bits for place, bits in _LOOKED_AT.items()}
    return " ".join(f"{leaf}.{register}:{bits:x}" for (leaf, register), bits in sorted(active.items()))


def checks_of(said: str) -> list[str]:
    """What worker/class_check.c has to find on another machine for the class there to be the one said here.

    Empty where a class is not told in a form that another machine could be asked for.
    """
    if "=" in said:
        lines = said.split("\n")
        return (
            ["=" + line for line in lines]
            if all(re.match(_CAPABILITIES, line.encode()) for line in lines)
            else []
        )
    active = {}
    for part in said.split():
        place, colon, bits = part.partition(":")
        leaf, dot, register = place.partition(".")
        if not (colon and dot and leaf.isdecimal() and register.isdecimal()):
            return []
        active[int(leaf), int(register)] = bits
    is_selected = active.keys() == _LOOKED_AT.keys()
    return [
        f"{leaf:x}.{register:x}&{_LOOKED_AT[leaf, register] if is_selected else 0xFFFFFFFF:x}={bits}"
        for (leaf, register), bits in active.items()
    ]
