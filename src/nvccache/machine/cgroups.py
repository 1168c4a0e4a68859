"""The cores that this process may use, and its control groups, of both versions. Part of the hot path."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOUNT = "/sys/fs/cgroup"
OWN = "/proc/self/cgroup"


def directories(controller: str, own: str = OWN, mount: str = MOUNT) -> Iterator[str]:
    """Where the limits of a controller (`cpu`, `memory`) may be: the process's group and all above it.

    In a container the group is often mounted as the root, while its path is that on the host. So the root is
    included, and some of the directories may not exist.
    """
    for line in read(own).splitlines():
        _, _, named = line.partition(":")
        controllers, _, path = named.partition(":")
        if not controllers:
            yield from _upwards((mount, f"{mount}/unified"), path)
        elif controller in controllers.split(","):
            yield from _upwards(dict.fromkeys((f"{mount}/{controller}", f"{mount}/{controllers}")), path)


class Share:
    """The cores that this process may use, and the control group that limits them."""

    __slots__ = ("affinity", "cores", "group")

    def __init__(self, own: str = OWN, mount: str = MOUNT) -> None:
        self.affinity = sorted(os.sched_getaffinity(0))
        self.group = ""  # with the lowest quota, if that is below the affinity; an inode and `-`
        self.cores = len(self.affinity)  # at least 1
        for directory in directories("cpu", own, mount):
            quota = _quota(directory)
            if quota is not None and quota < self.cores:
                self.cores = max(1, quota)
                self.group = _name(directory)


def _name(directory: str) -> str:
    """Identifies a group by its inode, since the groups of different containers can have the same path."""
    try:
        return f"{os.stat(directory).st_ino}-"
    except OSError:
        return ""


def _quota(directory: str) -> int | None:
    """The quota of one group, in cores, rounded up."""
    fields = read(f"{directory}/cpu.max").split()
    if not fields:
        fields = read(f"{directory}/cpu.cfs_quota_us").split()
        fields += read(f"{directory}/cpu.cfs_period_us").split()
    if len(fields) != 2 or not fields[0].isdecimal() or not fields[1].isdecimal() or not int(fields[1]):
        return None
    return -(-int(fields[0]) // int(fields[1]))


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
