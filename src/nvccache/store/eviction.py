"""LRU eviction to the size limit, and `nvccache clean`.

Knows the layout from store.py, but not what the files mean. A record whose blob was evicted is harmless, and
so is the reverse: a missing file is made again. Only names of ours are counted and removed; that includes the
buckets of other versions, which count towards the size limit too.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Container, Iterable, Iterator, Mapping

from nvccache.files import flock
from nvccache.store import directory as directories
from nvccache.store import inflight, layout, locks, store
from nvccache.store.directory import Directory, LockTimeoutError, NoCacheError, StoreError
from nvccache.store.layout import File
from nvccache.values import dataclass

_TARGET_SHARE = 0.9  # of the limit that eviction leaves, so that not every call has to evict
_STALE_SECONDS = 24 * 3600  # after which a temporary file is abandoned
_RECOUNT_SECONDS = 60  # between two recounts of a part
_AHEAD_SECONDS = 3600  # by which the dates of a file server may be in the future
_BATCH = 100  # files removed before the lock of the shard is released for others
# Limits of a call that stores something: files to scan (all of a small cache), seconds for that, and seconds
# for removing files.
_MOST_FILES_PER_CALL = 8192
_SCAN_SECONDS = 0.06
_REMOVAL_SECONDS = 0.04
_LOCK_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Amount:
    """Bytes, and files in buckets."""

    bytes: int
    files: int


def usage(cache: str | Directory) -> Amount:
    """The size of the cache now, counted file by file; raises StoreError."""
    with as_store_errors(directories.at(cache)) as root:
        files = list(layout.entries(root))
        return Amount(sum(file.size for file in files) + _bytes_outside_buckets(root), len(files))


def prune(
    cache: str | Directory,
    max_bytes: int | None = None,
    older_than: float | None = None,
    is_dry_run: bool = False,
) -> Amount:
    """Remove what was not used for `older_than` seconds, then the least recently used above the limit.

    Returns what was removed, or would be in a dry run. Raises StoreError if the directory cannot be used.
    """
    now = time.time()
    with as_store_errors(directories.at(cache)) as root:
        if not is_dry_run:
            sweep(root, now)
        files = _least_recently_used(layout.entries(root), now)
        total = sum(file.size for file in files) + _bytes_outside_buckets(root)
        doomed = []
        for file in files:
            is_old = older_than is not None and now - file.used > older_than
            if is_old or (max_bytes is not None and total > max_bytes):
                doomed.append(file)
                total -= file.size
        return _removed(root, doomed, is_dry_run)


def clear(cache: str | Directory, is_dry_run: bool = False) -> Amount:
    """Remove everything in the buckets; raises StoreError."""
    return prune(cache, max_bytes=-1, is_dry_run=is_dry_run)


def remove(cache: str | Directory, names: Container[str], is_dry_run: bool = False) -> Amount:
    """Remove the named files from the buckets; otherwise like `prune`. Raises StoreError."""
    with as_store_errors(directories.at(cache)) as root:
        return _removed(root, [file for file in layout.entries(root) if file.path in names], is_dry_run)


def _removed(root: Directory, doomed: list[File], is_dry_run: bool) -> Amount:
    if not is_dry_run:
        doomed = _remove(root, doomed)
        with contextlib.suppress(OSError, StoreError), layout.count_for_update(root) as count:
            for file in doomed:
                count.add({_folder(file): -file.size})
    return Amount(sum(file.size for file in doomed), len(doomed))


def _bytes_outside_buckets(root: Directory) -> int:
    return sum(file.size for file in layout.slice_of(root, (), layout.LAST_SLICE))


def _folder(file: File) -> str:
    """The name of a file's folder, such as `ab`."""
    return file.path.split("/")[1]


def count_and_limit(cache: str | Directory, added: Mapping[str, int], max_bytes: int) -> str:
    """Add the bytes by which folders have grown, and evict what exceeds the limit, unless that is 0.

    A call that stored something does this once, and only part of the work. Returns a word of
    outcomes.STORE_FAULTS if that failed, or an empty string.
    """
    try:
        _count_and_limit(directories.at(cache), added, max_bytes)
    except LockTimeoutError:
        return ""  # what was not counted now is found when its slice is recounted
    except (OSError, StoreError) as error:
        return store.fault_of(error)
    return ""


def _count_and_limit(root: Directory, added: Mapping[str, int], max_bytes: int) -> None:
    now = time.time()
    with layout.count_for_update(root) as count:
        count.add(added)
        is_recent = 0 <= now - count.counted_at < _RECOUNT_SECONDS
        if is_recent and (not max_bytes or count.total <= max_bytes):
            return
        first, count.counted_at = count.advance(), int(now)
        before = count.bytes
    files, sizes = _scan(root, first, now)
    total = sum(before) + sum(size - before[number] for number, size in sizes.items())
    if max_bytes and total > max_bytes:
        # Evict from each slice its share of the excess, whatever its size: otherwise one large file would
        # evict all others in its slice.
        wanted = (total - _TARGET_SHARE * max_bytes) * len(sizes) / layout.SLICES
        doomed = _files_worth(wanted, _least_recently_used(files, now))
        for file in _remove(root, doomed, _REMOVAL_SECONDS):
            sizes[int(_folder(file), 16)] -= file.size
    with layout.count_for_update(root) as count:
        # What other calls have added meanwhile to these slices is counted next time.
        for number, size in sizes.items():
            count.bytes[number] = size


def _scan(root: Directory, first: int, now: float) -> tuple[list[File], dict[int, int]]:
    """The files in as many slices, from `first` on, as a call may look at; and the bytes in each slice."""
    until = time.monotonic() + _SCAN_SECONDS
    files: list[File] = []
    sizes: dict[int, int] = {}
    buckets = layout.buckets_in(root)
    for number in [*range(first, layout.SLICES), *range(first)]:
        if number == layout.LAST_SLICE:
            sweep(root, now)
            sizes[number] = _bytes_outside_buckets(root)
        else:
            in_slice = layout.slice_of(root, buckets, number)
            sizes[number] = sum(file.size for file in in_slice)
            files += in_slice
        if len(files) >= _MOST_FILES_PER_CALL or time.monotonic() > until:
            break
    return files, sizes


def _least_recently_used(files: Iterable[File], now: float) -> list[File]:
    """The files in the order of eviction: those with an impossible date come first."""
    latest = now + _AHEAD_SECONDS
    return sorted(files, key=lambda file: file.used if file.used <= latest else 0.0)


def _files_worth(wanted: float, files: Iterable[File]) -> list[File]:
    """The first files that together have the wanted number of bytes."""
    chosen = []
    for file in files:
        if wanted <= 0:
            break
        chosen.append(file)
        wanted -= file.size
    return chosen


def sweep(root: Directory, now: float) -> None:
    """Remove what killed calls and other versions have left outside the buckets."""
    for file in layout.slice_of(root, (), layout.LAST_SLICE):
        is_stale = not -_AHEAD_SECONDS <= now - file.used <= _STALE_SECONDS
        with contextlib.suppress(OSError):
            if file.path.startswith(f"{inflight.FOLDER}/"):
                inflight.remove_abandoned(root, file.path)
            elif is_stale and layout.is_garbage(file.path):
                root.unlink(file.path)


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


def _remove(root: Directory, doomed: list[File], seconds: float = math.inf) -> list[File]:
    """Remove files, at least the first batch, until time is up; returns those removed.

    With a time limit, the files of a shard that another process has locked stay.
    """
    removed: list[File] = []
    until = time.monotonic() + seconds
    is_hurried = seconds < math.inf
    for shard, files in _batches(doomed):
        try:
            waiting = _LOCK_SECONDS if is_hurried else None
            with locks.hold(root, shard, waiting, flock.take if is_hurried else locks.with_filelock):
                removed += [file for file in files if _unlink_if_unused_since(root, file)]
        except LockTimeoutError:
            if not is_hurried:
                raise
        if time.monotonic() > until:
            break
    return removed


def _batches(doomed: list[File]) -> Iterator[tuple[str, list[File]]]:
    """Batches of files, each with its shard; shards alternate, so that each lock is free most of the time."""
    by_shard: dict[str, list[File]] = {}
    for file in doomed:
        by_shard.setdefault(_folder(file)[0], []).append(file)
    for start in range(0, max(map(len, by_shard.values()), default=0), _BATCH):
        for shard, files in sorted(by_shard.items()):
            if files[start:]:
                yield shard, files[start : start + _BATCH]


def _unlink_if_unused_since(root: Directory, file: File) -> bool:
    """Remove a file, unless it was used after it was chosen; raises OSError."""
    try:
        if root.status(file.path).st_mtime > file.used:
            return False
        root.unlink(file.path)
    except FileNotFoundError:
        return False
    return True
