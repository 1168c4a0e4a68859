"""Keeping the cache directory within its size, and `nvccache clean`: least recently used goes first.

Knows the layout from store.py and nothing of what the files mean. An entry whose blob is gone, or the
other way round, is harmless: whatever is absent is made again. Only names of ours are counted and removed,
buckets of other versions included: to a size limit it is all one whose they are.
"""

from __future__ import annotations

import contextlib
import os
import time

from nvccache.store import cachedir_tag, inflight, layout, locks, publishing
from nvccache.store import directory as directories
from nvccache.store.directory import Directory, NoCacheError, StoreError
from nvccache.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    Tell = Callable[[int, int], None]

_ROOM = 0.9  # evict down to this part of the limit, so that not every call evicts
_STALE_SECONDS = 24 * 3600  # after which a temporary file belongs to nobody
_SWEEP_SECONDS = 24 * 3600
_USAGE_LOCK = "usage"
_AT_ONCE = 500  # files removed before others may have the lock of the shard


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes of everything of ours, and the number of files in all buckets."""

    bytes: int
    entries: int


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed."""

    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class _File:
    path: str  # in the directory
    shard: str
    size: int
    used: float  # seconds since the epoch


def usage(place: str | Directory) -> Usage:
    """What the directory holds now, counted file by file; raises StoreError."""
    with told_in_one_sentence(directories.at(place)) as root:
        files = _files(root)
        beside = sum(size for _, size, _ in layout.beside(root))
    return Usage(sum(file.size for file in files) + beside, len(files))


def prune(
    place: str | Directory,
    max_bytes: int | None = None,
    older_than: float | None = None,
    is_dry_run: bool = False,
    tell: Tell | None = None,
) -> Pruned:
    """Remove what was not used for `older_than` seconds, then the least recently used above the limit.

    Raises StoreError when the directory cannot be used. `tell` hears how many of how many are done; of
    a dry run it is only returned what would be removed.
    """
    now = time.time()
    with told_in_one_sentence(directories.at(place)) as root:
        if not is_dry_run:
            sweep(root, now)
        files = sorted(_files(root), key=lambda file: file.used)
        held = total = sum(file.size for file in files) + sum(size for _, size, _ in layout.beside(root))
        doomed = []
        for file in files:
            is_old = older_than is not None and now - file.used > older_than
            if is_old or (max_bytes is not None and total > max_bytes):
                doomed.append(file)
                total -= file.size
        if is_dry_run:
            return _sum_of(doomed)
        pruned = _remove(root, doomed, tell)
        _write_usage(root, held - pruned.bytes, now)
    return pruned


def remove(
    place: str | Directory, names: Container[str], is_dry_run: bool = False, tell: Tell | None = None
) -> Pruned:
    """Remove the files in buckets that are named; raises StoreError. The rest as `prune`."""
    with told_in_one_sentence(directories.at(place)) as root:
        doomed = [file for file in _files(root) if file.path in names]
        if is_dry_run:
            return _sum_of(doomed)
        pruned = _remove(root, doomed, tell)
        held, swept = _read_usage(root)
        if held is not None:
            _write_usage(root, max(0, held - pruned.bytes), swept)
    return pruned


def _sum_of(files: list[_File]) -> Pruned:
    return Pruned(sum(file.size for file in files), len(files))


def clear(place: str | Directory, is_dry_run: bool = False, tell: Tell | None = None) -> Pruned:
    """Remove everything in the buckets; raises StoreError."""
    return prune(place, max_bytes=-1, is_dry_run=is_dry_run, tell=tell)


def count_and_limit(place: str | Directory, added_bytes: int, max_bytes: int) -> str:
    """Add to the running total, and evict when it is above the limit, if there is one (0 is none).

    Called once by a call that stored. What kept it from that is a word of outcomes.STORE_FAULTS, or empty.
    """
    try:
        _count_and_limit(directories.at(place), added_bytes, max_bytes)
    except (OSError, StoreError) as error:
        return publishing.fault_of(error)
    return ""


def _count_and_limit(root: Directory, added_bytes: int, max_bytes: int) -> None:
    with locks.to_publish(root, _USAGE_LOCK):
        now = time.time()
        total, swept = _read_usage(root)
        if total is None or now - swept > _SWEEP_SECONDS:
            sweep(root, now)
            total, swept = usage(root).bytes, now
        else:
            total += added_bytes
        _write_usage(root, total, swept)
        if max_bytes and total > max_bytes:
            prune(root, int(max_bytes * _ROOM))


def sweep(root: Directory, now: float) -> None:
    """Remove what killed calls and other versions have left beside the buckets."""
    for path, _, touched in list(layout.beside(root)):
        with contextlib.suppress(OSError):
            if path.startswith(f"{inflight.FOLDER}/"):
                inflight.remove_abandoned(root, path)
            elif now - touched > _STALE_SECONDS and layout.is_left_behind(path):
                root.unlink(path)


def _files(root: Directory) -> list[_File]:
    found = layout.entries(root)
    return [_File(path, path.partition("/")[2][0], size, used) for path, size, used in found]


@contextlib.contextmanager
def told_in_one_sentence(root: Directory) -> Iterator[Directory]:
    """Have what keeps the directory from being used told as StoreError."""
    try:
        root.list()
        yield root
    except cachedir_tag.ForeignDirectoryError as error:
        raise StoreError(str(error)) from None
    except FileNotFoundError:
        raise NoCacheError(f"there is no cache in `{root.path}`") from None
    except OSError as error:
        if os.path.lexists(root.path) and not os.path.isdir(root.path):
            raise StoreError(f"the cache directory `{root.path}` is not a directory") from None
        raise StoreError(f"cannot use `{root.path}`: {error.strerror or error}") from None


def _remove(root: Directory, doomed: list[_File], tell: Tell | None = None) -> Pruned:
    removed_bytes = removed_files = seen = 0
    by_shard: dict[str, list[_File]] = {}
    for file in doomed:
        by_shard.setdefault(file.shard, []).append(file)
    for shard, files in sorted(by_shard.items()):
        for start in range(0, len(files), _AT_ONCE):
            with locks.to_remove(root, shard):
                for file in files[start : start + _AT_ONCE]:
                    if _unlink_if_unused_since(root, file):
                        removed_bytes += file.size
                        removed_files += 1
            seen += len(files[start : start + _AT_ONCE])
            if tell:
                tell(seen, len(doomed))
    return Pruned(removed_bytes, removed_files)


def _unlink_if_unused_since(root: Directory, file: _File) -> bool:
    """Remove a file, unless a build used it after it was chosen; raises PermissionError and the like."""
    try:
        if root.status(file.path).st_mtime > file.used:
            return False
        root.unlink(file.path)
    except FileNotFoundError:
        return False
    return True


def _read_usage(root: Directory) -> tuple[int | None, float]:
    """The running total, None if it is not known, and when was last swept."""
    try:
        total, swept = root.read(layout.USAGE, 1 << 10)[0].split(b" ")
        return int(total), float(swept)
    except (OSError, ValueError):
        return None, 0.0


def _write_usage(root: Directory, total: int, swept: float) -> None:
    with contextlib.suppress(OSError):
        root.write(layout.USAGE, b"%d %d" % (total, int(swept)))
