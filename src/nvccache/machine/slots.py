"""How many tools may run at once: the cores of this process, the user's pool of places, a call's slots.

All calls of one user on one machine share a pool with as many places as there are cores. A place is a
file that is locked while it is taken, so that the kernel frees it when its holder dies:

    /dev/shm/nvccache-<uid>/slot-<number>

Knows nothing of the tools that run, nor of where tokens come from: `jobserver` and `watchdog` do.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.machine.watchdog import Watchdog

_CGROUPS = "/sys/fs/cgroup"
_OWN_CGROUPS = "/proc/self/cgroup"
# Not TMPDIR and not the cache: both may differ between calls, and the cache may be shared by machines.
_BASES = ("/dev/shm", "/tmp")


def available_cores(own_cgroups: str = _OWN_CGROUPS, cgroups: str = _CGROUPS) -> int:
    """How many cores this process may use, by its affinity and its cgroups' quotas; at least 1."""
    counts = [len(os.sched_getaffinity(0))]
    try:
        with open(own_cgroups, encoding="utf-8", errors="surrogateescape") as stream:
            lines = stream.read().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, _, named = line.partition(":")
        controllers, _, path = named.partition(":")
        if not controllers:
            counts += _quotas((cgroups, f"{cgroups}/unified"), path)
        elif "cpu" in controllers.split(","):
            counts += _quotas((f"{cgroups}/cpu", f"{cgroups}/{controllers}"), path)
    return max(1, min(counts))


def _quotas(mounts: tuple[str, ...], path: str) -> list[int]:
    """The quotas, in cores and rounded up, of one cgroup and of those that it lies in.

    A container often sees its own cgroup at the root of the mount, and yet its path on the host: so the
    root is asked as well, and directories that are not there limit nothing.
    """
    counts = []
    for mount in mounts:
        below = os.path.normpath(f"/{path.lstrip('/')}")
        while True:
            directory = mount + below.rstrip("/")
            quota = _read(f"{directory}/cpu.max").split()
            if not quota:
                quota = _read(f"{directory}/cpu.cfs_quota_us").split()
                quota += _read(f"{directory}/cpu.cfs_period_us").split()
            if len(quota) == 2 and quota[0].isdecimal() and quota[1].isdecimal() and int(quota[1]):
                counts.append(-(-int(quota[0]) // int(quota[1])))
            if below == "/":
                break
            below = os.path.dirname(below)
    return counts


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as stream:
            return stream.read()
    except (OSError, UnicodeDecodeError):
        return ""


def pool_directory(bases: tuple[str, ...] = _BASES) -> str:
    """The directory of this user's pool on this machine, made if need be; empty when it cannot be trusted."""
    usable = [base for base in bases if os.path.isdir(base) and os.access(base, os.W_OK | os.X_OK)]
    if not usable:
        return ""
    directory = f"{usable[0]}/nvccache-{os.geteuid()}"
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700)
        found = os.lstat(directory)
    except OSError:
        return ""
    return directory if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() else ""


class Place:
    """One place of the pool, taken until it is released or this process dies."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the place up; again is once."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                # Closing is not enough: a tool that is just being started has the descriptor until its exec.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


class Pool:
    """The places that all calls of this user share; `directory` may be empty, and then there are none."""

    __slots__ = ("_directory", "size")

    def __init__(self, directory: str, size: int) -> None:
        self._directory = directory
        self.size = size

    def take(self) -> Place | None:
        """A free place, or None at once; never raises OSError."""
        if not self._directory:
            return None
        for number in range(self.size):
            place = _lock(f"{self._directory}/slot-{number}")
            if place:
                return place
        return None


def _lock(path: str) -> Place | None:
    try:
        # Opened anew each time: the lock belongs to the open file, so this process excludes itself as well.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return Place(descriptor)


class Slot:
    """The right to run one tool. `is_own` says that the call had it from the start."""

    __slots__ = ("_place", "_slots", "_token_from", "is_own")

    def __init__(self, slots: Slots, is_own: bool, place: Place | None, token_from: Watchdog | None) -> None:
        self._slots = slots
        self.is_own = is_own
        self._place = place
        self._token_from = token_from

    @property
    def has_place(self) -> bool:
        """Whether others see that it is in use."""
        return self._place is not None

    def occupy(self, place: Place | None) -> None:
        """Let others see, by a place if there is one, that it is in use."""
        self._place = place

    def release(self) -> None:
        """Give the slot up; again is once."""
        if not self._slots.forget(self):
            return
        if self._place:
            self._place.release()
        if self._token_from:
            self._token_from.return_token()


class Slots:
    """What one call may run at once; for one thread only.

    `own` slots it always has. More come from make's jobserver when there is one, since make alone then
    knows how much may run, and otherwise from the user's pool. A slot that needs no place of the pool
    takes one all the same when there is one, so that other calls see that the machine is busy.
    """

    __slots__ = ("_in_use", "_own", "_pool", "_watchdog")

    def __init__(self, own: int, pool: Pool | None, watchdog: Watchdog | None) -> None:
        self._own = own
        self._pool = pool
        self._watchdog = watchdog
        self._in_use: list[Slot] = []

    def take(self) -> Slot | None:
        """A slot, its own first, or None at once; never raises OSError."""
        is_own = sum(slot.is_own for slot in self._in_use) < self._own
        token_from = None
        if not is_own and self._watchdog and self._watchdog.has_jobserver:
            if not self._watchdog.take_token():
                return None
            token_from = self._watchdog
        place = self._place(is_own)
        if not (is_own or token_from or place):
            return None
        slot = Slot(self, is_own, place, token_from)
        self._in_use.append(slot)
        return slot

    def may_become_free(self) -> bool:
        """Whether another call, or make, could give up what this one may then take."""
        if self._watchdog and self._watchdog.has_jobserver:
            return True
        return self._pool is not None and sum(slot.has_place for slot in self._in_use) < self._pool.size

    def _place(self, is_own: bool) -> Place | None:
        """A place for one more slot; those in use that have none come first, or a call runs too much."""
        if not self._pool:
            return None
        for slot in self._in_use:
            if not is_own and not slot.has_place:
                slot.occupy(self._pool.take())
        return self._pool.take()

    def release_all(self) -> None:
        """Give up every slot still in use."""
        for slot in list(self._in_use):
            slot.release()

    def forget(self, slot: Slot) -> bool:
        """Count the slot as free again; False when it already was."""
        if slot not in self._in_use:
            return False
        self._in_use.remove(slot)
        return True
