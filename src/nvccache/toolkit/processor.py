"""Which properties of this machine's processor can affect a product. Part of the hot path."""

from __future__ import annotations

import os

from nvccache.files import keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.store.store import Store

_FIELDS = ("vendor_id", "cpu family", "model", "stepping", "flags", "cache size", "CPU part", "Features")
# Vendor, family, model and all features known to the kernel. Unlike /proc/cpuinfo, as fast on many cores.
_ALIAS = "/sys/devices/system/cpu/modalias"
# By these glibc 2.28 to 2.42 choose functions of libm (every ifunc in sysdeps/x86_64/fpu/multiarch).
USED_BY_LIBM = ("avx", "avx2", "fma", "fma4", "sse4_1")
_LAST_KNOWN_GLIBC = [2, 42]


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


def processor_class(cache: Store) -> str:
    """The C library's version and the flags by which its libm chooses functions; a memo.

    For a later glibc, another C library or another architecture, all of the processor in several lines.
    """
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        version = ""
    key = memo_key(version)
    answer = cache.find_memo(key)
    if not answer:
        answer = class_in(describe(), version)
        cache.add_memo(key, answer)
    return answer


def memo_key(version: str) -> str:
    try:
        with open(_ALIAS, "rb") as stream:
            alias = os.fsdecode(stream.read())
    except OSError:
        alias = ""
    return keys.key_of("processor class", [("processor", (alias or describe(), version))])


def class_in(description: str, version: str) -> str:
    name, _, number = version.partition(" ")
    is_known = name == "glibc" and [int(part) for part in number.split(".")[:2]] <= _LAST_KNOWN_GLIBC
    flags = next((line.split() for line in description.split("\n") if line.startswith("flags")), None)
    if not is_known or not flags:
        return f"{version}\n{description}"
    return " ".join([version, *(flag for flag in USED_BY_LIBM if flag in flags)])
