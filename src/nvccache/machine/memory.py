"""Whether there is memory for one more tool.

A further cicc is worth nothing when it drives the machine into swapping. What a tool will take is not known
before it has run; it grows with its input, so it is estimated from that: by the factors below, which were
measured on Thrust, CUTLASS and template-heavy units (CUDA 13.0, g++ 12) and rounded up, and never below the
largest tool that this call has seen end. What is free is the least of what the kernel says and what the
control groups of this process leave, less what the tools already running may still come to take.
"""

from __future__ import annotations

import resource

from nvccache.machine import cgroups

_MIB = 1 << 20
_BASE_BYTES = 64 * _MIB
_SPARE_BYTES = 256 * _MIB  # for everything else on the machine
# Bytes of memory per byte of input.
_FACTORS = {
    "host_preprocess": 1,
    "device_preprocess": 1,
    "cudafe": 64,
    "cicc": 72,
    "ptxas": 256,
    "fatbinary": 4,
    "host_compile": 48,
}
_HEAVY = frozenset({"cudafe", "cicc", "ptxas", "host_compile"})


def estimate(kind: str, input_bytes: int) -> int:
    """Bytes of memory that a stage may take at most."""
    expected = _BASE_BYTES + _FACTORS.get(kind, 64) * input_bytes
    if kind in _HEAVY:
        largest_so_far = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        expected = max(expected, largest_so_far)
    return expected


def has_room(wanted: int, promised: int) -> bool:
    """Whether a tool that takes `wanted` bytes fits in beside those running, which may take `promised`.

    A running tool has some of what it was promised; counting all of it errs towards waiting.
    """
    return available() - promised >= wanted + _SPARE_BYTES


def available() -> int:
    """Bytes that could be allocated now without swapping; a machine that does not tell has plenty."""
    found = (_of_machine(), *map(_of_group, cgroups.directories("memory")))
    return min((left for left in found if left is not None), default=1 << 62)


def _of_machine() -> int | None:
    for line in cgroups.read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _of_group(directory: str) -> int | None:
    for limit, usage, cache in (
        ("memory.max", "memory.current", "inactive_file "),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "),
    ):
        highest, used = (
            cgroups.read(f"{directory}/{limit}").strip(),
            cgroups.read(f"{directory}/{usage}").strip(),
        )
        if highest.isdecimal() and used.isdecimal():
            return int(highest) - int(used) + _number(cgroups.read(f"{directory}/memory.stat"), cache)
    return None


def _number(text: str, name: str) -> int:
    for line in text.splitlines():
        if line.startswith(name):
            return int(line[len(name) :])
    return 0
