"""Which properties of this machine's processor can affect a product.

With `-march=native`, all that the kernel shows. For tools that fold device mathematics, only the processor
class: which variants of libm's functions the C library chooses. On x86-64, glibc 2.33 to 2.42 chooses by FMA,
FMA4, AVX2, AVX and SSE4.1 (every ifunc in sysdeps/x86_64/fpu/multiarch). Of a later glibc all features count,
and on other architectures all capabilities. The dynamic loader prints those that libm gets, after applying
GLIBC_TUNABLES; its output is kept as a memo. Part of the hot path.
"""

from __future__ import annotations

import os
import stat

from nvccache.files import keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvccache.store.store import Store

_FIELDS = ("vendor_id", "cpu family", "model", "stepping", "flags", "cache size", "CPU part", "Features")
# Vendor, family, model and all features known to the kernel. Unlike /proc/cpuinfo, as fast on many cores.
_ALIAS = "/sys/devices/system/cpu/modalias"
TUNABLES = "GLIBC_TUNABLES"
_LARGEST_LOADER = 64 << 20  # most have 0.2 MB
_SYSTEM_DIRECTORIES = ("/lib", "/lib32", "/lib64", "/libx32")  # of PT_INTERP in all ABIs
_OURSELVES = "/proc/self/exe"
_VERSION = rb'(?m)^version\.version="(\d+)\.(\d+)'
_LAST_KNOWN_VERSION = (2, 42)
_ACTIVE = rb"(?m)^x86\.cpu_features\.features\[0x([0-9a-f]+)\]\.active\[0x([0-9a-f]+)\]=0x([0-9a-f]+)$"
# Leaf and register, numbered as in <sys/platform/x86.h> -> the bits that libm's ifuncs test.
_FMA, _SSE4_1, _AVX, _AVX2, _FMA4 = 1 << 12, 1 << 19, 1 << 28, 1 << 5, 1 << 16
_USED_BY_LIBM = {(0, 2): _FMA | _SSE4_1 | _AVX, (1, 1): _AVX2, (2, 2): _FMA4}
_CAPABILITIES = rb"(?m)^dl_(?:hwcap\d*|platform)=.*$"


def describe() -> str:
    """One processor's lines of /proc/cpuinfo that never change; without that file, `uname`."""
    lines = []
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
            for line in stream:
                if not line.strip():
                    break  # one processor is enough
                if line.partition(":")[0].strip() in _FIELDS:
                    lines.append(line)
    except OSError:
        pass
    return "".join(lines) or " ".join(os.uname())


def features(loader: str, environ: Mapping[str, str], cache: Store, is_of_tool: bool = False) -> str:
    """The processor class, for a libm that this dynamic loader loads.

    This runs the loader unless there is a memo. With `is_of_tool`, a tool that runs anyway names the loader.
    Otherwise only a record does, which may be forged: empty unless there is a memo or `may_be_run`.
    """
    try:
        key = memo_key(loader, environ)
    except (OSError, ValueError):
        return unclassified(environ) if is_of_tool else ""
    found = cache.find_memo(key)
    if not found:
        if not is_of_tool and not may_be_run(loader):
            return ""
        found = _query(loader, environ) or unclassified(environ)
        cache.add_memo(key, found)
    return found


def memo_key(loader: str, environ: Mapping[str, str]) -> str:
    """The memo's key; raises OSError or ValueError.

    The loader counts by content, so machines that share a cache share the memo.
    """
    digest = keys.digest_file(loader, _LARGEST_LOADER)
    components = [("loader", (digest,)), ("processor", (_alias(), environ.get(TUNABLES, "")))]
    return keys.key_of("features", components)


def unclassified(environ: Mapping[str, str]) -> str:
    """Stands for the class if it is not known: everything that could affect it."""
    return f"{describe()}{TUNABLES}={environ.get(TUNABLES, '')}"


def _alias() -> str:
    try:
        with open(_ALIAS, "rb") as stream:
            return os.fsdecode(stream.read()) or describe()
    except OSError:
        return describe()


def may_be_run(path: str) -> bool:
    """Whether a loader that only a record names is safe to run.

    That is this process's own loader, and those in system directories that only root can write.
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
    is_system_loader = directory in _SYSTEM_DIRECTORIES and name.startswith("ld") and ".so." in name
    return is_system_loader and is_of_root and stat.S_ISREG(status.st_mode)


def _query(loader: str, environ: Mapping[str, str]) -> str:
    """The processor class; empty if the loader lacks `--list-diagnostics` (before glibc 2.33)."""
    import re

    from nvccache.machine import process

    try:
        done = process.run([loader, "--list-diagnostics"], environ)
    except OSError:
        return ""
    version = re.search(_VERSION, done.stdout)
    if done.status != 0 or not version:
        return ""
    return class_in(done.stdout, (int(version[1]), int(version[2])))


def class_in(diagnostics: bytes, version: tuple[int, int]) -> str:
    """The class in the output of `--list-diagnostics`, or empty."""
    import re

    active = {
        (int(leaf, 16), int(register, 16)): int(bits, 16)
        for leaf, register, bits in re.findall(_ACTIVE, diagnostics)
    }
    if not active:
        return b"\n".join(re.findall(_CAPABILITIES, diagnostics)).decode(errors="replace")
    if version <= _LAST_KNOWN_VERSION and active.keys() >= _USED_BY_LIBM.keys():
        active = {register: active[register] & bits for register, bits in _USED_BY_LIBM.items()}
    return " ".join(f"{leaf}.{register}:{bits:x}" for (leaf, register), bits in sorted(active.items()))


def checks_of(found: str) -> list[str]:
    """The arguments of class-check (class_check.c), which succeeds on a machine of the same class.

    Empty if the class has a form that cannot be checked on another machine.
    """
    if "=" in found:
        lines = found.split("\n")
        names = {line.partition("=")[0].rstrip("0123456789") for line in lines}
        return ["=" + line for line in lines] if names <= {"dl_hwcap", "dl_platform"} else []
    active = {}
    for part in found.split():
        name, colon, bits = part.partition(":")
        leaf, dot, register = name.partition(".")
        if not (colon and dot and leaf.isdecimal() and register.isdecimal()):
            return []
        active[int(leaf), int(register)] = bits
    is_selected = active.keys() == _USED_BY_LIBM.keys()
    return [
        f"{leaf:x}.{register:x}&{_USED_BY_LIBM[leaf, register] if is_selected else 0xFFFFFFFF:x}={bits}"
        for (leaf, register), bits in active.items()
    ]
