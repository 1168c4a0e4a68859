"""Stat signatures: what changes when a file is changed, replaced or touched.

Part of the hot path. A signature is (device, inode, size, modification time, change time), both times
in nanoseconds; five zeros stand for "not known". Nobody can set the change time of a file, so that
content of the same size under a restored date still shows.

On a file system of its own kernel a change time is when the file was changed. An image has the dates that it
was made with, often the same in the next version, be it squashfs, ISO 9660 or ext4: these are whole seconds.
FUSE has what a program says. What files hold in /proc and its like is made when they are read.
"""

from __future__ import annotations

import marshal
import os

# The pure-Python `operator` would be loaded for nothing; this is the module behind it.
from _operator import attrgetter
from itertools import chain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Signature = tuple[int, int, int, int, int]
UNKNOWN = (0, 0, 0, 0, 0)
# How long after a change a file system may stamp another one with the same time. The clock that stamps
# ticks every 4 or 10 ms; file systems without a fraction of a second stamp to 2 s.
_FINE_SECONDS = 0.1
_COARSE_SECONDS = 2
_SECOND = 10**9  # nanoseconds
_MOUNTS = "/proc/self/mountinfo"
# The kernel, or the server, sets the change time.
_REAL = frozenset(
    ("bcachefs", "btrfs", "devtmpfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "ramfs", "reiserfs", "tmpfs")
) | frozenset(("xfs", "zfs", "ceph", "gfs2", "gpfs", "nfs", "nfs4", "ocfs2"))
# Layers of others, which may be images.
_LAYERS = frozenset(("overlay", "aufs"))
# Servers that stamp with whole seconds; there are no images of these.
_WHOLE_SECONDS = frozenset(("afs", "beegfs", "lustre"))
_LOOP = 7  # the major number of devices that show a file, and another one in a moment
# Their files hold what the kernel makes up when they are read.
_OF_PROCESSES = "proc"
_MADE_WHEN_READ = frozenset(
    (_OF_PROCESSES, "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "efivarfs")
) | frozenset(("mqueue", "nsfs", "pstore", "resctrl", "securityfs", "selinuxfs", "sysfs", "tracefs"))
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
    return dates_tell(signature[0], signature[4])


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


def dates_tell(device: int, changed_ns: int) -> bool:
    """Whether the change time of a file on a device shows any change of it. Raises nothing."""
    kind = _kinds().get(device)
    if kind in _WHOLE_SECONDS:
        return True
    if changed_ns % _SECOND:
        # Some kinds show other devices for their files than where they are mounted.
        return kind is None or kind in _REAL or kind in _LAYERS
    return kind in _REAL and device == _device_of_system()


def _device_of_system() -> int:
    """Where `/` is, which stays while the machine runs. Of a virtual machine it is often made as an image."""
    if not _systems:
        _systems.append(os.stat("/").st_dev)
    return _systems[0] if os.major(_systems[0]) != _LOOP else -1


def is_of_processes(device: int) -> bool:
    """Whether links on a device lead elsewhere for each process."""
    return _kinds().get(device) == _OF_PROCESSES


def makes_when_read(device: int) -> bool:
    """Whether files on a device have no content of their own, and perhaps no end. Raises nothing."""
    return _kinds().get(device) in _MADE_WHEN_READ


_systems: list[int] = []  # asked for each file that is older than this machine
_known: dict[int, str] = {}


def _kinds() -> Mapping[int, str]:
    """What kind of file system each device has; the mounts of a process do not change while it lasts."""
    if not _known:
        try:
            with open(_MOUNTS, encoding="utf-8", errors="replace") as stream:
                _known.update(kinds_in(stream.read()))
        except OSError:
            _known[-1] = ""
    return _known


def kinds_in(mounts: str) -> dict[int, str]:
    """The kinds in a text like that of /proc/self/mountinfo."""
    found: dict[int, str] = {}
    for line in mounts.split("\n"):
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()[:1]
        major, _, minor = fields[2].partition(":") if len(fields) > 2 else ("", "", "")
        if kind and major.isdecimal() and minor.isdecimal():
            found[os.makedev(int(major), int(minor))] = kind[0].partition(".")[0]
    return found
