"""Which build a call belongs to, and how many jobs run in parallel. Part of the hot path.

A build is one run of make, ninja or another program of BUILD_TOOLS: the outermost among a call's ancestors in
its session, so that recursive makes, and a ninja below make, belong to one build. A call without a build tool
belongs to none; events.py groups these by time.

Each process from the build tool down to the call runs its children in parallel. A call's seconds are divided
by the product of their numbers to estimate how much longer it made the build; at any moment the shares of
all calls add up to at most 1. Without a build tool, the leader of the session is the top. If the jobs cannot
be counted, the number of cores is assumed.
"""

from __future__ import annotations

import os

from nvccache.machine import cgroups

BUILD_TOOLS = frozenset(
    "make gmake bmake ninja ninja-build samu n2 cmake meson scons waf xmake buck2".split()
)
MOST_ANCESTORS = 32
MOST_THREADS = 64  # of one process; each has its own list of children
_LARGEST = 1 << 16  # bytes


class Callers:
    """The ancestors of this process up to its build tool, found at the start of the call."""

    __slots__ = ("_jobs", "_pids", "build")

    def __init__(self, proc: str = "/proc") -> None:
        self.build = ""  # an identifier, empty without a build tool
        self._pids: list[str] = []
        try:
            self._find(proc)
        except (OSError, ValueError, IndexError):
            self._pids = []
        self._jobs = self._count(proc)

    def jobs(self, earlier: int = 0, proc: str = "/proc") -> int:
        """How many jobs of the build ran in parallel, at most the number of cores.

        The most that were running at the start of the call, at its end, or according to `earlier` calls: the
        first calls of a build find few others at their start, and the last ones few or none at their end.
        """
        counted = (self._jobs, self._count(proc))
        most = max(*counted, earlier)
        if most == 1 and all(counted):
            return 1
        cores = cgroups.Share().cores
        return min(most, cores) if all(counted) else cores

    def _find(self, proc: str) -> None:
        """Raises OSError, ValueError or IndexError."""
        _, parent, session, _ = _status(proc, "self")
        ancestors: list[str] = []
        while len(ancestors) < MOST_ANCESTORS and parent != "0":
            name, grandparent, of_session, started = _status(proc, parent)
            if of_session != session:
                break
            ancestors.append(parent)
            if name in BUILD_TOOLS:
                self.build = f"{parent}-{started}"
                self._pids = list(ancestors)
            if parent == session:
                # Without a build tool, all of them: a shell with background jobs, or xargs.
                self._pids = self._pids or ancestors
                break
            parent = grandparent

    def _count(self, proc: str) -> int:
        """The number of jobs now; 0 if they cannot be counted."""
        product = 1
        try:
            for pid in self._pids:
                product *= max(1, _children(proc, pid))
        except (OSError, ValueError):
            return 0
        return product if self._pids else 0


def _status(proc: str, pid: str) -> tuple[str, str, str, str]:
    """A process's name, parent, session, and start time in ticks."""
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
