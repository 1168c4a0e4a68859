"""Keeping the cache directory within its size, and `nvccache clean`: least recently used goes first.

Knows the layout from store.py and nothing of what the files mean. An entry whose blob is gone, or
the other way round, is harmless: whatever is absent is made again.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from dataclasses import dataclass

from nvccache import locks, publishing, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOM = 0.9  # evict down to this part of the limit, so that not every call evicts
_STALE_TEMPORARY_SECONDS = 24 * 3600
_USAGE_LOCK = "usage"


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes and number of files in all buckets."""

    bytes: int
    entries: int


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed."""

    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    shard: str
    size: int
    used: float  # seconds since the epoch


def usage(root: str) -> Usage:
    """What the buckets hold now, counted file by file; raises store.StoreError."""
    files = list(_files(root))
    return Usage(sum(file.size for file in files), len(files))


def prune(root: str, max_bytes: int | None = None, older_than: float | None = None) -> Pruned:
    """Remove what was not used for `older_than` seconds, then the least recently used above the limit.

    Raises store.StoreError when the directory cannot be used.
    """
    now = time.time()
    files = sorted(_files(root), key=lambda file: file.used)
    held = total = sum(file.size for file in files)
    doomed = []
    for file in files:
        is_old = older_than is not None and now - file.used > older_than
        if is_old or (max_bytes is not None and total > max_bytes):
            doomed.append(file)
            total -= file.size
    pruned = _remove(root, doomed)
    _remove_stale_temporaries(root, now)
    _write_usage(root, held - pruned.bytes)
    return pruned


def clear(root: str) -> Pruned:
    """Remove everything in the buckets; raises store.StoreError."""
    return prune(root, max_bytes=-1)


def count_and_limit(root: str, added_bytes: int, max_bytes: int) -> None:
    """Add to the running total, and evict when it is above the limit. Called once by a call that stored."""
    with contextlib.suppress(OSError, store.StoreError), locks.shard_lock(root, _USAGE_LOCK):
        total = _read_usage(root)
        total = usage(root).bytes if total is None else total + added_bytes
        _write_usage(root, total)
        if max_bytes and total > max_bytes:  # no limit is 0
            prune(root, int(max_bytes * _ROOM))


def _files(root: str) -> Iterator[_File]:
    if not os.path.isdir(root):
        raise store.StoreError(_why_unusable(root))
    for bucket in store.BUCKETS:
        for shard in _scan(f"{root}/{bucket}"):
            if not shard.is_dir(follow_symlinks=False):
                continue
            for entry in _scan(shard.path):
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if stat.S_ISDIR(status.st_mode):
                    continue  # not ours
                yield _File(entry.path, shard.name[:1], status.st_size, status.st_mtime)


def _scan(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise store.StoreError(f"cannot read `{directory}`: {error.strerror}") from None


def _why_unusable(root: str) -> str:
    if not os.path.lexists(root):
        return f"there is no cache directory `{root}` yet"
    return f"the cache directory `{root}` is not a directory"


def _remove(root: str, doomed: list[_File]) -> Pruned:
    removed_bytes = removed_files = 0
    for shard in sorted({file.shard for file in doomed}):
        try:
            with locks.shard_lock(root, shard):
                for file in doomed:
                    if file.shard == shard and _unlink_if_unused_since(file):
                        removed_bytes += file.size
                        removed_files += 1
        except OSError as error:
            raise store.StoreError(f"cannot change `{root}`: {error.strerror}") from None
    return Pruned(removed_bytes, removed_files)


def _unlink_if_unused_since(file: _File) -> bool:
    """Remove a file, unless a build used it after it was chosen; raises PermissionError and the like."""
    try:
        if os.stat(file.path).st_mtime > file.used:
            return False
        os.unlink(file.path)
    except FileNotFoundError:
        return False
    return True


def _remove_stale_temporaries(root: str, now: float) -> None:
    """A killed process leaves its temporary file behind."""
    for entry in _scan(f"{root}/tmp"):
        with contextlib.suppress(OSError):
            if now - entry.stat(follow_symlinks=False).st_mtime > _STALE_TEMPORARY_SECONDS:
                os.unlink(entry.path)


def _read_usage(root: str) -> int | None:
    try:
        with open(f"{root}/usage-v1", "rb") as stream:
            return int(stream.read())
    except (OSError, ValueError):
        return None


def _write_usage(root: str, total: int) -> None:
    with contextlib.suppress(OSError):
        publishing.write_whole(root, f"{root}/usage-v1", b"%d" % total)
