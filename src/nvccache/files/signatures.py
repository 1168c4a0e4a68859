"""Stat signatures, which change when a file is modified, replaced or touched.

Part of the hot path. A signature is (device, inode, size, modification time, change time), both times
in nanoseconds; five zeros mean "unknown". Programs cannot set a file's change time, so new content of the
same size with a restored modification time is noticed.

Change times are reliable on file systems that this kernel or a server writes to. Images (squashfs, ISO 9660,
ext4) have the dates they were made with, in whole seconds and often the same in the next version. On FUSE, a
program invents them. Files in /proc and other pseudo file systems are generated when they are read.
"""

from __future__ import annotations

import os

# The C module behind `operator`, whose Python part need not be loaded.
from _operator import attrgetter
from itertools import chain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Signature = tuple[int, int, int, int, int]
UNKNOWN = (0, 0, 0, 0, 0)
# How long after a change a second one may get the same time stamp: the kernel's clock for stamps ticks every
# 4 or 10 ms; file systems without fractions of a second have a resolution of up to 2 s.
_FINE_SECONDS = 0.1
_COARSE_SECONDS = 2
_SECOND = 10**9  # nanoseconds
_MOUNTS = "/proc/self/mountinfo"
# The kernel or the server sets the change time.
_REAL = frozenset(
    """
    bcachefs btrfs ceph devtmpfs ext2 ext3 ext4 f2fs gfs2 gpfs jfs nfs nfs4 ocfs2 ramfs reiserfs tmpfs xfs zfs
    """.split()
)
# Layers of other file systems, which may be images.
_LAYERS = frozenset(("overlay", "aufs"))
# File systems of servers, which may stamp in whole seconds; they are not images.
_WHOLE_SECONDS = frozenset(("afs", "beegfs", "lustre"))
_LOOP = 7  # the major number of loop devices, which can be switched to another image
# Pseudo file systems, whose files the kernel generates when they are read.
_PSEUDO = frozenset(
    """
    proc binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts efivarfs mqueue nsfs pstore resctrl securityfs
    selinuxfs sysfs tracefs
    """.split()
)
BOOT = "/proc/sys/kernel/random/boot_id"  # read in a fifth of the time of /proc/cpuinfo

of_status: Callable[[os.stat_result], Signature] = attrgetter(
    "st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns"
)


def all_of(paths: Iterable[str] | Iterable[bytes]) -> list[Signature] | None:
    """The signatures of all paths, links followed, by one stat each; None if one of these fails.

    Paths of bytes take a third less time, since Python need not encode them.
    """
    try:
        return list(map(of_status, map(os.stat, paths)))
    except (OSError, ValueError):
        return None


def of_boot() -> str:
    """Identifies a machine and its processor until it reboots; empty if unknown."""
    try:
        descriptor = os.open(BOOT, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, 64).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)


def signature_of(path: str) -> Signature | None:
    """The signature of one path, or None."""
    try:
        return of_status(os.stat(path))
    except (OSError, ValueError):
        return None


def last_change(signature: Signature, now_ns: int) -> int:
    """The latest time at which the file can have changed last, in nanoseconds.

    Modification times in the future were set by hand, and are ignored; change times cannot be set.
    """
    slack = 0 if signature[4] % _SECOND else _COARSE_SECONDS * _SECOND
    return max(signature[4] + slack, signature[3] if signature[3] <= now_ns else 0)


def is_settled(signature: Signature, now_ns: int) -> bool:
    """Whether any change after `now_ns`, when the signature was taken, will certainly change it.

    A file that has just changed could change again within one tick of the kernel's clock for stamps. On some
    file systems dates are not reliable at all.
    """
    if now_ns - last_change(signature, now_ns) <= _FINE_SECONDS * _SECOND:
        return False
    return has_reliable_dates(signature[0], signature[4])


def to_text(signatures: Iterable[Signature]) -> str:
    """Decimal numbers separated by `, `, five per signature: like the `str` of a list, which is fastest."""
    return str(list(chain.from_iterable(signatures)))[1:-1]


def from_text(text: str) -> list[Signature]:
    """The inverse of `to_text`; raises ValueError."""
    numbers = list(map(int, text.split(", "))) if text else []
    if len(numbers) % 5:
        raise ValueError("a signature is incomplete")
    parts = iter(numbers)
    return list(zip(parts, parts, parts, parts, parts, strict=True))


def has_reliable_dates(device: int, changed_ns: int) -> bool:
    """Whether any change of a file on this device changes its change time. Raises nothing."""
    kind = _kinds().get(device)
    if kind in _WHOLE_SECONDS:
        return True
    if changed_ns % _SECOND:
        # For some kinds, files have another device than the mount.
        return kind is None or kind in _REAL or kind in _LAYERS
    return kind in _REAL and device == _root_device()


def _root_device() -> int:
    """The device of `/`, which is not replaced while the machine runs; -1 for a loop device.

    In a virtual machine, many of its files have the whole-second dates of an image.
    """
    if not _root_devices:
        _root_devices.append(os.stat("/").st_dev)
    return _root_devices[0] if os.major(_root_devices[0]) != _LOOP else -1


def is_pseudo_file_system(device: int) -> bool:
    """Whether files on a device have generated content, perhaps without end. Raises nothing."""
    return _kinds().get(device) in _PSEUDO


_root_devices: list[int] = []  # cached: needed for each file with a date in whole seconds
_kinds_by_device: dict[int, str] = {}


def _kinds() -> Mapping[int, str]:
    """The kind of file system on each device, assuming that the mounts of a process do not change."""
    if not _kinds_by_device:
        try:
            with open(_MOUNTS, encoding="utf-8", errors="replace") as stream:
                _kinds_by_device.update(kinds_in(stream.read()))
        except OSError:
            _kinds_by_device[-1] = ""
    return _kinds_by_device


def kinds_in(mounts: str) -> dict[int, str]:
    """The kinds of file systems, by device, in a text like that of /proc/self/mountinfo."""
    found: dict[int, str] = {}
    for line in mounts.split("\n"):
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()[:1]
        major, _, minor = fields[2].partition(":") if len(fields) > 2 else ("", "", "")
        if kind and major.isdecimal() and minor.isdecimal():
            found[os.makedev(int(major), int(minor))] = kind[0].partition(".")[0]
    return found
