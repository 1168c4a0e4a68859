from __future__ import annotations

import os
import time

import pytest

from nvccache.report import kept
from nvccache.store import store
from nvccache.store.directory import Directory
from nvccache.store.store import Store


@pytest.fixture
def filled(cache_dir):
    cache = Store(cache_dir)
    cache.add_blob("ab" * 32, b"x" * 1000, compress=False)
    cache.add_blob("cd" * 32, b"y" * 100_000, compress=True)
    cache.add_record(store.MEMO, "ef" * 32, b"memo")
    return cache_dir


def test_sizes_by_kind(filled):
    found = kept.of(filled)
    assert {title: size.files for title, size in found.kinds.items()} == {
        "outputs of stages": 1,
        "digests of tools, sources and headers": 1,
        kept.COMPRESSED: 1,
    }
    assert found.kinds["outputs of stages"].bytes >= 1000
    assert found.kinds[kept.COMPRESSED].bytes < 10_000
    assert found.total.files == 3
    assert found.total.bytes == sum(size.bytes for size in found.kinds.values())


def test_ages_go_by_the_last_use(filled):
    path = f"{filled}/{store.BLOB}/ab/{'ab' * 32}"
    for days, title in ((0.5, "a day"), (3, "a week"), (20, "30 days"), (400, kept.OLDER)):
        moment = time.time() - 86_400 * days
        os.utime(path, (moment, moment))
        found = kept.of(filled)
        assert {name: size.files for name, size in found.ages.items() if size.files} == {
            "an hour": 2,
            title: 1,
        }
        assert sum(size.bytes for size in found.ages.values()) == found.total.bytes


def test_what_earlier_versions_have_left_is_one_kind(filled):
    os.rename(f"{filled}/{store.MEMO}", f"{filled}/tool-v0")
    assert kept.of(filled).kinds[kept.FORMER].files == 1


def test_every_bucket_has_a_name():
    assert set(kept.KINDS) == set(store.BUCKETS)


def test_a_cache_without_entries(cache_dir):
    Directory(cache_dir).prepare()
    found = kept.of(cache_dir)
    assert (found.kinds, found.total) == ({}, kept.Size())
