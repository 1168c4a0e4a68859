"""Eviction: what goes first, what stays, and that neither builds nor other versions are disturbed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import unprivileged
from nvccache.files import keys
from nvccache.store import entries, event_line, eviction, inflight
from nvccache.store.directory import Directory, StoreError
from nvccache.store.entries import Entry
from nvccache.store.store import BLOB, REPLAY, Store

SIZE = 1000
DAY = 24 * 3600.0


def _add(root: Path, number: int, age: float = 0.0) -> str:
    """Add one raw blob of SIZE bytes, last used `age` seconds ago; its digest."""
    content = b"%d " % number + bytes(SIZE)
    content = content[:SIZE]
    digest = keys.digest_bytes(content)
    Store(str(root)).add_blob(digest, content, compress=False)
    used = time.time() - age
    os.utime(root / BLOB / digest[:2] / digest, (used, used))
    return digest


def _limit(root: Path, count: int) -> int:
    """The size limit that leaves room for so many blobs beside what is in no bucket."""
    found = [path for path in root.rglob("*") if path.is_file() and BLOB not in path.parts]
    return count * SIZE + sum(path.stat().st_size for path in found) + 20  # and the running total


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
    assert used.bytes == sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def test_what_was_used_least_recently_goes_first(root):
    digests = [_add(root, number, age=100 * number) for number in (3, 1, 4, 2)]
    pruned = eviction.prune(str(root), max_bytes=_limit(root, 2))
    assert _left(root, digests) == [False, True, False, True]
    assert (pruned.files, pruned.bytes) == (2, 2 * SIZE)


def test_nothing_goes_below_the_limit(root):
    digests = [_add(root, number) for number in range(3)]
    assert eviction.prune(str(root), max_bytes=_limit(root, 3)).files == 0
    assert _left(root, digests) == [True] * 3


def test_a_hit_keeps_what_it_used(root):
    old, new = _add(root, 1, age=1000), _add(root, 2, age=10)
    Store(str(root)).read_blob(old)
    eviction.prune(str(root), max_bytes=_limit(root, 1))
    assert _left(root, [old, new]) == [True, False]


def test_what_is_older_than_asked_for_goes(root):
    digests = [_add(root, 1, age=3 * DAY), _add(root, 2, age=DAY)]
    eviction.prune(str(root), older_than=2 * DAY)
    assert _left(root, digests) == [False, True]


def test_age_and_size_both_count(root):
    digests = [_add(root, 1, age=3 * DAY), _add(root, 2, age=20), _add(root, 3, age=10)]
    eviction.prune(str(root), max_bytes=_limit(root, 1), older_than=2 * DAY)
    assert _left(root, digests) == [False, False, True]


def test_clearing_removes_everything_but_what_is_no_entry(root):
    _add(root, 1)
    entries.add(Store(str(root)), keys.digest_bytes(b"k"), Entry())
    (root / "journal").mkdir()
    (root / "journal" / "calls").write_text("counted")
    eviction.clear(str(root))
    assert eviction.usage(str(root)).entries == 0
    assert (root / "journal" / "calls").exists()
    assert (root / "CACHEDIR.TAG").exists()


def test_directories_and_files_of_others_are_left_alone(root):
    _add(root, 1)
    (root / BLOB / "ab" / "folder").mkdir(parents=True)
    (root / BLOB / "stray").write_text("not in a shard")
    (root / BLOB / "ab" / "notes.txt").write_text("not a name of ours")
    (root / "photos" / "ab").mkdir(parents=True)
    (root / "photos" / "ab" / ("0" * 32)).write_text("x")
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp" / "thesis.tex").write_text("x")
    before = {path for path in root.rglob("*") if path.is_file()}
    for path in before:
        os.utime(path, (1, 1))
    eviction.clear(str(root))
    assert (root / BLOB / "ab" / "folder").is_dir()
    gone = {path.name for path in before if not path.exists()}
    assert gone == {path.name for path in before if path.parent.parent.name == BLOB} - {"notes.txt"}


def test_buckets_of_other_versions_count_and_go_as_this_one_s_do(root):
    _add(root, 1, age=10)
    for bucket in ("stage-v1", "replay-v999"):
        old = root / bucket / "ab" / ("ab" + "0" * 30)
        old.parent.mkdir(parents=True)
        old.write_bytes(bytes(SIZE))
        os.utime(old, (time.time() - 100,) * 2)
    assert eviction.usage(str(root)).entries == 3
    eviction.prune(str(root), max_bytes=_limit(root, 1) - 2 * SIZE)
    assert not old.exists()
    assert eviction.usage(str(root)).entries == 1
    eviction.clear(str(root))
    assert eviction.usage(str(root)).entries == 0


@pytest.mark.parametrize(
    ("name", "is_swept"),
    [
        ("journal/calls-v1.log", True),
        ("journal/totals-v1.json.4711", True),
        ("journal/recent-v2.log.4711", True),
        ("journal/notes.txt", False),
        ("usage-v1", True),
        ("README", False),
        ("locks/running/" + "0" * 64, True),
        ("locks/running/mine", False),
        ("locks/0.lock", False),
    ],
)
def test_what_killed_calls_and_older_versions_leave_is_swept(root, name, is_swept):
    _add(root, 1)
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    os.utime(path, (1, 1))
    eviction.prune(str(root))
    assert path.exists() is not is_swept


def test_what_is_in_use_is_not_swept(root):
    claim = inflight.Claims(str(root)).take("0" * 64)
    os.utime(root / "locks" / "running" / ("0" * 64), (1, 1))
    event_line.append(str(root), event_line.Event("miss"))
    os.utime(root / "journal" / event_line.LOG, (1, 1))
    eviction.prune(str(root))
    assert claim and (root / "locks" / "running" / ("0" * 64)).exists()
    assert (root / "journal" / event_line.LOG).exists()


def test_a_cache_is_swept_once_a_day_though_it_is_within_its_limit(root):
    _add(root, 1)
    stale = root / "tmp" / ("0" * 32)
    for swept, is_there in ((time.time(), True), (time.time() - 2 * DAY, False)):
        stale.write_text("x")
        os.utime(stale, (1, 1))
        (root / "journal").mkdir(exist_ok=True)
        (root / "journal" / "usage-v3").write_text(f"{SIZE} {int(swept)}")
        eviction.count_and_limit(str(root), 0, max_bytes=0)
        assert stale.exists() is is_there


def test_temporary_files_of_killed_processes_go_after_a_day(root):
    _add(root, 1)
    fresh, stale = root / "tmp" / ("0" * 32), root / "tmp" / ("1" * 32)
    for path in (fresh, stale):
        path.write_text("x")
    os.utime(stale, (time.time() - 2 * DAY,) * 2)
    eviction.prune(str(root))
    assert fresh.exists() and not stale.exists()


def test_what_a_build_uses_after_it_was_chosen_stays(root, monkeypatch):
    digest = _add(root, 1, age=1000)
    found = list(eviction._files(Directory(str(root))))
    monkeypatch.setattr(eviction, "_files", lambda root: found)
    Store(str(root)).read_blob(digest)
    assert eviction.clear(str(root)).files == 0
    assert _left(root, [digest]) == [True]


def test_the_running_total_evicts_when_it_passes_the_limit(root):
    digests = [_add(root, number, age=100 - number) for number in range(10)]
    eviction.count_and_limit(str(root), SIZE, max_bytes=20 * SIZE)
    assert all(_left(root, digests))
    eviction.count_and_limit(str(root), SIZE, max_bytes=0)  # no limit
    assert all(_left(root, digests))
    eviction.count_and_limit(str(root), SIZE, max_bytes=_limit(root, 10))
    assert _left(root, digests) == [False] + [True] * 9  # down to nine tenths, so that not every call evicts


@pytest.mark.parametrize("content", [None, b"", b"many", b"12 bytes", b"12", b"1 2 3"])
def test_a_total_that_is_missing_or_no_number_is_counted_anew(root, content):
    digests = [_add(root, number) for number in range(4)]
    if content is not None:
        (root / "journal").mkdir()
        (root / "journal" / "usage-v3").write_bytes(content)
    eviction.count_and_limit(str(root), SIZE, max_bytes=_limit(root, 2))
    assert sum(_left(root, digests)) == 1


def test_the_total_is_right_after_pruning(root):
    for number in range(4):
        _add(root, number)
    eviction.prune(str(root), max_bytes=_limit(root, 2))
    total = int((root / "journal" / "usage-v3").read_bytes().split()[0])
    # What is written last is not in it: the total itself.
    assert total == eviction.usage(str(root)).bytes - (root / "journal" / "usage-v3").stat().st_size


def test_a_total_that_cannot_be_kept_disturbs_no_build(root):
    _add(root, 1)
    with unprivileged.read_only(root) as copy:
        eviction.count_and_limit(copy, SIZE, max_bytes=1)
    eviction.count_and_limit(str(root / "missing"), SIZE, max_bytes=1)


@pytest.mark.parametrize("action", [eviction.usage, eviction.clear])
def test_a_directory_that_is_none_is_told_in_one_sentence(tmp_path, action):
    with pytest.raises(StoreError, match="there is no cache in"):
        action(str(tmp_path / "missing"))
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="is not a directory"):
        action(str(tmp_path / "file"))


def test_a_directory_that_cannot_be_changed_is_told_in_one_sentence(root):
    _add(root, 1)
    with unprivileged.read_only(root) as copy, pytest.raises(StoreError, match="cannot"):
        eviction.clear(copy)


def test_a_directory_that_cannot_be_read_is_told_in_one_sentence(root):
    _add(root, 1)
    with unprivileged.unreadable(root) as copy, pytest.raises(StoreError):
        eviction.usage(copy)


WRITER = """
import sys
from nvccache.store import eviction; from nvccache.files import keys
from nvccache.store.store import Store
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
        if (root / "CACHEDIR.TAG").exists():
            eviction.prune(str(root), max_bytes=20_000)
    assert [writer.returncode for writer in writers] == [0] * 3
    eviction.prune(str(root), max_bytes=20_000)
    assert eviction.usage(str(root)).bytes <= 20_000
