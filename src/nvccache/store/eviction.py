"""Keeping the cache directory within its size, and `nvccache clean`: least recently used goes first.

Knows the layout from store.py and nothing of what the files mean. An entry whose blob is gone, or the
other way round, is harmless: whatever is absent is made again. Only names of ours are counted and removed,
buckets of other versions included: to a size limit it is all one whose they are.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from nvccache.store import cachedir_tag, inflight, layout, locks, store
from nvccache.store import directory as directories
from nvccache.store.directory import Directory, LockTimeoutError, NoCacheError, StoreError
from nvccache.values import dataclass

Tell = Callable[[int, int], None]

_ROOM = 0.9  # evict down to this part of the limit, so that not every call evicts
_STALE_SECONDS = 24 * 3600  # after which a temporary file belongs to nobody
_RECOUNT_SECONDS = 60  # between slices that are counted anew: all of them in four hours of builds
_AHEAD_SECONDS = 3600  # by which a date may lie in the future, on a file server
_AT_ONCE = 100  # files removed before others may have the lock of the shard
# What a call looks at when it stores something, all of a small cache, and for how long; and for how long it
# removes files then.
_FILES_OF_CALL = 8192
_LEAST_OF_CALL = 1500  # files, though it takes longer on a busy machine: else nothing would ever be counted
_SECONDS_TO_LOOK = 0.06
_SECONDS_TO_REMOVE = 0.04
_LOCK_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Amount:
    """Bytes, and files in buckets."""

    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class _File:
    path: str  # in the directory
    size: int
    used: float  # seconds since the epoch

    @property
    def folder(self) -> str:
        return self.path.split("/")[1]

    @property
    def slice(self) -> int:
        return int(self.folder, 16)

    @property
    def shard(self) -> str:
        return self.folder[0]


def usage(place: str | Directory) -> Amount:
    """What the directory holds now, counted file by file; raises StoreError."""
    with told_in_one_sentence(directories.at(place)) as root:
        files = _files(root)
        return Amount(sum(file.size for file in files) + _bytes_beside(root), len(files))


def prune(
    place: str | Directory,
    max_bytes: int | None = None,
    older_than: float | None = None,
    is_dry_run: bool = False,
    tell: Tell | None = None,
) -> Amount:
    """Remove what was not used for `older_than` seconds, then the least recently used above the limit.

    Raises StoreError when the directory cannot be used. `tell` hears how many of how many are done; of
    a dry run it is only returned what would be removed.
    """
    now = time.time()
    with told_in_one_sentence(directories.at(place)) as root:
        if not is_dry_run:
            sweep(root, now)
        files = _least_recently_used(_files(root), now)
        total = sum(file.size for file in files) + _bytes_beside(root)
        doomed = []
        for file in files:
            is_old = older_than is not None and now - file.used > older_than
            if is_old or (max_bytes is not None and total > max_bytes):
                doomed.append(file)
                total -= file.size
        return _removed(root, doomed, is_dry_run, tell)


def remove(
    place: str | Directory, names: Container[str], is_dry_run: bool = False, tell: Tell | None = None
) -> Amount:
    """Remove the files in buckets that are named; raises StoreError. The rest as `prune`."""
    with told_in_one_sentence(directories.at(place)) as root:
        return _removed(root, [file for file in _files(root) if file.path in names], is_dry_run, tell)


def _removed(root: Directory, doomed: list[_File], is_dry_run: bool, tell: Tell | None) -> Amount:
    if not is_dry_run:
        doomed = _remove(root, doomed, tell)
        with contextlib.suppress(OSError, StoreError), layout.changed_count(root) as count:
            for file in doomed:
                count.add({file.folder: -file.size})
    return Amount(sum(file.size for file in doomed), len(doomed))


def _bytes_beside(root: Directory) -> int:
    return sum(size for _, size, _ in layout.beside(root))


def clear(place: str | Directory, is_dry_run: bool = False, tell: Tell | None = None) -> Amount:
    """Remove everything in the buckets; raises StoreError."""
    return prune(place, max_bytes=-1, is_dry_run=is_dry_run, tell=tell)


def count_and_limit(
    place: str | Directory, added: Mapping[str, int], max_bytes: int, is_hurried: bool = True
) -> str:
    """Add what the folders have grown by, and evict what is above the limit, if there is one (0 is none).

    Called once by a call that stored, which does no more than a part of what there is to do if it
    `is_hurried`. What kept it from that is a word of outcomes.STORE_FAULTS, or empty.
    """
    try:
        _count_and_limit(directories.at(place), added, max_bytes, is_hurried)
    except LockTimeoutError:
        return ""  # what was not counted now is found when its slice is counted anew
    except (OSError, StoreError) as error:
        return store.fault_of(error)
    return ""


def _count_and_limit(root: Directory, added: Mapping[str, int], max_bytes: int, is_hurried: bool) -> None:
    now = time.time()
    with layout.changed_count(root) as count:
        count.add(added)
        is_over = max_bytes > 0 and count.total > max_bytes
        is_recent = 0 <= now - count.counted_at < _RECOUNT_SECONDS
        if not is_over and is_recent and count.is_complete:
            return
        before = count.copy()
        first = count.take_turn()
    until = time.monotonic() + (_SECONDS_TO_LOOK if is_hurried else math.inf)
    most = math.inf if not is_hurried else _FILES_OF_CALL if is_over or not before.is_complete else 0
    look = _Look(root, first, most, until, now)
    count = before.copy()
    count.take(look.sizes, before, now)
    if max_bytes and count.total > max_bytes:
        # Of each slice as much as if all were looked at, whatever its size: one large file is not to have all
        # those beside it removed.
        wanted = (count.total - _ROOM * max_bytes) * look.slices / layout.SLICES
        doomed = _up_to(wanted, _least_recently_used(look.files, now))
        seconds = _SECONDS_TO_REMOVE if is_hurried else math.inf
        for file in _remove(root, doomed, seconds=seconds):
            look.sizes[file.slice] -= file.size
    with layout.changed_count(root) as count:
        count.take(look.sizes, before, now)


class _Look:
    """What is in some slices, from the `first` on, until `most` files were seen or the time is over."""

    def __init__(self, root: Directory, first: int, most: float, until: float, now: float) -> None:
        self.files: list[_File] = []
        self.sizes: dict[int, int] = {}  # bytes; estimated where the time was over in the midst of a slice
        self.slices = 0.0  # that were looked at, such parts included
        folders = layout.folders(root)
        for number in [*range(first, layout.SLICES), *range(first)]:
            if number == layout.LAST_SLICE:
                sweep(root, now, until)
                self.sizes[number] = _bytes_beside(root)
                self.slices += 1
            else:
                self._add(root, number, folders.get(f"{number:02x}", []), until)
            if len(self.files) >= most or time.monotonic() > until:
                break

    def _add(self, root: Directory, number: int, folders: list[str], until: float) -> None:
        here: list[_File] = []
        names = 0
        for folder in folders:
            latest = until if len(self.files) + len(here) >= _LEAST_OF_CALL else math.inf
            for path, size, used in layout.in_folder(root, folder, latest):
                names += 1
                if used is not None:
                    here.append(_File(path, size, used))
        seen = len(here) / names if names else 1.0
        if seen:
            self.sizes[number] = int(sum(file.size for file in here) / seen)
        self.files += here
        self.slices += seen


def _least_recently_used(files: Iterable[_File], now: float) -> list[_File]:
    """The files in the order in which they go: first those with a date that cannot be."""
    latest = now + _AHEAD_SECONDS
    return sorted(files, key=lambda file: file.used if file.used <= latest else 0.0)


def _up_to(wanted: float, files: Iterable[_File]) -> list[_File]:
    """The first files, until they have as many bytes as are wanted."""
    found = []
    for file in files:
        if wanted <= 0:
            break
        found.append(file)
        wanted -= file.size
    return found


def sweep(root: Directory, now: float, until: float = math.inf) -> None:
    """Remove what killed calls and other versions have left beside the buckets, as long as there is time."""
    for path, _, touched in list(layout.beside(root)):
        if time.monotonic() > until:
            return
        is_stale = not -_AHEAD_SECONDS <= now - touched <= _STALE_SECONDS
        with contextlib.suppress(OSError):
            if path.startswith(f"{inflight.FOLDER}/"):
                inflight.remove_abandoned(root, path)
            elif is_stale and layout.is_left_behind(path):
                root.unlink(path)


def _files(root: Directory) -> list[_File]:
    return [_File(*found) for found in layout.entries(root)]


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


def _remove(
    root: Directory, doomed: list[_File], tell: Tell | None = None, seconds: float = math.inf
) -> list[_File]:
    """Remove files, after the first ones as long as there is time; which ones were removed."""
    removed: list[_File] = []
    seen = 0
    is_hurried = seconds < math.inf
    until = time.monotonic() + seconds
    for shard, files in _parts(doomed):
        try:
            with locks.briefly(root, shard, _LOCK_SECONDS) if is_hurried else locks.to_remove(root, shard):
                removed += [file for file in files if _unlink_if_unused_since(root, file)]
        except LockTimeoutError:
            if not is_hurried:
                raise
        if time.monotonic() > until:
            break
        seen += len(files)
        if tell:
            tell(seen, len(doomed))
    return removed


def _parts(doomed: list[_File]) -> Iterator[tuple[str, list[_File]]]:
    """The files in parts, with their locks, which take turns: each is free while the others are held."""
    by_shard: dict[str, list[_File]] = {}
    for file in doomed:
        by_shard.setdefault(file.shard, []).append(file)
    for start in range(0, max(map(len, by_shard.values()), default=0), _AT_ONCE):
        for shard, files in sorted(by_shard.items()):
            if files[start:]:
                yield shard, files[start : start + _AT_ONCE]


def _unlink_if_unused_since(root: Directory, file: _File) -> bool:
    """Remove a file, unless a build used it after it was chosen; raises PermissionError and the like."""
    try:
        if root.status(file.path).st_mtime > file.used:
            return False
        root.unlink(file.path)
    except FileNotFoundError:
        return False
    return True
