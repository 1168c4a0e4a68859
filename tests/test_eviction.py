"""Eviction: what goes first, what stays, and that neither builds nor other versions are disturbed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import unprivileged
from nvccache import entries, eviction, keys, store
from nvccache.entries import Entry
from nvccache.store import BLOB, REPLAY, Store

SIZE = 1000
DAY = 24 * 3600.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def _add(root: Path, number: int, age: float = 0.0) -> str:
    """Add one raw blob of SIZE bytes, last used `age` seconds ago; its digest."""
    content = b"%d " % number + bytes(SIZE)
    content = content[:SIZE]
    digest = keys.digest_bytes(content)
    Store(str(root)).add_blob(digest, content, compress=False)
    used = time.time() - age
    os.utime(root / BLOB / digest[:2] / digest, (used, used))
    return digest


def _left(root: Path, digests: list[str]) -> list[bool]:
    return [(root / BLOB / digest[:2] / digest).exists() for digest in digests]


def test_usage_counts_every_file_of_every_bucket(root):
    _add(root, 1)
    cache = Store(str(root))
    entries.add(cache, keys.digest_bytes(b"k"), Entry())
    cache.add_record(REPLAY, keys.digest_bytes(b"r"), b"x", lock=False)
    cache.add_memo(keys.digest_bytes(b"m"), "x")
    used = eviction.usage(str(root))
    assert used.entries == 4
    assert used.bytes == SIZE + cache.added_bytes


def test_what_was_used_least_recently_goes_first(root):
    digests = [_add(root, number, age=100 * number) for number in (3, 1, 4, 2)]
    pruned = eviction.prune(str(root), max_bytes=2 * SIZE)
    assert _left(root, digests) == [False, True, False, True]
    assert (pruned.files, pruned.bytes) == (2, 2 * SIZE)


def test_nothing_goes_below_the_limit(root):
    digests = [_add(root, number) for number in range(3)]
    assert eviction.prune(str(root), max_bytes=3 * SIZE).files == 0
    assert _left(root, digests) == [True] * 3


def test_a_hit_keeps_what_it_used(root):
    old, new = _add(root, 1, age=1000), _add(root, 2, age=10)
    Store(str(root)).read_blob(old)
    eviction.prune(str(root), max_bytes=SIZE)
    assert _left(root, [old, new]) == [True, False]


def test_what_is_older_than_asked_for_goes(root):
    digests = [_add(root, 1, age=3 * DAY), _add(root, 2, age=DAY)]
    eviction.prune(str(root), older_than=2 * DAY)
    assert _left(root, digests) == [False, True]


def test_age_and_size_both_count(root):
    digests = [_add(root, 1, age=3 * DAY), _add(root, 2, age=20), _add(root, 3, age=10)]
    eviction.prune(str(root), max_bytes=SIZE, older_than=2 * DAY)
    assert _left(root, digests) == [False, False, True]


def test_clearing_removes_everything_but_what_is_no_entry(root):
    _add(root, 1)
    entries.add(Store(str(root)), keys.digest_bytes(b"k"), Entry())
    (root / "journal").mkdir()
    (root / "journal" / "calls").write_text("counted")
    eviction.clear(str(root))
    assert eviction.usage(str(root)) == eviction.Usage(0, 0)
    assert (root / "journal" / "calls").exists()
    assert (root / "CACHEDIR.TAG").exists()


def test_directories_and_files_of_others_are_left_alone(root):
    _add(root, 1)
    (root / BLOB / "ab" / "folder").mkdir(parents=True)
    (root / BLOB / "stray").write_text("not in a shard")
    (root / "blob-v2" / "ab").mkdir(parents=True)
    (root / "blob-v2" / "ab" / "newer").write_text("x")
    eviction.clear(str(root))
    assert (root / BLOB / "ab" / "folder").is_dir()
    assert (root / BLOB / "stray").exists()
    assert (root / "blob-v2" / "ab" / "newer").exists()


def test_temporary_files_of_killed_processes_go_after_a_day(root):
    _add(root, 1)
    fresh, stale = root / "tmp" / "fresh", root / "tmp" / "stale"
    for path in (fresh, stale):
        path.write_text("x")
    os.utime(stale, (time.time() - 2 * DAY,) * 2)
    eviction.prune(str(root))
    assert fresh.exists() and not stale.exists()


def test_what_a_build_uses_after_it_was_chosen_stays(root, monkeypatch):
    digest = _add(root, 1, age=1000)
    found = list(eviction._files(str(root)))
    monkeypatch.setattr(eviction, "_files", lambda root: found)
    Store(str(root)).read_blob(digest)
    assert eviction.clear(str(root)).files == 0
    assert _left(root, [digest]) == [True]
    assert int((root / "usage-v1").read_bytes()) == SIZE


def test_the_running_total_evicts_when_it_passes_the_limit(root):
    digests = [_add(root, number, age=100 - number) for number in range(10)]
    eviction.count_and_limit(str(root), SIZE, max_bytes=20 * SIZE)
    assert all(_left(root, digests))
    eviction.count_and_limit(str(root), SIZE, max_bytes=10 * SIZE)
    assert _left(root, digests) == [False] + [True] * 9  # down to nine tenths, so that not every call evicts


@pytest.mark.parametrize("content", [None, b"", b"many", b"12 bytes"])
def test_a_total_that_is_missing_or_no_number_is_counted_anew(root, content):
    digests = [_add(root, number) for number in range(4)]
    if content is not None:
        (root / "usage-v1").write_bytes(content)
    eviction.count_and_limit(str(root), SIZE, max_bytes=2 * SIZE)
    assert sum(_left(root, digests)) == 1


def test_the_total_is_right_after_pruning(root):
    for number in range(4):
        _add(root, number)
    eviction.prune(str(root), max_bytes=2 * SIZE)
    assert int((root / "usage-v1").read_bytes()) == 2 * SIZE == eviction.usage(str(root)).bytes


def test_a_total_that_cannot_be_kept_disturbs_no_build(root):
    _add(root, 1)
    with unprivileged.read_only(root) as copy:
        eviction.count_and_limit(copy, SIZE, max_bytes=0)
    eviction.count_and_limit(str(root / "missing"), SIZE, max_bytes=0)


@pytest.mark.parametrize("action", [eviction.usage, eviction.clear])
def test_a_directory_that_is_none_is_told_in_one_sentence(tmp_path, action):
    with pytest.raises(store.StoreError, match="there is no cache directory"):
        action(str(tmp_path / "missing"))
    (tmp_path / "file").write_text("x")
    with pytest.raises(store.StoreError, match="is not a directory"):
        action(str(tmp_path / "file"))


def test_a_directory_that_cannot_be_changed_is_told_in_one_sentence(root):
    _add(root, 1)
    with unprivileged.read_only(root) as copy, pytest.raises(store.StoreError, match="cannot"):
        eviction.clear(copy)


def test_a_directory_that_cannot_be_read_is_told_in_one_sentence(root):
    _add(root, 1)
    with unprivileged.unreadable(root) as copy, pytest.raises(store.StoreError):
        eviction.usage(copy)


WRITER = """
import sys
from nvccache import eviction, keys
from nvccache.store import Store
root, name = sys.argv[1:]
cache = Store(root)
for number in range(80):
    content = (b"%s %d " % (name.encode(), number)) * 400
    digest = keys.digest_bytes(content)
    cache.add_blob(digest, content, compress=number % 2 == 0)
    assert cache.read_blob(digest) in (content, None)
    eviction.count_and_limit(root, len(content), max_bytes=50_000)
assert not cache.trouble, cache.trouble
"""


def test_evicting_beside_writers_disturbs_nobody(root):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(root), name]) for name in "abc"]
    while any(writer.poll() is None for writer in writers):
        if root.is_dir():
            eviction.prune(str(root), max_bytes=20_000)
    assert [writer.returncode for writer in writers] == [0] * 3
    eviction.prune(str(root), max_bytes=20_000)
    assert eviction.usage(str(root)).bytes <= 20_000
