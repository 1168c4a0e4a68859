"""Whether the dates of a file can be relied on: that any change of its content shows in them.

On a file system of its own kernel a change time is when the file was changed. An image has the dates that it
was made with, often the same in the next version, be it squashfs, ISO 9660 or ext4: these are whole seconds.
FUSE has what a program says. What files hold in /proc and its like is made when they are read. Only loaded
where files may have changed.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_MOUNTS = "/proc/self/mountinfo"
_SECOND = 10**9  # nanoseconds
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
