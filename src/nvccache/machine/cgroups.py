"""The control groups of this process, of both versions, and what their files say."""

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
