"""Every name that may be in the cache directory, what is left alone there, and how many bytes there are.

store.py draws the layout and says what the buckets hold. Whatever is named as buckets and their entries are
was put there by this version or another one.

    $NVCCACHE_DIR/journal/usage-v4    the slice to count next, when one was counted last, bytes of each slice

A slice is what lies in the folders of one name, `ab`, in all buckets; the last one is what lies beside the
buckets. Whoever stores something adds to the numbers. One slice after the other is counted anew
(eviction.py), which puts right what killed calls have not added. A file with numbers that cannot be is
thrown away, and all is counted again.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Mapping

from nvccache.store import cachedir_tag, event_totals, inflight, locks, store
from nvccache.store import directory as directories
from nvccache.store.directory import TEMPORARY, Directory
from nvccache.store.event_line import FOLDER as JOURNAL
from nvccache.values import dataclass

# In a folder, where files of others may be replaced: the directory itself may be like /tmp.
USAGE = f"{JOURNAL}/usage-v4"
_VERSIONED = r"[a-z]+(?:-[a-z]+)*-v\d{1,4}"
BUCKET = re.compile(_VERSIONED)
SHARD = re.compile(r"[0-9a-f]{2}")
_KEY = r"(?:[0-9a-f]{32}){1,2}"
ENTRY = re.compile(_KEY + f"(?:{re.escape(store.COMPRESSED)})?")
# What is beside the buckets: in which folder, and which names.
BESIDE = {
    "": re.compile(f"{_VERSIONED}|{re.escape(cachedir_tag.NAME)}"),
    TEMPORARY: re.compile(r"[0-9a-f]{32}"),
    JOURNAL: re.compile(_VERSIONED + r"(?:\.[0-9a-z.-]{1,64})?"),
    locks.FOLDER: re.compile(r"(?:[0-9a-f]|usage|journal)\.lock"),
    # What has still to be sent to remotes (remote/uploads.py).
    "remote": re.compile(r"[0-9a-f]{16}(?:-[0-9a-f]{16}-[0-9a-f]{8}\.queue|\.lock)"),
    inflight.FOLDER: re.compile(_KEY),
}
_LARGEST = 1 << 40  # bytes; more is no size, but says that it is not known
_HEAD = 18  # bytes of a zstd frame that hold the size of its content
SHARDS = 256  # of the count
LAST_SLICE = SHARDS  # the number of the last slice
SLICES = SHARDS + 1
_STRIDE = 98  # from one slice to the next: calls at the same time look after slices that are far apart
_UNKNOWN = -1
_MOST_BYTES = 10**15
_LONGEST = 1 << 13  # bytes of the file
_LOCK = "usage"
_LOCK_SECONDS = 0.1


def entries(root: Directory) -> Iterator[tuple[str, int, float]]:
    """What lies in the buckets: path, size, and when it was used last. Raises OSError."""
    for bucket in _folders(root, "", BUCKET):
        for shard in _folders(root, bucket, SHARD):
            yield from _files(root, f"{bucket}/{shard}", ENTRY)


def folders(root: Directory) -> dict[str, list[str]]:
    """The folders in all buckets by their own names, `ab`. Raises OSError."""
    found: dict[str, list[str]] = {}
    for bucket in _folders(root, "", BUCKET):
        for name, _ in root.each(bucket, until=0.0):
            if SHARD.fullmatch(name):
                found.setdefault(name, []).append(f"{bucket}/{name}")
    return found


def in_folder(root: Directory, folder: str, until: float) -> Iterator[tuple[str, int, float | None]]:
    """The files of a folder as in `entries`; without a size and a time those that are found too late.

    What is no folder, or one of somebody else, has none.
    """
    try:
        for name, status in root.each(folder, until):
            if status is None:
                yield f"{folder}/{name}", 0, None
            elif ENTRY.fullmatch(name) and not stat.S_ISDIR(status.st_mode):
                yield f"{folder}/{name}", status.st_size, status.st_mtime
    except OSError:
        return


def beside(root: Directory) -> Iterator[tuple[str, int, float]]:
    """What of ours is in no bucket: path, size, and when it was touched last."""
    for folder, pattern in BESIDE.items():
        try:
            yield from _files(root, folder, pattern)
        except OSError:
            continue  # a link or a file in its place


def is_left_behind(path: str) -> bool:
    """Whether a file beside the buckets is of no use, once nobody has touched it for long."""
    folder, _, name = path.rpartition("/")
    if folder == JOURNAL:
        return not event_totals.is_current(name) and path != USAGE
    if folder == "remote":
        return name.endswith(".queue")
    return folder == TEMPORARY or (not folder and name != cachedir_tag.NAME)


def _folders(root: Directory, folder: str, pattern: re.Pattern[str]) -> list[str]:
    found = root.list(folder)
    return [name for name, status in found if pattern.fullmatch(name) and stat.S_ISDIR(status.st_mode)]


def _files(root: Directory, folder: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, int, float]]:
    for name, status in root.list(folder):
        if pattern.fullmatch(name) and not stat.S_ISDIR(status.st_mode):
            yield f"{folder}/{name}" if folder else name, status.st_size, status.st_mtime


@dataclass(slots=True)
class Size:
    """Files of one kind: how many, bytes on disk, and bytes before they were compressed."""

    files: int = 0
    bytes: int = 0
    unpacked: int = 0


def by_kind(place: str | Directory) -> dict[str, Size]:
    """Sizes by bucket without its version; blobs as `blob`, or `blob (zstd)` where compressed.

    Raises OSError.
    """
    root = directories.at(place)
    found: dict[str, Size] = {}
    for path, size, _ in entries(root):
        bucket = path.partition("-v")[0]
        is_compressed = path.endswith(store.COMPRESSED)
        kind = found.setdefault(f"{bucket} (zstd)" if is_compressed else bucket, Size())
        kind.files += 1
        kind.bytes += size
        kind.unpacked += (_unpacked(root, path) or size) if is_compressed else size
    return dict(sorted(found.items(), key=lambda item: -item[1].bytes))


def _unpacked(root: Directory, path: str) -> int:
    """The size of what a file holds, or 0 where it does not say."""
    import zstandard

    try:
        descriptor, _ = root.open(path)
    except OSError:
        return 0
    try:
        size = zstandard.get_frame_parameters(os.pread(descriptor, _HEAD, 0)).content_size
    except zstandard.ZstdError:
        return 0
    finally:
        os.close(descriptor)
    return size if size < _LARGEST else 0


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
            number = int(shard, 16) if SHARD.fullmatch(shard) else _UNKNOWN
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
def changed_count(root: Directory) -> Iterator[Count]:
    """The count, to be changed in a block and written after it.

    The lock is held for no longer than that, and not waited for long. Raises LockTimeoutError and OSError.
    """
    with locks.briefly(root, _LOCK, _LOCK_SECONDS):
        count = read_count(root)
        yield count
        _write_count(root, count)


def read_count(root: Directory) -> Count:
    try:
        words = root.read(USAGE, _LONGEST)[0].split()
        following, counted_at, *sizes = [int(word) for word in words if len(word) < 20]
    except (OSError, ValueError):
        return Count()
    count = Count()
    if len(sizes) == SLICES and 0 <= following < SLICES:
        count.bytes = [size if 0 <= size < _MOST_BYTES else _UNKNOWN for size in sizes]
        count.next, count.counted_at = following, counted_at
    return count


def _write_count(root: Directory, count: Count) -> None:
    numbers = (count.next, count.counted_at, *count.bytes)
    root.write(USAGE, " ".join(map(str, numbers)).encode())
