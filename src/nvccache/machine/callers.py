"""Which build a call belongs to, and with how many jobs it shares the clock. Part of the hot path.

A build is one run of make, ninja or another program of BUILD_TOOLS: of a call's ancestors in its session the
outermost one, so that a make that make has started, and a ninja below it, belong to the same build. A call
without one belongs to none, and events.py tells builds apart by other means.

Each process on the way up to that build tool splits its time among its children. So the product of their
numbers is what a call's seconds are divided by to say how much longer the build took for it; those of all
calls at any moment add up to no more than the moment. Without a build tool the way ends where the session
begins. What cannot be counted is taken for as many jobs as there are cores.
"""

from __future__ import annotations

import os

from nvccache.machine import cgroups

BUILD_TOOLS = frozenset(
    "make gmake bmake ninja ninja-build samu n2 cmake meson scons waf xmake buck2".split()
)
MOST_ANCESTORS = 32
MOST_THREADS = 64  # of one process, each with children of its own
_LARGEST = 1 << 16  # bytes


class Callers:
    """The ancestors of this process that matter: looked at when the call begins, and counted again later."""

    __slots__ = ("_jobs", "_pids", "build")

    def __init__(self, proc: str = "/proc") -> None:
        self.build = ""  # names the build, if there is one
        self._pids: list[str] = []
        try:
            self._find(proc)
        except (OSError, ValueError, IndexError):
            self._pids = []
        self._jobs = self._count(proc)

    def jobs(self, seen: int = 0, proc: str = "/proc") -> int:
        """How many jobs of the build ran at once, as far as cores let them; `seen` were some by calls before.

        One of the first calls sees few others when it begins, and one of the last sees few when it ends, or
        none at all.
        """
        counted = (self._jobs, self._count(proc))
        most = max(*counted, seen)
        if most == 1 and all(counted):
            return 1
        cores = cgroups.Share().cores
        return min(most, cores) if all(counted) else cores

    def _find(self, proc: str) -> None:
        """Raises OSError, ValueError or IndexError."""
        _, parent, session, _ = _status(proc, "self")
        passed: list[str] = []
        while len(passed) < MOST_ANCESTORS and parent != "0":
            name, above, of_session, started = _status(proc, parent)
            if of_session != session:
                break
            passed.append(parent)
            if name in BUILD_TOOLS:
                self.build = f"{parent}-{started}"
                self._pids = list(passed)
            if parent == session:
                # Without a build tool, all up to here: a shell with jobs in the background, or xargs.
                self._pids = self._pids or passed
                break
            parent = above

    def _count(self, proc: str) -> int:
        """The jobs there are; 0 if they cannot be counted."""
        product = 1
        try:
            for pid in self._pids:
                product *= max(1, _children(proc, pid))
        except (OSError, ValueError):
            return 0
        return product if self._pids else 0


def _status(proc: str, pid: str) -> tuple[str, str, str, str]:
    """A process's name, its parent, its session, and when it began, in ticks."""
    head, _, rest = _read(f"{proc}/{pid}/stat").rpartition(")")
    fields = rest.split()
    return head.partition("(")[2], fields[1], fields[3], fields[19]


def _children(proc: str, pid: str) -> int:
    threads = os.listdir(f"{proc}/{pid}/task")
    if len(threads) > MOST_THREADS:
        raise ValueError("too many threads")
    return sum(len(_read(f"{proc}/{pid}/task/{thread}/children").split()) for thread in threads)


def _read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _LARGEST).decode(errors="replace")
    finally:
        os.close(descriptor)
