"""The names that nvccache uses in the cache directory, and the running count of the bytes there.

store.py draws the layout and says what the buckets hold. Files with other names are left alone; the patterns
match the files of other versions as well.

    $NVCCACHE_DIR/journal/usage-v4    next slice to count, time of the last count, bytes of each slice

A slice is the contents of all folders with one name, such as `ab`, in all buckets; the last slice is what is
outside the buckets. A call that stores something adds to the count. Slices are recounted in turn
(eviction.py), which corrects for calls that were killed before they added theirs. If the file is missing or
damaged, everything is recounted.
"""

from __future__ import annotations

import contextlib
import re
import stat
from collections.abc import Iterable, Iterator, Mapping

from nvccache.store import directory, event_totals, inflight, locks, store
from nvccache.store.directory import TEMPORARY, Directory
from nvccache.store.event_line import FOLDER as JOURNAL
from nvccache.values import dataclass

# In a folder: the directory itself may be like /tmp, where files of other users cannot be replaced.
USAGE = f"{JOURNAL}/usage-v4"
_VERSIONED = r"[a-z]+(?:-[a-z]+)*-v\d{1,4}"
BUCKET = re.compile(_VERSIONED)
SHARD = re.compile(r"[0-9a-f]{2}")
_KEY = r"(?:[0-9a-f]{32}){1,2}"
ENTRY = re.compile(_KEY + f"(?:{re.escape(store.COMPRESSED)})?")
# The names outside the buckets, by folder.
OUTSIDE_BUCKETS = {
    "": re.compile(f"{_VERSIONED}|{re.escape(directory.TAG_NAME)}"),
    TEMPORARY: re.compile(r"[0-9a-f]{32}"),
    JOURNAL: re.compile(_VERSIONED + r"(?:\.[0-9a-z.-]{1,64})?"),
    locks.FOLDER: re.compile(r"(?:[0-9a-f]|usage|journal)\.lock"),
    # Queued uploads (remote/uploads.py); earlier versions had files for each remote.
    "remote": re.compile(r"queue|lock|[0-9a-f]{16}(?:-[0-9a-f]{16}-[0-9a-f]{8}\.queue|\.lock)"),
    inflight.FOLDER: re.compile(_KEY),
}
SHARDS = 256  # of the count
LAST_SLICE = SHARDS  # the number of the last slice
SLICES = SHARDS + 1
_STRIDE = 98  # from one slice to the next, so that concurrent calls scan slices that are far apart
_LOCK = "usage"
_LOCK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class File:
    path: str  # in the directory
    size: int
    used: float  # seconds since the epoch


def entries(root: Directory) -> Iterator[File]:
    """The files in the buckets. Raises OSError."""
    buckets = buckets_in(root)
    return (file for number in range(SHARDS) for file in slice_of(root, buckets, number))


def buckets_in(root: Directory) -> list[str]:
    """The names of all buckets, those of other versions included. Raises OSError."""
    return [name for name, status in root.list() if BUCKET.fullmatch(name) and stat.S_ISDIR(status.st_mode)]


def slice_of(root: Directory, buckets: Iterable[str], number: int) -> list[File]:
    """The files in the folders of one name in all buckets, or outside the buckets."""
    if number == LAST_SLICE:
        return [file for folder, pattern in OUTSIDE_BUCKETS.items() for file in _files(root, folder, pattern)]
    return [file for bucket in buckets for file in _files(root, f"{bucket}/{number:02x}", ENTRY)]


def _files(root: Directory, folder: str, pattern: re.Pattern[str]) -> Iterator[File]:
    try:
        listed = root.list(folder)
    except OSError:
        return  # not a folder, or one that only another user may list
    for name, status in listed:
        if pattern.fullmatch(name) and not stat.S_ISDIR(status.st_mode):
            path = f"{folder}/{name}" if folder else name
            yield File(path, status.st_size, status.st_mtime)


def is_garbage(path: str) -> bool:
    """Whether a file outside the buckets is of no use once it is old."""
    folder, _, name = path.rpartition("/")
    if folder == JOURNAL:
        return not event_totals.is_current(name) and path != USAGE
    if folder == "remote":
        return name != "lock"
    return folder == TEMPORARY or (not folder and name != directory.TAG_NAME)


class Count:
    """The running count: bytes of all slices, 0 for those that have not been counted yet."""

    __slots__ = ("bytes", "counted_at", "next")

    def __init__(self) -> None:
        self.bytes = [0] * SLICES
        self.next = 0
        self.counted_at = 0  # seconds since the epoch

    @property
    def total(self) -> int:
        return sum(self.bytes)

    def add(self, added: Mapping[str, int]) -> None:
        """Add the bytes by which folders have grown, by their names such as `ab`."""
        for shard, size in added.items():
            if SHARD.fullmatch(shard):  # a name that comes from a remote may be no key, and in no slice
                number = int(shard, 16)
                self.bytes[number] = max(0, self.bytes[number] + size)

    def advance(self) -> int:
        """The slice to scan now; the next call gets another one."""
        first = self.next
        self.next = (first + _STRIDE) % SLICES
        return first


@contextlib.contextmanager
def count_for_update(root: Directory) -> Iterator[Count]:
    """The count, locked for a `with` block and then written. Raises LockTimeoutError and OSError."""
    with locks.hold(root, _LOCK, _LOCK_SECONDS):
        count = read_count(root)
        yield count
        _write_count(root, count)


def read_count(root: Directory) -> Count:
    count = Count()
    try:
        following, counted_at, *sizes = map(int, root.read(USAGE)[0].split())
    except (OSError, ValueError):
        return count
    if len(sizes) == SLICES and following in range(SLICES):
        count.bytes, count.next, count.counted_at = [max(0, size) for size in sizes], following, counted_at
    return count


def _write_count(root: Directory, count: Count) -> None:
    numbers = (count.next, count.counted_at, *count.bytes)
    root.write(USAGE, " ".join(map(str, numbers)).encode())
