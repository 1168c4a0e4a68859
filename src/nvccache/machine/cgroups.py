"""The cores that this process may use, and its control groups, of both versions. Part of the hot path."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOUNT = "/sys/fs/cgroup"
OWN = "/proc/self/cgroup"


def usable_cores(own: str = OWN, mount: str = MOUNT) -> list[int]:
    """The numbers of the cores in this process's affinity mask: as many as its CPU quota allows."""
    affinity = sorted(os.sched_getaffinity(0))
    quotas = filter(None, map(_quota, directories("cpu", own, mount)))
    return affinity[: min([len(affinity), *quotas])]


def _quota(directory: str) -> int | None:
    """The quota of one group, in cores, rounded up; None if there is none."""
    fields = read(f"{directory}/cpu.max").split()
    if not fields:
        fields = read(f"{directory}/cpu.cfs_quota_us").split()
        fields += read(f"{directory}/cpu.cfs_period_us").split()
    if len(fields) != 2 or not fields[0].isdecimal() or not fields[1].isdecimal() or not int(fields[1]):
        return None
    return max(1, -(-int(fields[0]) // int(fields[1])))


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
