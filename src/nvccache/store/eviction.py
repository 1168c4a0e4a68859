"""Evicts the least recently used files, for the size limit or `nvccache clean`, and counts bytes in buckets.

    $NVCCACHE_DIR/journal/usage-v5    next shard to count, time of the last count, bytes of each shard

A shard consists of the files in all buckets whose names begin with the same hexadecimal digit. A call that
stores something adds its bytes to the count. In addition, the shards are counted again one after the other.
This corrects a count that is missing or damaged, or to which a killed call has not added its bytes.

Any file may be removed, because a missing file counts as a miss and is made again. Only files with names that
nvccache gives are counted and removed, those in buckets of other versions included. During eviction, only the
count is locked, so that calls can read and write files.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Container, Iterable, Iterator, Mapping

from nvccache.store import directory as directories
from nvccache.store import locks, store
from nvccache.store.directory import TEMPORARY, Directory, NoCacheError, StoreError
from nvccache.store.event_line import FOLDER as JOURNAL
from nvccache.values import dataclass

USAGE = f"{JOURNAL}/usage-v5"
SHARDS = "0123456789abcdef"
_LOCK, _LOCK_SECONDS = "usage", 0.1
BUCKET = r"[a-z]+(?:-[a-z]+)*-v\d{1,4}"
_KEY = r"(?:[0-9a-f]{32}){1,2}"  # also matches the names of temporary files and of claims
ENTRY = rf"{_KEY}(?:\{store.COMPRESSED})?"
_LEAST_SHARE = 0.1  # the least part of a shard to evict at a time, so that not every call has to evict
_EVICTION_SECONDS = 0.05  # a call that has evicted for this time leaves the other shards to later calls
_STALE_SECONDS = 24 * 3600  # a temporary file of this age counts as abandoned
_RECOUNT_SECONDS = 60  # how long after one shard the next one is counted
_AHEAD_SECONDS = 3600  # how far dates of a file server may be in the future


@dataclass(frozen=True, slots=True)
class Amount:
    """How many files there are, and how many bytes they have together."""

    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class File:
    path: str  # relative to the cache directory
    size: int  # bytes
    used: float  # when it was last used: Unix time in seconds

    @property
    def shard(self) -> int:
        return int(self.path.split("/")[1][0], 16)


def entries(root: Directory, shards: str = SHARDS) -> Iterator[File]:
    """The files of these shards. Raises OSError."""
    buckets = [
        name for name, status in root.list() if re.fullmatch(BUCKET, name) and stat.S_ISDIR(status.st_mode)
    ]
    for folder in (
        f"{bucket}/{first}{second}" for bucket in buckets for first in shards for second in SHARDS
    ):
        yield from _files(root, folder, ENTRY)


def _files(root: Directory, folder: str, pattern: str) -> Iterator[File]:
    try:
        listed = root.list(folder)
    except OSError:
        return  # it is not a folder, or only another user may list it
    for name, status in listed:
        if re.fullmatch(pattern, name) and not stat.S_ISDIR(status.st_mode):
            yield File(f"{folder}/{name}", status.st_size, status.st_mtime)


def usage(cache: str | Directory) -> Amount:
    """The size of the cache now, counted file by file; raises StoreError."""
    with as_store_errors(directories.at(cache)) as root:
        return _amount(list(entries(root)))


def prune(
    cache: str | Directory,
    max_bytes: int | None = None,
    older_than: float | None = None,
    is_dry_run: bool = False,
) -> Amount:
    """Remove files that were not used for `older_than` seconds, then others until `max_bytes` are left.

    The least recently used files are removed first. Returns the amount that was removed or, in a dry run,
    would be removed. Raises StoreError if the directory cannot be used.
    """
    now = time.time()
    with as_store_errors(directories.at(cache)) as root:
        files = _least_recently_used(entries(root), now)
        total = sum(file.size for file in files)
        doomed = []
        for file in files:
            is_old = older_than is not None and now - file.used > older_than
            if is_old or (max_bytes is not None and total > max_bytes):
                doomed.append(file)
                total -= file.size
        if not is_dry_run:
            sweep(root, now)
        return _removed(root, files, doomed, is_dry_run)


def clear(cache: str | Directory, is_dry_run: bool = False) -> Amount:
    """Remove all files in the buckets. Returns and raises the same as `prune`."""
    return prune(cache, max_bytes=-1, is_dry_run=is_dry_run)


def remove(cache: str | Directory, names: Container[str], is_dry_run: bool = False) -> Amount:
    """Remove the files with these paths from the buckets. Returns and raises the same as `prune`."""
    with as_store_errors(directories.at(cache)) as root:
        files = list(entries(root))
        return _removed(root, files, [file for file in files if file.path in names], is_dry_run)


def _removed(root: Directory, files: list[File], doomed: list[File], is_dry_run: bool) -> Amount:
    if not is_dry_run:
        doomed = _remove(root, doomed)
        sizes = [0] * len(SHARDS)
        for file in {*files} - {*doomed}:
            sizes[file.shard] += file.size
        with contextlib.suppress(OSError):
            _write_count(root, 0, 0, sizes)
    return _amount(doomed)


def _amount(files: list[File]) -> Amount:
    return Amount(sum(file.size for file in files), len(files))


def count_and_limit(cache: str | Directory, added: Mapping[str, int], max_bytes: int) -> str:
    """Add the bytes by which shards have grown to the count, and evict files if the sum exceeds `max_bytes`.

    If `max_bytes` is 0, there is no limit. A call that has stored something does this once. It evicts only
    for a moment, and leaves the rest to later calls. Returns a word of outcomes.STORE_FAULTS if this fails,
    or an empty string.
    """
    try:
        _count_and_limit(directories.at(cache), added, max_bytes)
    except TimeoutError:
        return ""  # the added bytes will be counted when their shard is counted again
    except (OSError, StoreError) as error:
        return store.fault_of(error)
    return ""


def _count_and_limit(root: Directory, added: Mapping[str, int], max_bytes: int) -> None:
    now = int(time.time())
    with locks.hold(root, _LOCK, _LOCK_SECONDS):
        following, counted_at, sizes = read_count(root)
        for shard, size in added.items():
            if shard in SHARDS:  # a malformed name from a remote may begin with another character
                sizes[int(shard, 16)] += size
        if not 0 <= now - counted_at < _RECOUNT_SECONDS:
            counted_at = now
            sizes[following] = sum(file.size for file in entries(root, SHARDS[following]))
            following = (following + 1) % len(SHARDS)
            sweep(root, now)
        until = time.monotonic() + _EVICTION_SECONDS
        for _ in SHARDS if max_bytes else ():
            if sum(sizes) <= max_bytes or time.monotonic() > until:
                break
            sizes[following] = _evict(root, SHARDS[following], 1 - max_bytes / sum(sizes), now)
            following = (following + 1) % len(SHARDS)
        _write_count(root, following, counted_at, sizes)


def _evict(root: Directory, shard: str, share: float, now: float) -> int:
    """Remove the least recently used files of a shard, and return the bytes that are left.

    `share` is the part of its bytes to remove, at least a tenth. All shards get the same share. If each
    shard had a size limit of its own, a large file would evict all other files of its shard.
    """
    files = list(entries(root, shard))
    size = sum(file.size for file in files)
    wanted = max(share, _LEAST_SHARE) * size
    removed = _remove(root, _files_worth(wanted, _least_recently_used(files, now)))
    return size - sum(file.size for file in removed)


def read_count(root: Directory) -> tuple[int, int, list[int]]:
    """The number of the next shard to count, the Unix time of the last count, and the bytes of each shard."""
    try:
        following, counted_at, *sizes = map(int, root.read(USAGE)[0].split())
    except (OSError, ValueError):
        sizes = []
    if len(sizes) != len(SHARDS) or following not in range(len(SHARDS)) or min(sizes) < 0:
        return 0, 0, [0] * len(SHARDS)
    return following, counted_at, sizes


def _write_count(root: Directory, following: int, counted_at: int, sizes: list[int]) -> None:
    root.write(USAGE, " ".join(map(str, (following, counted_at, *sizes))).encode())


def _least_recently_used(files: Iterable[File], now: float) -> list[File]:
    """The files in the order in which they are evicted. Those with dates in the future come first."""
    latest = now + _AHEAD_SECONDS
    return sorted(files, key=lambda file: file.used if file.used <= latest else 0.0)


def _files_worth(wanted: float, files: Iterable[File]) -> list[File]:
    """The first of these files, as many as are needed to get the wanted number of bytes."""
    chosen = []
    for file in files:
        if wanted <= 0:
            break
        chosen.append(file)
        wanted -= file.size
    return chosen


def sweep(root: Directory, now: float) -> None:
    """Remove the temporary files and claims that killed calls have left."""
    for file in _files(root, TEMPORARY, _KEY):
        if not -_AHEAD_SECONDS <= now - file.used <= _STALE_SECONDS:
            with contextlib.suppress(OSError):
                root.unlink(file.path)
    for file in _files(root, locks.RUNNING, _KEY):
        with contextlib.suppress(OSError):
            locks.remove_abandoned(root, file.path)


@contextlib.contextmanager
def as_store_errors(root: Directory) -> Iterator[Directory]:
    """Turn OSError into StoreError, whose message is one sentence for the user."""
    try:
        root.list()
        yield root
    except directories.ForeignDirectoryError as error:
        raise StoreError(str(error)) from None
    except FileNotFoundError:
        raise NoCacheError(f"there is no cache in `{root.path}`") from None
    except OSError as error:
        if os.path.lexists(root.path) and not os.path.isdir(root.path):
            raise StoreError(f"the cache directory `{root.path}` is not a directory") from None
        raise StoreError(f"cannot use `{root.path}`: {error.strerror or error}") from None


def _remove(root: Directory, doomed: list[File]) -> list[File]:
    """Remove files, except those used since they were chosen. Returns the removed files; raises OSError."""
    removed = []
    for file in doomed:
        with contextlib.suppress(FileNotFoundError):
            if root.status(file.path).st_mtime <= file.used:
                root.unlink(file.path)
                removed.append(file)
    return removed
