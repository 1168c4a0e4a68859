"""How many bytes the cache directory holds, as counted so far: a number for each slice of it.

    $NVCCACHE_DIR/journal/usage-v4    the slice to count next, when one was counted last, bytes of each slice

A slice is what lies in the folders of one name, `ab`, in all buckets; the last one is what lies beside the
buckets. Whoever stores something adds to the numbers. One slice after the other is counted anew
(eviction.py), which puts right what killed calls have not added. A file with numbers that cannot be is
thrown away, and all is counted again.
"""

from __future__ import annotations

import contextlib

from nvccache.store import layout, locks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nvccache.store.directory import Directory

SHARDS = 256
BESIDE = SHARDS  # the number of the last slice
SLICES = SHARDS + 1
_STRIDE = 98  # from one slice to the next: calls at the same time look after slices that are far apart
_UNKNOWN = -1
_LARGEST = 10**15  # bytes
_LONGEST = 1 << 13  # bytes of the file
_LOCK = "usage"
_LOCK_SECONDS = 0.1


class Count:
    """The numbers of all slices."""

    __slots__ = ("bytes", "counted_at", "next")

    def __init__(self) -> None:
        self.bytes = [_UNKNOWN] * SLICES
        self.next = 0
        self.counted_at = 0  # seconds since the epoch

    @property
    def total(self) -> int:
        """The least that the directory holds."""
        return sum(size for size in self.bytes if size != _UNKNOWN)

    @property
    def is_complete(self) -> bool:
        return _UNKNOWN not in self.bytes

    def add(self, added: Mapping[str, int]) -> None:
        """Add what the folders of these names, `ab`, have grown by."""
        for shard, size in added.items():
            # A name that a remote has made up is no key, and in no slice.
            number = int(shard, 16) if layout.SHARD.fullmatch(shard) else _UNKNOWN
            if number != _UNKNOWN and self.bytes[number] != _UNKNOWN:
                self.bytes[number] = max(0, self.bytes[number] + size)

    def take(self, counted: Mapping[int, int], before: Count, now: float) -> None:
        """Take what was counted since the count was as `before`, with what others have added meanwhile."""
        for number, size in counted.items():
            added = self.bytes[number] - before.bytes[number] if before.bytes[number] != _UNKNOWN else 0
            self.bytes[number] = size + max(0, added)
        self.counted_at = int(now)

    def take_turn(self) -> int:
        """The slice to look after now; the next call gets another one."""
        first = self.next
        self.next = (first + _STRIDE) % SLICES
        return first

    def copy(self) -> Count:
        other = Count()
        other.bytes, other.next, other.counted_at = list(self.bytes), self.next, self.counted_at
        return other


@contextlib.contextmanager
def changed(root: Directory) -> Iterator[Count]:
    """The count, to be changed in a block and written after it.

    The lock is held for no longer than that, and not waited for long. Raises LockTimeoutError and OSError.
    """
    with locks.briefly(root, _LOCK, _LOCK_SECONDS):
        count = read(root)
        yield count
        _write(root, count)


def read(root: Directory) -> Count:
    try:
        words = root.read(layout.USAGE, _LONGEST)[0].split()
        following, counted_at, *sizes = [int(word) for word in words if len(word) < 20]
    except (OSError, ValueError):
        return Count()
    count = Count()
    if len(sizes) == SLICES and 0 <= following < SLICES:
        count.bytes = [size if 0 <= size < _LARGEST else _UNKNOWN for size in sizes]
        count.next, count.counted_at = following, counted_at
    return count


def _write(root: Directory, count: Count) -> None:
    numbers = (count.next, count.counted_at, *count.bytes)
    root.write(layout.USAGE, " ".join(map(str, numbers)).encode())
