"""What `-march=native` sees of the processor this runs on, as far as the kernel tells."""

from __future__ import annotations

_TOLD = ("vendor_id", "cpu family", "model", "stepping", "flags", "cache size", "CPU part", "Features")


def describe() -> str:
    """The lines about one processor, without what changes while it runs."""
    lines = []
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
            for line in stream:
                if not line.strip():
                    break  # one processor is enough
                if line.partition(":")[0].strip() in _TOLD:
                    lines.append(line)
    except OSError:
        return ""
    return "".join(lines)
