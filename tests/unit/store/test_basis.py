"""What an answer rests on counts as used whenever the answer does."""

from __future__ import annotations

import os

import pytest

from nvccache.files import keys
from nvccache.store import basis, store
from nvccache.store.store import BLOB, MANIFEST, STAGE, Store

KEY, OTHER_KEY = keys.digest_bytes(b"one"), keys.digest_bytes(b"another")
TEXT = b"an intermediate" * 1000  # which is kept compressed
DIGEST = keys.digest_bytes(TEXT)


@pytest.fixture
def cache(tmp_path) -> Store:
    """A call that read a stage and an intermediate, and relies on another file unread; all of it is old."""
    cache = Store(str(tmp_path / "cache"))
    cache.add_record(STAGE, KEY, b"body")
    cache.add_record(MANIFEST, OTHER_KEY, b"body")
    cache.add_blob(DIGEST, TEXT, compress=True)
    call = Store(cache.root)
    assert call.find_record(STAGE, KEY)
    call.rely_on(DIGEST)
    basis.add(call, KEY)
    for path in (cache.path(STAGE, KEY), cache.path(MANIFEST, OTHER_KEY), blob_of(cache)):
        os.utime(path, (1, 1))
    return Store(cache.root)


def blob_of(cache: Store) -> str:
    return cache.path(BLOB, DIGEST) + store.COMPRESSED


def test_all_that_was_read_or_relied_on_is_marked_as_used(cache):
    basis.refresh(cache, KEY)
    assert os.stat(cache.path(STAGE, KEY)).st_mtime > 1
    assert os.stat(blob_of(cache)).st_mtime > 1
    assert os.stat(cache.path(MANIFEST, OTHER_KEY)).st_mtime == 1


def test_without_a_record_of_it_nothing_is_marked(cache):
    basis.refresh(cache, OTHER_KEY)
    assert os.stat(cache.path(STAGE, KEY)).st_mtime == 1


def test_a_cache_that_is_only_read_is_left_as_it_is(cache):
    basis.refresh(Store(cache.root, is_readonly=True), KEY)
    assert os.stat(blob_of(cache)).st_mtime == 1


@pytest.mark.parametrize("name", ["CACHEDIR.TAG", "tmp/file", "journal/calls-v3.log", f"stage-v6/00/{KEY}"])
def test_anything_else_is_not_marked(cache, name):
    """Somebody hostile may have written the record."""
    path = os.path.join(cache.root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a"):
        os.utime(path, (1, 1))
    basis.mark_used(cache, [name])
    assert os.stat(path).st_mtime == 1
    basis.mark_used(cache, ["", "/", "../..", "stage-v6", "stage-v6/ab", name, f"{STAGE}/{KEY[:2]}/{KEY}"])
    assert os.stat(path).st_mtime == 1
    assert os.stat(cache.path(STAGE, KEY)).st_mtime > 1
