"""Stat signatures: what changes when a file is changed, replaced or touched.

Part of the hot path. A signature is (device, inode, size, modification time, change time), both times
in nanoseconds; five zeros stand for "not known". Nobody can set the change time of a file, so that
content of the same size under a restored date still shows.
"""

from __future__ import annotations

import marshal
import os

# The pure-Python `operator` would be loaded for nothing; this is the module behind it.
from _operator import attrgetter
from itertools import chain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Signature = tuple[int, int, int, int, int]

UNKNOWN = (0, 0, 0, 0, 0)
# How long after a change a file system may stamp another one with the same time. The clock that stamps
# ticks every 4 or 10 ms; file systems without a fraction of a second stamp to 2 s.
_FINE_SECONDS = 0.1
_COARSE_SECONDS = 2
_SECOND = 10**9  # nanoseconds
BOOT = "/proc/sys/kernel/random/boot_id"  # read in a fifth of the time of /proc/cpuinfo

of_status: Callable[[os.stat_result], Signature] = attrgetter(
    "st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns"
)


def all_of(paths: Iterable[str] | Iterable[bytes]) -> list[Signature] | None:
    """The signatures of all paths, links followed, one stat each; None if one cannot be had.

    Paths of bytes take a third less time: Python need not encode them.
    """
    try:
        return list(map(of_status, map(os.stat, paths)))
    except (OSError, ValueError):
        return None


def of_boot() -> str:
    """What tells apart machines and their restarts, or empty: a processor stays the same in between."""
    try:
        descriptor = os.open(BOOT, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, 64).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)


def of(path: str) -> Signature | None:
    """The signature of one path, or None."""
    try:
        return of_status(os.stat(path))
    except (OSError, ValueError):
        return None


def last_change(signature: Signature, now_ns: int) -> int:
    """When the file was changed last, at the latest.

    Dates in the future are somebody's invention; change times are not.
    """
    slack = 0 if signature[4] % _SECOND else _COARSE_SECONDS * _SECOND
    return max(signature[4] + slack, signature[3] if signature[3] <= now_ns else 0)


def is_settled(signature: Signature, now_ns: int) -> bool:
    """Whether any later change is sure to change the signature, seen at `now_ns`.

    A file changed a moment ago could be changed again within one tick of the clock that stamps it. On some
    file systems dates say nothing at all.
    """
    if now_ns - last_change(signature, now_ns) <= _FINE_SECONDS * _SECOND:
        return False
    from nvccache.files import filesystems

    return filesystems.dates_tell(signature[0], signature[4])


def to_bytes(signatures: Iterable[Signature]) -> bytes:
    """A form to be compared, many times faster to make than text; it is never read back.

    What `marshal` makes of the list of all numbers in its version 2: `[`, their count (4 bytes,
    little-endian), then for each `i` and 4 bytes, or `l`, the count of its digits to base 2**15 (4 bytes)
    and these digits (2 bytes each).
    """
    return marshal.dumps(list(chain.from_iterable(signatures)), 2)


def to_text(signatures: Iterable[Signature]) -> str:
    """Decimal numbers with `, ` between them, five a signature: as Python shows a list, which is fastest."""
    return str(list(chain.from_iterable(signatures)))[1:-1]


def from_text(text: str) -> list[Signature]:
    """The inverse of `to_text`; raises ValueError."""
    numbers = list(map(int, text.split(", "))) if text else []
    if len(numbers) % 5:
        raise ValueError("a signature is cut short")
    parts = iter(numbers)
    return list(zip(parts, parts, parts, parts, parts, strict=True))
