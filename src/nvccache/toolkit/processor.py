"""What of the processor this runs on reaches a product.

`-march=native` sees whatever the kernel tells. The tools that fold device mathematics see a class: which
variants of its functions the C library's libm chooses. glibc's does so by FMA, FMA4, AVX2, AVX and SSE4.1 on
x86-64 (every ifunc in sysdeps/x86_64/fpu/multiarch, 2.33 to 2.42). Of a later glibc all features count, and
elsewhere all of the processor's capabilities. The dynamic loader says what it lets libm see, GLIBC_TUNABLES
heeded; it is asked once, and its answer is remembered. Part of the hot path.
"""

from __future__ import annotations

import os
import stat

from nvccache.files import keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvccache.store.store import Store

_TOLD = ("vendor_id", "cpu family", "model", "stepping", "flags", "cache size", "CPU part", "Features")
# Vendor, family, model and all features that the kernel knows: not slowed down by the number of cores.
_ALIAS = "/sys/devices/system/cpu/modalias"
TUNABLES = "GLIBC_TUNABLES"
_LARGEST_LOADER = 64 << 20  # most have 0.2 MB
_DIRECTORIES_OF_SYSTEM = ("/lib", "/lib32", "/lib64", "/libx32")  # as the ABIs of PT_INTERP have them
_OURSELVES = "/proc/self/exe"
_VERSION = rb'(?m)^version\.version="(\d+)\.(\d+)'
_LAST_KNOWN_VERSION = (2, 42)
_ACTIVE = rb"(?m)^x86\.cpu_features\.features\[0x([0-9a-f]+)\]\.active\[0x([0-9a-f]+)\]=0x([0-9a-f]+)$"
# Leaf and register, as <sys/platform/x86.h> numbers them, and what of it libm looks at.
_FMA, _SSE4_1, _AVX, _AVX2, _FMA4 = 1 << 12, 1 << 19, 1 << 28, 1 << 5, 1 << 16
_LOOKED_AT = {(0, 2): _FMA | _SSE4_1 | _AVX, (1, 1): _AVX2, (2, 2): _FMA4}
_CAPABILITIES = rb"(?m)^dl_(?:hwcap\d*|platform)=.*$"


def describe() -> str:
    """The lines about one processor, without what changes while it runs; else the name of the machine."""
    lines = []
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
            for line in stream:
                if not line.strip():
                    break  # one processor is enough
                if line.partition(":")[0].strip() in _TOLD:
                    lines.append(line)
    except OSError:
        pass
    return "".join(lines) or " ".join(os.uname())


def features(loader: str, environ: Mapping[str, str], cache: Store, is_of_tool: bool = False) -> str:
    """The class that libm's functions are chosen by where this dynamic loader has loaded them.

    To be asked, a loader is run. One that is named by a tool which runs anyway may be; any other, which only
    a record names, must be known without the cache, or the answer is empty unless it is remembered.
    """
    try:
        key = memo_key(loader, environ)
    except (OSError, ValueError):
        return unclassified(environ) if is_of_tool else ""
    found = cache.find_memo(key)
    if not found:
        if not is_of_tool and not may_be_run(loader):
            return ""
        found = _ask(loader, environ) or unclassified(environ)
        cache.add_memo(key, found)
    return found


def memo_key(loader: str, environ: Mapping[str, str]) -> str:
    """Under which key the class is remembered; raises OSError or ValueError.

    The loader counts by its content, so that machines which share a cache ask once.
    """
    digest = keys.digest_file(loader, _LARGEST_LOADER)
    components = [("loader", (digest,)), ("processor", (_alias(), environ.get(TUNABLES, "")))]
    return keys.key_of("features", components)


def unclassified(environ: Mapping[str, str]) -> str:
    """All there is to tell, for mathematics whose choices are not known."""
    return f"{describe()}{TUNABLES}={environ.get(TUNABLES, '')}"


def _alias() -> str:
    try:
        with open(_ALIAS, "rb") as stream:
            return os.fsdecode(stream.read()) or describe()
    except OSError:
        return describe()


def may_be_run(path: str) -> bool:
    """Whether a loader that only a record names is one that this machine would run anyway.

    That is our own, and those of the system that nobody but root can have put there.
    """
    from nvccache.files import elf

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


def _ask(loader: str, environ: Mapping[str, str]) -> str:
    """The class of the processor as this loader sees it; empty if it does not say (before glibc 2.33)."""
    import re

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
    import re

    active = {
        (int(leaf, 16), int(register, 16)): int(bits, 16)
        for leaf, register, bits in re.findall(_ACTIVE, diagnostics)
    }
    if not active:
        return b"\n".join(re.findall(_CAPABILITIES, diagnostics)).decode(errors="replace")
    if version <= _LAST_KNOWN_VERSION and active.keys() >= _LOOKED_AT.keys():
        active = {place: active[place] & bits for place, bits in _LOOKED_AT.items()}
    return " ".join(f"{leaf}.{register}:{bits:x}" for (leaf, register), bits in sorted(active.items()))


def checks_of(found: str) -> list[str]:
    """What class_check.c has to find on another machine for the class there to be this one.

    Empty where a class has no form that can be checked on another machine.
    """
    if "=" in found:
        lines = found.split("\n")
        names = {line.partition("=")[0].rstrip("0123456789") for line in lines}
        return ["=" + line for line in lines] if names <= {"dl_hwcap", "dl_platform"} else []
    active = {}
    for part in found.split():
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
