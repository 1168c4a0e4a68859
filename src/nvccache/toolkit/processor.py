"""What of the processor this runs on reaches a product.

`-march=native` sees whatever the kernel tells. The tools that fold device mathematics see a class: which
variants of its functions the C library's libm chooses. The dynamic loader says what it lets libm see,
GLIBC_TUNABLES heeded; it is asked once, and its answer is remembered.
"""

from __future__ import annotations

import os

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
        from nvccache.toolkit import ld_so

        if not is_of_tool and not ld_so.may_be_run(loader):
            return ""
        found = ld_so.features(loader, environ) or unclassified(environ)
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
