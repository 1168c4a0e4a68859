"""Eviction: what goes first, what stays, and which names may go; builds and versions are not disturbed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import unprivileged
from nvccache.files import keys
from nvccache.store import event_line, eviction, locks, store
from nvccache.store.directory import Directory, StoreError
from nvccache.store.store import BLOB, BUCKETS, RECORD, REPLAY, Store

SIZE = 20_000
DAY = 24 * 3600.0
PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "cache-layout.md").read_text()
DRAWN = re.compile(r"^      ([\w-]+-v\d+)/ab/", re.MULTILINE)


def _add(root: Path, number: int, age: float = 0.0) -> str:
    """Add one raw blob of SIZE bytes, last used `age` seconds ago; its digest."""
    content = (b"%d " % number + bytes(SIZE))[:SIZE]
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
    cache.add_record(RECORD, keys.digest_bytes(b"k"), b"body")
    cache.add_record(REPLAY, keys.digest_bytes(b"r"), b"x")
    cache.add_memo(keys.digest_bytes(b"m"), "x")
    used = eviction.usage(str(root))
    assert used.files == 4
    assert used.bytes == sum(path.stat().st_size for path in root.glob("*-v*/*/*"))


def test_eviction_removes_least_recently_used_files_first(root):
    digests = [_add(root, number, age=100 * number) for number in (3, 1, 4, 2)]
    assert eviction.prune(str(root), max_bytes=4 * SIZE).files == 0
    pruned = eviction.prune(str(root), max_bytes=2 * SIZE)
    assert _left(root, digests) == [False, True, False, True]
    assert (pruned.files, pruned.bytes) == (2, 2 * SIZE)


@pytest.mark.parametrize(("count", "left"), [(None, [False, True, True]), (1, [False, False, True])])
def test_pruning_removes_files_by_age_and_by_size(root, count, left):
    digests = [_add(root, 1, age=3 * DAY), _add(root, 2, age=20), _add(root, 3, age=10)]
    eviction.prune(str(root), max_bytes=count * SIZE if count else None, older_than=2 * DAY)
    assert _left(root, digests) == left


@pytest.mark.parametrize("is_dry_run", [True, False])
def test_exactly_the_named_cache_files_are_removed(root, is_dry_run):
    digests = [_add(root, number) for number in range(3)]
    names = {f"{BLOB}/{digest[:2]}/{digest}" for digest in digests[1:]}
    assert eviction.remove(str(root), names, is_dry_run).bytes == 2 * SIZE
    assert _left(root, digests) == [True, is_dry_run, is_dry_run]


def test_clearing_a_cache_leaves_foreign_files_and_directories(root):
    _add(root, 1)
    others = ("blob-v3/stray", "blob-v3/ab/notes.txt", "photos/ab/" + "0" * 32, "tmp/thesis.tex")
    for name in others:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
        os.utime(root / name, (1, 1))
    (root / BLOB / "ab" / "folder").mkdir()
    eviction.clear(str(root))
    assert (root / BLOB / "ab" / "folder").is_dir()
    assert all((root / name).exists() for name in others)
    assert eviction.usage(str(root)).files == 0


def test_files_of_other_cache_versions_are_counted_and_evicted_too(root):
    _add(root, 1, age=10)
    for bucket in ("stage-v6", "input-record-v8", "replay-v999"):
        old = root / bucket / "ab" / ("ab" + "0" * 30)
        old.parent.mkdir(parents=True)
        old.write_bytes(bytes(SIZE))
        os.utime(old, (time.time() - 100,) * 2)
    assert eviction.usage(str(root)).files == 4
    eviction.prune(str(root), max_bytes=SIZE)
    assert eviction.usage(str(root)).files == 1 and not old.exists()


@pytest.mark.parametrize(
    ("name", "is_swept"),
    [
        ("journal/notes.txt", False),
        ("tmp/" + "0" * 32, True),
        ("README", False),
        ("locks/running/" + "0" * 64, True),
        ("locks/running/mine", False),
        ("locks/0.lock", False),
    ],
)
def test_eviction_removes_leftovers_of_killed_calls(root, name, is_swept):
    _add(root, 1)
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    os.utime(path, (1, 1))
    eviction.prune(str(root))
    assert path.exists() is not is_swept


def test_eviction_keeps_running_claims_and_the_event_log(root):
    claim = locks.Claims(str(root)).take("0" * 64)
    event_line.append(str(root), event_line.Event("miss"))
    paths = root / "locks" / "running" / ("0" * 64), root / "journal" / event_line.LOG
    for path in paths:
        os.utime(path, (1, 1))
    eviction.prune(str(root))
    assert claim and all(path.exists() for path in paths)


@pytest.mark.parametrize("is_due", [False, True])
def test_a_cache_is_swept_now_and_then_though_it_is_within_its_limit(root, monkeypatch, is_due):
    _add(root, 1)
    eviction.count_and_limit(str(root), {}, max_bytes=0)
    stale = root / "tmp" / ("0" * 32)
    stale.write_text("x")
    os.utime(stale, (1, 1))
    monkeypatch.setattr(eviction, "_RECOUNT_SECONDS", 0 if is_due else 60)
    eviction.count_and_limit(str(root), {}, max_bytes=0)
    assert stale.exists() is not is_due


def test_a_file_used_after_eviction_listed_it_is_kept(root, monkeypatch):
    digest = _add(root, 1, age=1000)
    found = list(eviction.entries(Directory(str(root))))
    monkeypatch.setattr(eviction, "entries", lambda root: iter(found))
    Store(str(root)).read_blob(digest)
    assert eviction.clear(str(root)).files == 0
    assert _left(root, [digest]) == [True]


def _sizes(root: Path) -> list[int]:
    return eviction.read_count(Directory(str(root)))[2]


def _count_all(root: Path, monkeypatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(eviction, "_RECOUNT_SECONDS", 0)
        for _ in eviction.SHARDS:
            eviction.count_and_limit(str(root), {}, max_bytes=0)


def _shard(digest: str) -> int:
    return int(digest[0], 16)


def test_the_running_total_evicts_the_oldest_of_one_shard_after_another(root, monkeypatch):
    digests = [_add(root, number, age=100 - number) for number in range(40)]
    _count_all(root, monkeypatch)
    sizes = _sizes(root)
    assert sizes == [SIZE * sum(_shard(digest) == shard for digest in digests) for shard in range(16)]
    eviction.count_and_limit(str(root), {"z": 10**9}, max_bytes=40 * SIZE)  # no key has this first character
    assert all(_left(root, digests))
    by_shard = sorted(set(map(_shard, digests)))[:3]
    for _ in by_shard:
        eviction.count_and_limit(str(root), {}, max_bytes=sum(_sizes(root)) - 1)
    oldest = {next(digest for digest in digests if _shard(digest) == shard) for shard in by_shard}
    assert {digest for digest in digests if not _left(root, [digest])[0]} == oldest
    assert sum(_sizes(root)) == 37 * SIZE


def test_a_large_file_does_not_cost_others_in_its_shard(root, monkeypatch):
    digests = [_add(root, number, age=200 - number) for number in range(100)]
    large = root / BLOB / digests[-1][:2] / digests[-1]
    large.write_bytes(bytes(100 * SIZE))
    _count_all(root, monkeypatch)
    limit = sum(_sizes(root)) - 10 * SIZE
    while sum(_sizes(root)) > limit:
        eviction.count_and_limit(str(root), {}, max_bytes=limit)
    assert large.exists() and sum(_left(root, digests)) > 80


def test_far_above_a_new_limit_all_shards_lose_the_same_share(root, monkeypatch):
    digests = [_add(root, number, age=200 - number) for number in range(200)]
    _count_all(root, monkeypatch)
    for _ in 3 * eviction.SHARDS:
        eviction.count_and_limit(str(root), {}, max_bytes=100 * SIZE)
    assert sum(_sizes(root)) <= 100 * SIZE and sum(_left(root, digests)) > 75


IMPOSSIBLE = {
    "no number": b"many",
    "too few": b"1 2 3",
    "negative": b"0 0" + b" -5" * 16,
    "no such shard": b"99 0" + b" 7" * 16,
    "too many": b"7 " * 100_000,
}


@pytest.mark.parametrize("content", [None, *IMPOSSIBLE.values()], ids=["none", *IMPOSSIBLE])
def test_a_missing_or_impossible_size_total_is_computed_again(root, content, monkeypatch):
    digests = [_add(root, number) for number in range(4)]
    (root / "journal").mkdir()
    if content is not None:
        (root / eviction.USAGE).write_bytes(content)
    assert eviction.read_count(Directory(str(root))) == (0, 0, [0] * 16)
    _count_all(root, monkeypatch)
    assert sum(_sizes(root)) == 4 * SIZE
    assert all(_left(root, digests))


@pytest.mark.parametrize("counted_at", [0, -(10**15), 10**15, 4 * 10**9])
def test_a_wrong_clock_does_not_prevent_the_next_count_of_the_cache(root, counted_at):
    _add(root, 1)
    (root / "journal").mkdir()
    (root / eviction.USAGE).write_text(" ".join(["0", str(counted_at), "7777", *["0"] * 15]))
    eviction.count_and_limit(str(root), {}, max_bytes=0)
    following, now, sizes = eviction.read_count(Directory(str(root)))
    assert (following, sizes[0]) == (1, 0) and abs(now - time.time()) < 60


def test_the_size_total_is_right_after_pruning_and_removing(root):
    digests = [_add(root, number, age=number) for number in range(9)]
    eviction.prune(str(root), max_bytes=5 * SIZE)
    eviction.remove(str(root), {f"{BLOB}/{digests[0][:2]}/{digests[0]}"})
    assert sum(_sizes(root)) == 4 * SIZE


@pytest.mark.parametrize("ahead", [DAY, 80 * 365 * DAY])
def test_a_file_with_a_date_in_the_future_is_evicted_first(root, ahead):
    """Otherwise a file stored under a wrong clock would never be evicted."""
    digests = [_add(root, 1, age=3 * DAY), _add(root, 2, age=-ahead), _add(root, 3)]
    eviction.prune(str(root), older_than=4 * DAY)
    assert all(_left(root, digests))
    eviction.prune(str(root), max_bytes=2 * SIZE)
    assert _left(root, digests) == [True, False, True]


def test_calls_do_not_wait_for_a_call_that_evicts(root):
    digest = _add(root, 1)
    with locks.hold(Directory(str(root)), "usage", 0.0):
        assert eviction.count_and_limit(str(root), {}, max_bytes=1) == ""
    assert _left(root, [digest]) == [True]


def test_evicting_from_an_unwritable_cache_fails_a_command_but_no_compile(root):
    _add(root, 1)
    with unprivileged.read_only(root) as copy:
        assert eviction.count_and_limit(copy, {"0": SIZE}, max_bytes=1) == "not_writable"
        with pytest.raises(StoreError, match="cannot"):
            eviction.clear(copy)
    assert eviction.count_and_limit(str(root / "missing"), {"0": SIZE}, max_bytes=1) == ""


@pytest.mark.parametrize("action", [eviction.usage, eviction.clear])
def test_a_missing_cache_directory_is_one_error_sentence(tmp_path, action):
    with pytest.raises(StoreError, match="there is no cache in"):
        action(str(tmp_path / "missing"))
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="is not a directory"):
        action(str(tmp_path / "file"))


WRITER = """
import sys
from nvccache.store import eviction; from nvccache.files import keys
from nvccache.store.store import RECORD, REPLAY, Store
root = sys.argv[1]
cache = Store(root)
for number in range(80):
    content, key = b"%d " % (number % 40) * 500, keys.digest_bytes(b"key %d" % (number % 40))
    digest = keys.digest_bytes(content)
    cache.add_blob(digest, content, compress=number % 2 == 0)
    cache.add_record(RECORD, key, digest.encode())
    cache.add_record(REPLAY, key, content)
    assert cache.read_blob(digest) in (content, None)
    assert cache.find_record(RECORD, key) in (digest.encode(), None)
    assert cache.find_record(REPLAY, key) in (content, None)
    eviction.count_and_limit(root, cache.added, max_bytes=50_000)
    cache.added = {}
assert not cache.fault_message, cache.fault_message
"""


def test_writers_of_the_same_entries_disturb_neither_each_other_nor_evicting(root):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(root)]) for _ in range(3)]
    while any(writer.poll() is None for writer in writers):
        if (root / "CACHEDIR.TAG").exists():
            eviction.prune(str(root), max_bytes=20_000)
    assert [writer.returncode for writer in writers] == [0] * 3
    assert list((root / "tmp").iterdir()) == []
    eviction.prune(str(root), max_bytes=20_000)
    assert eviction.usage(str(root)).bytes <= 20_000


def test_the_documented_cache_layout_names_the_current_buckets_and_the_log():
    assert set(DRAWN.findall(PAGE)) == set(BUCKETS)
    assert set(DRAWN.findall(store.__doc__ or "")) == set(BUCKETS)
    assert all(f"{event_line.FOLDER}/{log}" in PAGE for log in (event_line.LOG, event_line.OLD_LOG))


def test_only_names_that_nvccache_gives_match_files_it_may_remove():
    names = ("manifest-v5", "replay-v1", *BUCKETS, "reading", "-v1", "Src-v1", "v1", "blob-v1.bak")
    assert [name for name in names if re.fullmatch(eviction.BUCKET, name)] == [*names[:-5]]
    assert all(re.fullmatch(eviction.ENTRY, "0123456789abcdef" * count) for count in (2, keys.LENGTH // 16))
    for name in ("0" * 31, "0" * 33, "0" * 63, "0" * 65, "0" * 96, "A" * 64, "g" * 64):
        assert not re.fullmatch(eviction.ENTRY, name)
