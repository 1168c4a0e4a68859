"""The cores that this process may use, and its control groups, of both versions. Part of the hot path."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOUNT = "/sys/fs/cgroup"
OWN = "/proc/self/cgroup"


def directories(controller: str, own: str = OWN, mount: str = MOUNT) -> Iterator[str]:
    """Where the limits of a controller (`cpu`, `memory`) may stand: of a process's group, and of those above.

    A container often sees its own group at the root of the mount, and yet its path on the host: so the
    root is there as well, and directories that do not exist limit nothing.
    """
    for line in read(own).splitlines():
        _, _, named = line.partition(":")
        controllers, _, path = named.partition(":")
        if not controllers:
            yield from _upwards((mount, f"{mount}/unified"), path)
        elif controller in controllers.split(","):
            yield from _upwards(dict.fromkeys((f"{mount}/{controller}", f"{mount}/{controllers}")), path)


class Share:
    """What this process may use of the machine, and with whom it shares that."""

    __slots__ = ("affinity", "cores", "group")

    def __init__(self, own: str = OWN, mount: str = MOUNT) -> None:
        self.affinity = sorted(os.sched_getaffinity(0))
        self.group = ""  # that whose quota allows less than the affinity does
        self.cores = len(self.affinity)  # at least 1
        for directory in directories("cpu", own, mount):
            quota = _quota(directory)
            if quota is not None and quota < self.cores:
                self.cores = max(1, quota)
                self.group = _name(directory)


def _name(directory: str) -> str:
    """What a group is told by: its inode, since containers see their groups under one path."""
    try:
        return f"{os.stat(directory).st_ino}-"
    except OSError:
        return ""


def _quota(directory: str) -> int | None:
    """The quota of one group, in cores and rounded up."""
    words = read(f"{directory}/cpu.max").split()
    if not words:
        words = read(f"{directory}/cpu.cfs_quota_us").split()
        words += read(f"{directory}/cpu.cfs_period_us").split()
    if len(words) != 2 or not words[0].isdecimal() or not words[1].isdecimal() or not int(words[1]):
        return None
    return -(-int(words[0]) // int(words[1]))


def _upwards(mounts: Iterable[str], path: str) -> Iterator[str]:
    for mounted in mounts:
        below = os.path.normpath(f"/{path.lstrip('/')}")
        while below != "/":
            yield mounted + below
            below = os.path.dirname(below)
        yield mounted


def read(path: str) -> str:
    """The text of a file; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read()
    except OSError:
        return ""
