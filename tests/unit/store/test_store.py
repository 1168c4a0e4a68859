"""The cache directory: what comes back is what was put in, or nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import unprivileged
from nvccache.files import keys, untrusted
from nvccache.store import store
from nvccache.store.store import BLOB, BUCKETS, MEMO, RECORD, REPLAY, Store

KEY = keys.digest_bytes(b"a key")
OTHER_KEY = keys.digest_bytes(b"another key")
CONTENT = b"\x7fELF" + bytes(range(256)) * 40
DIGEST = keys.digest_bytes(CONTENT)
BODY = b"a body\nof two lines\xff"
RECORDS = [bucket for bucket in BUCKETS if bucket not in (BLOB, REPLAY)]  # these have sums of their own
DAMAGES = {
    "emptied": lambda content: b"",
    "cut": lambda content: content[:-1],
    "cut to its first line": lambda content: content.partition(b"\n")[0],
    "lengthened": lambda content: content + b"x",
    "one bit flipped": lambda content: content[:-5] + bytes([content[-5] ^ 1]) + content[-4:],
    "zeros": lambda content: bytes(len(content)),
    "text": lambda content: b"hello\nworld\n",
}


def _path(root: Path, bucket: str, name: str) -> Path:
    return root / bucket / name[:2] / name


def _files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("bucket", RECORDS)
def test_a_record_comes_back_as_it_was_put_in(cache, bucket):
    for body in (b"first", BODY, b""):
        cache.add_record(bucket, KEY, body)
        assert cache.find_record(bucket, KEY) == body
        assert cache.find_record(bucket, OTHER_KEY) is None


@pytest.mark.parametrize(
    "name", ["", "..", "../../../etc/passwd", "/etc/passwd", KEY + "x", "a\0b", "." * 64]
)
def test_a_name_that_is_no_key_leads_nowhere(root, cache, name):
    """Records name blobs and other records, and may have been tampered with."""
    assert Path(cache.path(BLOB, name)).parent.parent == root / BLOB
    assert cache.read_blob(name) is None
    assert cache.find_record(RECORD, name) is None


def test_a_memo_comes_back_as_it_was_put_in(cache):
    cache.add_memo(KEY, "line\nünï")
    assert cache.find_memo(KEY) == "line\nünï"
    assert cache.find_memo(OTHER_KEY) == ""


@pytest.mark.parametrize("compress", [False, True])
def test_a_blob_comes_back_as_it_was_put_in(cache, compress):
    assert not cache.has_blob(DIGEST)
    cache.add_blob(DIGEST, CONTENT, compress)
    assert cache.has_blob(DIGEST)
    assert cache.read_blob(DIGEST) == CONTENT


@pytest.mark.parametrize("compress", [False, True])
def test_an_empty_blob_comes_back(cache, compress):
    digest = keys.digest_bytes(b"")
    cache.add_blob(digest, b"", compress)
    assert cache.read_blob(digest) == b""


def test_a_product_is_kept_as_it_is_so_that_its_blocks_can_be_shared(cache):
    cache.add_blob(DIGEST, CONTENT, compress=False)
    assert Path(cache.path(BLOB, DIGEST)).read_bytes() == CONTENT


def test_an_intermediate_is_kept_compressed(root, cache):
    cache.add_blob(DIGEST, CONTENT, compress=True)
    (name,) = [name for name in _files(root) if name.startswith(BLOB)]
    assert (root / name).stat().st_size < len(CONTENT)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("bucket", RECORDS)
def test_a_damaged_record_is_absent_and_removed(root, cache, bucket, damage):
    cache.add_record(bucket, KEY, BODY)
    path = _path(root, bucket, KEY)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.find_record(bucket, KEY) is None
    assert not path.exists()
    assert "damaged" in cache.fault_message


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("compress", [False, True])
def test_a_damaged_blob_is_absent_and_removed(root, cache, compress, damage):
    cache.add_blob(DIGEST, CONTENT, compress)
    path = _path(root, BLOB, DIGEST + (".zst" if compress else ""))
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    if compress and damage == "lengthened":  # nothing that is read is damaged
        assert cache.read_blob(DIGEST) == CONTENT
    else:
        assert cache.read_blob(DIGEST) is None
        assert not path.exists()


@pytest.fixture
def summed(monkeypatch) -> None:
    """Make every blob end with its checksum, as large ones do."""
    monkeypatch.setattr(store, "SUMMED_FROM", 1)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("compress", [False, True])
def test_a_large_blob_is_checked_by_its_sum(root, cache, summed, compress, damage, monkeypatch):
    cache.add_blob(DIGEST, CONTENT, compress)
    with monkeypatch.context() as patched:
        patched.setattr(keys, "digest_bytes", None)  # it is not asked for
        assert cache.read_blob(DIGEST) == CONTENT
    path = _path(root, BLOB, DIGEST + (".zst" if compress else ""))
    stored = path.read_bytes()
    for damaged in (DAMAGES[damage](stored), DAMAGES[damage](stored[:-98]) + stored[-98:]):
        path.write_bytes(damaged)
        assert cache.read_blob(DIGEST) is None
        assert not path.exists()


@pytest.mark.parametrize("compress", [False, True])
def test_a_large_blob_under_another_name_is_damaged(root, cache, summed, compress):
    cache.add_blob(DIGEST, CONTENT, compress)
    suffix = ".zst" if compress else ""
    moved = _path(root, BLOB, OTHER_KEY + suffix)
    moved.parent.mkdir(exist_ok=True)
    _path(root, BLOB, DIGEST + suffix).rename(moved)
    assert cache.read_blob(OTHER_KEY) is None


def test_what_says_nothing_of_itself_is_not_taken_into_memory(root, cache, monkeypatch):
    path = _path(root, BLOB, DIGEST)
    path.parent.mkdir(parents=True)
    Store(str(root)).add_blob(OTHER_KEY, b"", compress=False)  # makes the directory a cache
    path.touch()
    os.truncate(path, 1 << 30)
    monkeypatch.setattr(untrusted, "read_all", None)
    assert cache.read_blob(DIGEST) is None
    assert not path.exists()


def test_a_record_under_another_key_is_absent(root, cache):
    cache.add_record(RECORD, KEY, BODY)
    moved = _path(root, RECORD, OTHER_KEY)
    moved.parent.mkdir(exist_ok=True)
    _path(root, RECORD, KEY).rename(moved)
    assert cache.find_record(RECORD, OTHER_KEY) is None


def test_a_directory_in_the_place_of_a_file_is_absent(root, cache):
    for bucket in (RECORD, BLOB):
        _path(root, bucket, KEY).mkdir(parents=True)
    assert cache.find_record(RECORD, KEY) is None
    assert cache.read_blob(KEY) is None


def test_what_is_used_counts_as_used_now(root, cache):
    cache.add_record(RECORD, KEY, BODY)
    cache.add_blob(DIGEST, CONTENT, compress=False)
    for path in (_path(root, RECORD, KEY), _path(root, BLOB, DIGEST)):
        os.utime(path, (1, 1))
    cache.find_record(RECORD, KEY)
    cache.read_blob(DIGEST)
    for path in (_path(root, RECORD, KEY), _path(root, BLOB, DIGEST)):
        assert path.stat().st_mtime > 1


def test_looking_makes_no_directory(root, cache):
    assert (cache.find_record(RECORD, KEY), cache.read_blob(DIGEST), cache.find_memo(KEY)) == (None, None, "")
    assert not root.exists()


def test_a_readonly_store_writes_nothing(root):
    cache = Store(str(root), is_readonly=True)
    cache.add_record(RECORD, KEY, BODY)
    cache.add_blob(DIGEST, CONTENT, compress=True)
    assert not root.exists()


def test_a_readonly_store_reads_and_removes_nothing(root, cache):
    cache.add_record(RECORD, KEY, BODY)
    cache.add_memo(OTHER_KEY, "x")
    _path(root, MEMO, OTHER_KEY).write_bytes(b"damaged")
    readonly = Store(str(root), is_readonly=True)
    assert readonly.find_record(RECORD, KEY) == BODY
    assert readonly.find_memo(OTHER_KEY) == ""
    assert _path(root, MEMO, OTHER_KEY).exists()


def test_a_directory_that_cannot_be_written_is_read_without_an_error(root, cache):
    cache.add_record(RECORD, KEY, BODY)
    Store(str(root)).add_blob(DIGEST, CONTENT, compress=True)
    with unprivileged.read_only(root) as copy:
        there = Store(copy)
        assert there.find_record(RECORD, KEY) == BODY
        assert there.read_blob(DIGEST) == CONTENT
        there.add_memo(OTHER_KEY, "x")
        assert there.fault_message
        assert Store(copy).find_memo(OTHER_KEY) == ""


def test_what_was_added_is_counted_once(root, cache):
    cache.add_blob(DIGEST, CONTENT, compress=False)
    cache.add_blob(DIGEST, CONTENT, compress=False)
    assert cache.added == {DIGEST[:2]: len(CONTENT)}


@pytest.mark.parametrize("length", [0, 1, 2, keys.LENGTH - 1, keys.LENGTH + 1, 2 * keys.LENGTH])
def test_a_name_of_another_length_leads_nowhere(root, length):
    assert Store(str(root)).name(BLOB, "a" * length) == f"{BLOB}/00/" + "0" * keys.LENGTH


@pytest.mark.parametrize(("size", "is_compressed"), [(4096, False), (4097, True)])
def test_what_fits_into_a_block_is_not_compressed(tmp_path, size, is_compressed):
    cache = Store(str(tmp_path / "cache"))
    content = b"x" * size
    digest = keys.digest_bytes(content)
    cache.add_blob(digest, content, compress=True)
    assert os.path.exists(cache.path(store.BLOB, digest) + store.COMPRESSED) == is_compressed
    assert Store(cache.root).read_blob(digest) == content


@pytest.fixture
def old(cache) -> Store:
    """A call that read a record and an intermediate, and relies on an unread entry; all are old."""
    cache.add_record(RECORD, KEY, BODY)
    cache.add_record(RECORD, OTHER_KEY, BODY)
    cache.add_blob(DIGEST, CONTENT, compress=True)
    call = Store(cache.root)
    assert call.find_record(RECORD, KEY)
    call.rely_on(DIGEST)
    for path in _used(cache):
        os.utime(path, (1, 1))
    return call


def _used(cache: Store) -> list[str]:
    return [
        cache.path(RECORD, KEY),
        cache.path(BLOB, DIGEST) + store.COMPRESSED,
        cache.path(RECORD, OTHER_KEY),
    ]


def test_all_that_was_read_or_relied_on_can_be_marked_as_used(old):
    Store(old.root).mark_used(old.used)
    assert [os.stat(path).st_mtime > 1 for path in _used(old)] == [True, True, False]


def test_a_cache_that_is_only_read_is_not_marked(old):
    Store(old.root, is_readonly=True).mark_used(old.used)
    assert [os.stat(path).st_mtime for path in _used(old)] == [1, 1, 1]


@pytest.mark.parametrize("name", ["CACHEDIR.TAG", "tmp/file", "journal/calls-v3.log", f"record-v2/00/{KEY}"])
def test_anything_else_is_not_marked_as_used(old, name):
    """An attacker may have written the entries an answer rests on."""
    path = os.path.join(old.root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a"):
        os.utime(path, (1, 1))
    old.mark_used([name])
    assert os.stat(path).st_mtime == 1
    old.mark_used(["", "/", "../..", "record-v2", "record-v2/ab", name, f"{RECORD}/{KEY[:2]}/{KEY}"])
    assert os.stat(path).st_mtime == 1
    assert os.stat(old.path(RECORD, KEY)).st_mtime > 1
