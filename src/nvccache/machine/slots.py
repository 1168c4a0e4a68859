"""How many tools may run at once: the slots of the user's pool, those of a call, and memory for one more.

All calls of one user on one machine share a pool with a slot for each core, by the core's number: calls that
are confined to other cores (`taskset`, a batch system) use other slots. Calls below a CPU quota share as many
slots as it allows, and only with each other. A slot is a file that is locked while it is taken, so that the
kernel frees it when its holder dies:

    /dev/shm/nvccache-<uid>/slot-<core>
    /dev/shm/nvccache-<uid>/slot-<inode of the control group that has the quota>-<core>

A further tool is worth nothing when it drives the machine into swapping. What it will take is not known
before it has run; it grows with its input, so it is estimated from that, and for heavy tools never below the
largest tool that this call has seen end. What is free is the least of what the kernel says and what the
control groups of this process leave, less what the tools already running may still come to take.

Knows nothing of the tools that run, nor of where tokens come from: `jobserver` does.
"""

from __future__ import annotations

import contextlib
import os
import resource
import stat
from collections.abc import Iterator, Sequence

from nvccache.files import flock
from nvccache.machine import cgroups
from nvccache.machine.cgroups import Share
from nvccache.machine.jobserver import Jobserver

# Not TMPDIR and not the cache: both may differ between calls, and the cache may be shared by machines.
_BASES = ("/dev/shm", "/tmp")
_MIB = 1 << 20
_BASE_BYTES = 64 * _MIB
_SPARE_BYTES = 256 * _MIB  # for everything else on the machine
LOAD = "/proc/loadavg"  # its fourth word is RUNNABLE/ALL, of the machine at this moment (proc(5))


def pool_directory(bases: tuple[str, ...] = _BASES) -> str:
    """The directory of this user's pool on this machine, made if need be; empty when none can be trusted."""
    for directory in _candidates(bases):
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileExistsError):
                os.mkdir(directory, 0o700)
            found = os.lstat(directory)
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                return directory
    return ""


def squatted(bases: tuple[str, ...] = _BASES) -> Iterator[tuple[str, int]]:
    """What has the name of a directory of the pool and is somebody else's, or no directory; and its owner."""
    for directory in _candidates(bases):
        with contextlib.suppress(OSError):
            found = os.lstat(directory)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                yield directory, found.st_uid


def _candidates(bases: tuple[str, ...]) -> Iterator[str]:
    """Where the pool may lie: under names that anybody can take, then in directories of the user's own."""
    for base in bases:
        if os.path.isdir(base) and os.access(base, os.W_OK | os.X_OK):
            yield f"{base}/nvccache-{os.geteuid()}"
    runtime, home = os.environ.get("XDG_RUNTIME_DIR", ""), os.environ.get("HOME", "")
    if os.path.isabs(runtime):
        yield f"{runtime}/nvccache"
    if os.path.isabs(home):
        # Homes are shared by machines, and so are locks there.
        yield f"{home}/.cache/nvccache-slots-{os.uname().nodename}"


class PoolSlot:
    """One slot of a pool, taken until it is released or this process dies."""

    __slots__ = ("_descriptor", "number", "pool")

    def __init__(self, pool: Pool, number: int, descriptor: int) -> None:
        self.pool = pool
        self.number = number
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the slot up; again is once."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            flock.let_go(descriptor)


class Pool:
    """Slots that calls of this user share."""

    __slots__ = ("_cores", "_directory", "_name", "_numbers", "size")

    def __init__(self, directory: str, numbers: Sequence[int], name: str = "slot-", cores: int = 0) -> None:
        self._directory = directory  # empty where there are none
        self._name = name
        self._numbers = numbers
        self._cores = cores  # of the machine, or 0 where the slots alone say what may run
        self.size = len(numbers)

    def is_busy(self) -> bool:
        """Whether all cores of the machine have something to do, be it for calls that take no slot just now.

        A call takes none before it has found what to run, nor between two stages when others wait.
        """
        running = cgroups.read(LOAD).split(" ")[3:4]
        count = running[0].split("/")[0] if running else ""
        return bool(self._cores) and count.isdecimal() and int(count) >= self._cores

    def take(self) -> PoolSlot | None:
        """A free slot, or None at once; never raises OSError."""
        if not self._directory:
            return None
        for number in self._numbers:
            descriptor = _lock(f"{self._directory}/{self._name}{number}")
            if descriptor >= 0:
                return PoolSlot(self, number, descriptor)
        return None


def _lock(path: str) -> int:
    """The descriptor of a file that is locked now; negative where it cannot be."""
    try:
        # Opened anew each time: the lock belongs to the open file, so this process excludes itself as well.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if flock.take_or_close(descriptor):
            return descriptor
    except OSError:
        return -1
    os.close(descriptor)
    return -1


def pool_of(share: Share, directory: str, jobs: int = 0) -> Pool:
    """The slots of all calls that have this share of the machine; `jobs`, unless 0, is how many there are."""
    beyond = os.sysconf("SC_NPROCESSORS_CONF")  # numbers that are no core's
    numbers = [*share.affinity, *range(beyond, beyond + jobs)]
    cores = 0 if jobs else os.cpu_count() or 0
    return Pool(directory, numbers[: jobs or share.cores], f"slot-{share.group}", cores)


class Slot:
    """The right to run one tool."""

    __slots__ = ("_slots", "has_token", "in_pool", "is_own")

    def __init__(self, slots: Slots, is_own: bool, has_token: bool, in_pool: PoolSlot | None) -> None:
        self._slots = slots
        self.is_own = is_own  # the call had it from the start
        self.has_token = has_token
        self.in_pool = in_pool  # by which others see that it is in use

    @property
    def is_in_pool(self) -> bool:
        return self.in_pool is not None

    @property
    def is_idle_core(self) -> bool:
        """Whether it is a core that has nothing else to do."""
        return self.in_pool is not None and not self.in_pool.pool.is_busy()

    @property
    def number(self) -> int:
        """That of the pool's slot, or -1."""
        return self.in_pool.number if self.in_pool else -1

    def release(self) -> None:
        """Give the slot up; again is once."""
        self._slots.release(self)


class Slots:
    """What one call may run at once; for one thread only.

    `own` slots it always has. More come from make's jobserver when there is one, since make alone then
    knows how much may run, and otherwise from the user's pool. A slot that needs none of the pool
    takes one all the same if one is free, so that other calls see that the machine is busy.
    """

    __slots__ = ("_in_use", "_jobserver", "_own", "_pool")

    def __init__(self, own: int, pool: Pool | None, jobserver: Jobserver | None) -> None:
        self._own = own
        self._pool = pool
        self._jobserver = jobserver
        self._in_use: list[Slot] = []

    def take(self) -> Slot | None:
        """A slot, its own first, or None at once; never raises OSError."""
        is_own = sum(slot.is_own for slot in self._in_use) < self._own
        has_token = not is_own and self._jobserver is not None and self._jobserver.take()
        if self._jobserver and not (is_own or has_token):
            return None
        in_pool = self._from_pool(is_own)
        if not (is_own or has_token or in_pool):
            return None
        slot = Slot(self, is_own, has_token, in_pool)
        self._in_use.append(slot)
        return slot

    def may_become_free(self) -> bool:
        """Whether another call, or make, could give up what this one may then take."""
        if self._jobserver:
            return True
        return self._pool is not None and sum(slot.is_in_pool for slot in self._in_use) < self._pool.size

    def _from_pool(self, is_own: bool) -> PoolSlot | None:
        """One of the pool for a further slot; those in use that have none come first, or too much runs."""
        if not self._pool:
            return None
        for slot in self._in_use:
            if not is_own and not slot.in_pool:
                slot.in_pool = self._pool.take()
        return self._pool.take()

    def release(self, slot: Slot) -> None:
        if slot in self._in_use:
            self._in_use.remove(slot)
            if slot.in_pool:
                slot.in_pool.release()
            if slot.has_token and self._jobserver:
                self._jobserver.give_back()

    def release_all(self) -> None:
        """Give up every slot still in use."""
        for slot in list(self._in_use):
            self.release(slot)


def memory_of(factor: int, input_bytes: int, *, is_heavy: bool) -> int:
    """Bytes of memory that a tool may take at most; `factor` is how many for each byte of its input."""
    expected = _BASE_BYTES + factor * input_bytes
    if is_heavy:
        largest_so_far = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        expected = max(expected, largest_so_far)
    return expected


def has_memory(wanted: int, promised: int) -> bool:
    """Whether a tool that takes `wanted` bytes fits in beside those running, which may take `promised`.

    A running tool has some of what it was promised; counting all of it errs towards waiting.
    """
    return free_memory() - promised >= wanted + _SPARE_BYTES


def free_memory() -> int:
    """Bytes that could be allocated now without swapping; a machine that does not tell has plenty."""
    found = (_of_machine(), *map(_of_group, cgroups.directories("memory")))
    return min((left for left in found if left is not None), default=1 << 62)


def _of_machine() -> int | None:
    for line in cgroups.read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _of_group(directory: str) -> int | None:
    for limit, usage, cache in (
        ("memory.max", "memory.current", "inactive_file "),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "),
    ):
        highest, used = (
            cgroups.read(f"{directory}/{limit}").strip(),
            cgroups.read(f"{directory}/{usage}").strip(),
        )
        if highest.isdecimal() and used.isdecimal():
            return int(highest) - int(used) + _number(cgroups.read(f"{directory}/memory.stat"), cache)
    return None


def _number(text: str, name: str) -> int:
    for line in text.splitlines():
        if line.startswith(name):
            return int(line[len(name) :])
    return 0
