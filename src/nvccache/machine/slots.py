"""How many tools may run in parallel, by slots of the user's pool, tokens of make, and available memory.

All calls of one user on one machine share a pool of slots, one per core. Slots have the numbers of the cores,
so that calls that are bound to different cores (by `taskset` or a batch system) use different slots. A slot
is a file that is locked while it is used, so that the kernel frees it when the process dies:

    /dev/shm/nvccache-<uid>/slot-<core>

A call uses the cores in its affinity mask, but no more than the CPU quota of its control groups allows.

A token is a byte in a FIFO that make (4.4 or later) shares with its jobs. A job that reads a token may run
one more tool, and writes the same byte back afterwards.

A tool is not started if the machine might then swap. Its memory is estimated from the size of its input; for
a heavy tool, it is at least that of the largest tool that has ended in this call. Free memory is what the
kernel reports, or what the control groups of this process leave if that is less, minus what running tools may
still allocate.
"""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import stat
from collections.abc import Iterator, Mapping, Sequence

from nvccache.files import flock

# The pool is not in TMPDIR or in the cache, because they may differ between calls, and machines share caches.
_BASES = ("/dev/shm", "/tmp")
_MIB = 1 << 20
_BASE_BYTES = 64 * _MIB
_SPARE_BYTES = 256 * _MIB  # kept free for everything else on the machine
_JOBSERVER = "--jobserver-auth="
_UNLIMITED = 1 << 62  # bytes; control groups of version 1 report more if they have no limit


def pool_directory(bases: tuple[str, ...] = _BASES) -> str:
    """The directory of this user's pool on this machine, created if missing; empty if none can be trusted."""
    for base in bases:
        directory = f"{base}/nvccache-{os.geteuid()}"
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileExistsError):
                os.mkdir(directory, 0o700)
            status = os.lstat(directory)
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                return directory
    return ""


class PoolSlot:
    """A slot of a pool, in use until it is released or this process dies."""

    def __init__(self, number: int, descriptor: int) -> None:
        self.number = number
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the slot; idempotent."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            flock.release(descriptor)


class Pool:
    """Slots that all calls of this user on this machine share."""

    def __init__(self, directory: str, numbers: Sequence[int], name: str = "slot-") -> None:
        self._directory = directory  # empty if no directory can be used
        self._name = name
        self._numbers = numbers
        self.size = len(numbers)

    def take(self) -> PoolSlot | None:
        """Take a free slot; returns None at once if there is none. Never raises OSError."""
        for number in self._numbers if self._directory else ():
            path = f"{self._directory}/{self._name}{number}"
            with contextlib.suppress(OSError):
                # Each attempt opens the file anew, because a lock excludes only other descriptors of it.
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                if flock.take_or_close(descriptor):
                    return PoolSlot(number, descriptor)
                os.close(descriptor)
        return None


def pool_of(usable_cores: Sequence[int], directory: str, jobs: int = 0) -> Pool:
    """The pool with a slot for each of these cores, or with `jobs` slots unless `jobs` is 0."""
    first_extra = os.sysconf("SC_NPROCESSORS_CONF")  # no core has this number or a higher one
    numbers = [*usable_cores, *range(first_extra, first_extra + jobs)]
    return Pool(directory, numbers[: jobs or len(usable_cores)])


def open_jobserver(environ: Mapping[str, str]) -> int:
    """A descriptor of the jobserver's FIFO that MAKEFLAGS names, or -1.

    Before 4.4, make uses a pipe, which only recipes that begin with `+` inherit. Calls then use the pool.
    """
    flags = [word for word in environ.get("MAKEFLAGS", "").split() if word.startswith(_JOBSERVER)]
    if not flags or not flags[-1].startswith(f"{_JOBSERVER}fifo:"):
        return -1
    try:
        path = flags[-1].removeprefix(f"{_JOBSERVER}fifo:")
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return -1


class Slot:
    """The right to run one tool."""

    def __init__(self, is_own: bool, token: bytes, pool_slot: PoolSlot | None) -> None:
        self.is_own = is_own  # whether it is the slot that each call always has
        self.token = token  # a token of make's jobserver, or empty
        self.pool_slot = pool_slot  # taken so that other calls see that a core is used

    @property
    def number(self) -> int:
        """The number of the slot in the pool, or -1."""
        return self.pool_slot.number if self.pool_slot else -1


class Slots:
    """The slots of one call; not thread-safe.

    A call always has one slot of its own. It gets more slots from make's jobserver, which knows how much may
    run in parallel, or from the user's pool if there is no jobserver. The call's own slot and a slot from
    make also take a free slot of the pool, so that other calls see that the machine is busy.
    """

    def __init__(self, pool: Pool, jobserver: int = -1) -> None:
        self._pool = pool
        self._jobserver = jobserver
        self._in_use: list[Slot] = []

    def take(self) -> Slot | None:
        """Take a slot, the call's own first; returns None at once if there is none. Never raises OSError."""
        is_own, token = not any(slot.is_own for slot in self._in_use), b""
        if not is_own:
            if self._jobserver >= 0:
                with contextlib.suppress(OSError):
                    token = os.read(self._jobserver, 1)
                if not token:
                    return None
            for slot in self._in_use:
                # Slots in use that hold none of the pool take one first, or too many tools would run.
                slot.pool_slot = slot.pool_slot or self._pool.take()
        pool_slot = self._pool.take()
        if not (is_own or token or pool_slot):
            return None
        self._in_use.append(Slot(is_own, token, pool_slot))
        return self._in_use[-1]

    def may_become_free(self) -> bool:
        """Whether this call could get another slot when make or another call releases one."""
        in_pool = sum(slot.pool_slot is not None for slot in self._in_use)
        return self._jobserver >= 0 or in_pool < self._pool.size

    def release(self, slot: Slot) -> None:
        """Release a slot; idempotent."""
        if slot in self._in_use:
            self._in_use.remove(slot)
            if slot.pool_slot:
                slot.pool_slot.release()
            if slot.token:
                with contextlib.suppress(OSError):
                    os.write(self._jobserver, slot.token)

    def release_all(self) -> None:
        for slot in list(self._in_use):
            self.release(slot)


def memory_of(factor: int, input_bytes: int, *, is_heavy: bool) -> int:
    """An upper estimate of a tool's memory in bytes; `factor` is in bytes per byte of input."""
    expected = _BASE_BYTES + factor * input_bytes
    if is_heavy:
        largest_so_far = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        expected = max(expected, largest_so_far)
    return expected


def has_memory(wanted: int, reserved: int) -> bool:
    """Whether `wanted` bytes are free for another tool if running tools may use `reserved` bytes.

    Running tools have allocated a part of `reserved` already. Subtracting all of it only delays the new tool.
    """
    return free_memory() - reserved >= wanted + _SPARE_BYTES


def free_memory() -> int:
    """The bytes that could be allocated now without swapping; _UNLIMITED if unknown."""
    available = _value(read("/proc/meminfo"), "MemAvailable:")
    free = [available * 1024] if available is not None else []
    for directory, limit, usage, cache in _memory_limits():
        used = read(f"{directory}/{usage}").strip()
        if used.isdecimal():
            free.append(limit - int(used) + (_value(read(f"{directory}/memory.stat"), cache) or 0))
    return min(free, default=_UNLIMITED)


@functools.cache
def _memory_limits() -> list[tuple[str, int, str, str]]:
    """Control groups with a limit: (directory, limit in bytes, file with the usage, field of `memory.stat`
    with the part of the usage that can be freed).
    """
    limits = []
    for directory in directories("memory"):
        for name, usage, cache in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit = read(f"{directory}/{name}").strip()
            if limit.isdecimal() and int(limit) < _UNLIMITED:
                limits.append((directory, int(limit), usage, cache))
    return limits


def _value(text: str, name: str) -> int | None:
    """The number that follows `name` at the start of a line."""
    lines = (line.split() for line in text.splitlines())
    return next((int(fields[1]) for fields in lines if fields[:1] == [name]), None)


MOUNT = "/sys/fs/cgroup"
OWN = "/proc/self/cgroup"


def usable_cores(own: str = OWN, mount: str = MOUNT) -> list[int]:
    """The numbers of the cores in this process's affinity mask, but not more than its CPU quota allows."""
    affinity = sorted(os.sched_getaffinity(0))
    quotas = filter(None, map(_quota, directories("cpu", own, mount)))
    return affinity[: min([len(affinity), *quotas])]


def _quota(directory: str) -> int | None:
    """The quota of one control group, in cores, rounded up; None if it has none."""
    fields = read(f"{directory}/cpu.max").split()
    if not fields:
        fields = read(f"{directory}/cpu.cfs_quota_us").split()
        fields += read(f"{directory}/cpu.cfs_period_us").split()
    if len(fields) != 2 or not fields[0].isdecimal() or not fields[1].isdecimal() or not int(fields[1]):
        return None
    return max(1, -(-int(fields[0]) // int(fields[1])))


def directories(controller: str, own: str = OWN, mount: str = MOUNT) -> Iterator[str]:
    """The directories of a controller (`cpu`, `memory`) for this process's control group and all above it.

    In a container, the group is often mounted as the root, while its path is still that on the host.
    Therefore, the root is included, and some of the directories may not exist.
    """
    for line in read(own).splitlines():
        _, _, named = line.partition(":")
        controllers, _, path = named.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        for name in dict.fromkeys((controller, controllers) if controllers else ("", "unified")):
            mounted = f"{mount}/{name}".rstrip("/")
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
