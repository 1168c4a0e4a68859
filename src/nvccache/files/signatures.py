"""Stat signatures, which change when a file is modified, replaced or touched.

Part of the hot path. A signature is (device, inode, size, modification time, change time), with both times in
nanoseconds; five zeros mean "unknown". Since programs cannot set a file's change time, new content is
detected even if its size is the same and its modification time was set back.

Change times are reliable on file systems where this kernel or a server sets them. Images (squashfs, ISO 9660,
ext4) contain dates in whole seconds, which often stay the same in the next version of the image. On FUSE, a
program chooses the dates. Files in /proc and other pseudo file systems are generated when they are read.
"""

from __future__ import annotations

import os

# The C module behind `operator`, so that the Python module is not loaded.
from _operator import attrgetter
from itertools import chain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Signature = tuple[int, int, int, int, int]
UNKNOWN = (0, 0, 0, 0, 0)
# How long after a change another change may get the same time stamp. The kernel's clock for time stamps ticks
# every 4 or 10 ms; file systems without fractions of a second have a resolution of up to 2 s.
_FINE_SECONDS = 0.1
_COARSE_SECONDS = 2
_SECOND = 10**9  # nanoseconds
_MOUNTS = "/proc/self/mountinfo"
# File systems on which the kernel or a server sets the change time.
_REAL = frozenset(
    """
    bcachefs btrfs ceph devtmpfs ext2 ext3 ext4 f2fs gfs2 gpfs jfs nfs nfs4 ocfs2 ramfs reiserfs tmpfs xfs zfs
    """.split()
)
# Layers of other file systems, some of which may be images.
_LAYERS = frozenset(("overlay", "aufs"))
# File systems of servers, which may set times in whole seconds although they are not images.
_WHOLE_SECONDS = frozenset(("afs", "beegfs", "lustre"))
_LOOP = 7  # the major number of loop devices, which can be attached to another image
# Pseudo file systems, whose files the kernel generates when they are read.
_PSEUDO = frozenset(
    """
    proc binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts efivarfs mqueue nsfs pstore resctrl securityfs
    selinuxfs sysfs tracefs
    """.split()
)
BOOT = "/proc/sys/kernel/random/boot_id"  # reading it takes a fifth of the time of /proc/cpuinfo

of_status: Callable[[os.stat_result], Signature] = attrgetter(
    "st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns"
)


def all_of(paths: Iterable[str] | Iterable[bytes]) -> list[Signature] | None:
    """The signatures of all paths, by one stat each, which follows links; None if one of them fails.

    Paths given as bytes take a third less time, since Python need not encode them.
    """
    try:
        return list(map(of_status, map(os.stat, paths)))
    except (OSError, ValueError):
        return None


def of_boot() -> str:
    """An id of this machine, and so of its processor, that changes with each boot; empty if unknown."""
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
    """The latest time, in nanoseconds, at which the last change of the file can have happened.

    A modification time in the future was set by a program, and is ignored. Change times cannot be set.
    """
    slack = 0 if signature[4] % _SECOND else _COARSE_SECONDS * _SECOND
    return max(signature[4] + slack, signature[3] if signature[3] <= now_ns else 0)


def is_settled(signature: Signature, now_ns: int) -> bool:
    """Whether any later change of the file will certainly change its signature, which was taken at `now_ns`.

    A file that has just changed could change again within one tick of the kernel's clock for time stamps. On
    some file systems, dates are not reliable at all.
    """
    if now_ns - last_change(signature, now_ns) <= _FINE_SECONDS * _SECOND:
        return False
    return has_reliable_dates(signature[0], signature[4])


def to_text(signatures: Iterable[Signature]) -> str:
    """Five decimal numbers per signature, separated by `, `, because `str` of a list is the fastest way."""
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
        # On some file systems, files have another device than the mount, so their kind is unknown.
        return kind is None or kind in _REAL or kind in _LAYERS
    return kind in _REAL and device == _root_device()


def _root_device() -> int:
    """The device of `/`, which stays the same while the machine runs; -1 if it is a loop device.

    In a virtual machine, many files on this device have the dates of an image, in whole seconds.
    """
    if not _root_devices:
        _root_devices.append(os.stat("/").st_dev)
    return _root_devices[0] if os.major(_root_devices[0]) != _LOOP else -1


def is_pseudo_file_system(device: int) -> bool:
    """Whether files on a device have generated content, which may have no end. Raises nothing."""
    return _kinds().get(device) in _PSEUDO


_root_devices: list[int] = []  # a cache, since it is needed for each file with a date in whole seconds
_kinds_by_device: dict[int, str] = {}


def _kinds() -> Mapping[int, str]:
    """The kind of file system on each device, read once: a process assumes that mounts do not change."""
    if not _kinds_by_device:
        try:
            with open(_MOUNTS, encoding="utf-8", errors="replace") as stream:
                _kinds_by_device.update(kinds_in(stream.read()))
        except OSError:
            _kinds_by_device[-1] = ""
    return _kinds_by_device


def kinds_in(mounts: str) -> dict[int, str]:
    """The kind of file system for each device, from a text in the format of /proc/self/mountinfo."""
    found: dict[int, str] = {}
    for line in mounts.split("\n"):
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()[:1]
        major, _, minor = fields[2].partition(":") if len(fields) > 2 else ("", "", "")
        if kind and major.isdecimal() and minor.isdecimal():
            found[os.makedev(int(major), int(minor))] = kind[0].partition(".")[0]
    return found
