"""`nvccache doctor --check-files`: finds what is damaged, changes nothing, and does not count as use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nvccache.cli import file_checks
from nvccache.cli.output import BAD, GOOD
from nvccache.config import load
from nvccache.explain import object_record
from nvccache.explain.object_record import ObjectRecord
from nvccache.files import keys
from nvccache.store import store
from nvccache.store.store import Store


@pytest.fixture
def filled(cache_dir):
    """The files of a cache with a blob as it is, a compressed one, and the record of an object."""
    cache = Store(cache_dir)
    for content in (b"x" * 5000, b"y" * 5000):
        cache.add_blob(keys.digest_bytes(content), content, compress=content[:1] == b"y")
    object_record.add(["/b/a.o"], ObjectRecord("it is the first", "miss"), cache)
    return [path for bucket in store.BUCKETS for path in Path(cache_dir, bucket).glob("*/*")]


def findings(root):
    return [
        (each.state, each.text, each.details) for each in file_checks.of_files(load({"NVCCACHE_DIR": root}))
    ]


def test_an_undamaged_cache_is_good_and_unused(cache_dir, filled):
    before = [path.stat().st_mtime_ns for path in filled]
    ((state, text, details),) = findings(cache_dir)
    assert (state, details) == (GOOD, ()) and text.startswith("3 files without damage, ")
    assert [path.stat().st_mtime_ns for path in filled] == before


def test_damaged_files_are_named_and_stay(cache_dir, filled):
    for path in filled:
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    ((state, text, details),) = findings(cache_dir)
    assert (state, text) == (BAD, "3 of 3 files damaged: they are made again when needed")
    assert sorted(details) == sorted(str(path.relative_to(cache_dir)) for path in filled)
    assert all(path.exists() for path in filled)


def test_a_file_where_it_is_not_looked_up_and_a_link_are_damaged(cache_dir, filled):
    path = next(path for path in filled if path.name == keys.digest_bytes(b"x" * 5000))
    os.link(path, path.parent / ("0" * 64))
    path.unlink()
    path.symlink_to("/etc/passwd")
    ((state, _, details),) = findings(cache_dir)
    assert state == BAD and len(details) == 2


def test_no_cache_is_no_fault(cache_dir):
    assert findings(cache_dir) == [(GOOD, "0 files without damage, 0 bytes", ())]
