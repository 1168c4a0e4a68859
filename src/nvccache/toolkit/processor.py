"""Which properties of this machine's processor can affect a product. Part of the hot path."""

from __future__ import annotations

import os

_FIELDS = ("vendor_id", "cpu family", "model", "stepping", "flags", "cache size", "CPU part", "Features")
# Vendor, family, model and all features known to the kernel. Unlike /proc/cpuinfo, as fast on many cores.
_ALIAS = "/sys/devices/system/cpu/modalias"
# By these glibc 2.28 to 2.42 choose functions of libm (every ifunc in sysdeps/x86_64/fpu/multiarch); their
# numbers are the kernel's (cpufeatures.h).
USED_BY_LIBM = {"avx": "009C", "avx2": "0125", "fma": "008C", "fma4": "00D0", "sse4_1": "0093"}
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


def processor_class() -> str:
    """The C library's version and the flags by which its libm chooses functions.

    For a later glibc, another C library or another architecture, all of the processor in several lines.
    """
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION") or ""
        with open(_ALIAS, encoding="utf-8", errors="replace") as stream:
            alias = stream.read()
    except (OSError, ValueError):
        version = alias = ""
    return class_in(alias, version)


def class_in(alias: str, version: str) -> str:
    name, _, number = version.partition(" ")
    is_known = name == "glibc" and [int(part) for part in number.split(".")[:2]] <= _LAST_KNOWN_GLIBC
    kind, _, features = alias.strip().partition(":feature:")
    if not is_known or not kind.startswith("cpu:type:x86") or not features:
        return f"{version}\n{describe()}"
    present = features.split(",")
    return " ".join([version, *(flag for flag, number in USED_BY_LIBM.items() if number in present)])
