"""The cache directory: what comes back is what was put in, or nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import unprivileged
from nvccache.files import keys
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


@pytest.mark.parametrize("bucket", RECORDS)
def test_a_stored_record_is_read_back_unchanged(cache, bucket):
    for body in (b"first", BODY, b""):
        cache.add_record(bucket, KEY, body)
        assert cache.find_record(bucket, KEY) == body
        assert cache.find_record(bucket, OTHER_KEY) is None


@pytest.mark.parametrize(
    "name", ["", "..", "../../../etc/passwd", "/etc/passwd", KEY + "x", KEY[1:], "a\0b", "." * 64]
)
def test_an_invalid_key_does_not_lead_out_of_its_bucket(root, cache, name):
    """Records name blobs and other records, and may come from a remote."""
    assert cache.path(BLOB, name) == str(root / BLOB / "00" / ("0" * keys.LENGTH))
    assert cache.read_blob(name) is None
    assert cache.find_record(RECORD, name) is None


def test_a_stored_memo_is_read_back_unchanged(cache):
    cache.add_memo(KEY, "line\nünï")
    assert cache.find_memo(KEY) == "line\nünï"
    assert cache.find_memo(OTHER_KEY) == ""


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("content", [b"", CONTENT])
def test_a_stored_blob_is_read_back_unchanged(cache, compress, content):
    digest = keys.digest_bytes(content)
    assert not cache.has_blob(digest)
    descriptors = os.listdir("/proc/self/fd")
    cache.add_blob(digest, content, compress)
    assert cache.has_blob(digest)
    assert cache.read_blob(digest) == content
    assert os.listdir("/proc/self/fd") == descriptors


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
@pytest.mark.parametrize("is_summed", [False, True])
def test_a_damaged_blob_is_absent_removed_and_replaced(root, cache, compress, damage, is_summed, monkeypatch):
    """A large one is checked by its sum, others by their digest."""
    monkeypatch.setattr(store, "SUMMED_FROM", 1 if is_summed else 1 << 21)
    cache.add_blob(DIGEST, CONTENT, compress)
    with monkeypatch.context() as patched:
        if is_summed:
            patched.setattr(keys, "digest_bytes", None)  # it is not needed
        assert cache.read_blob(DIGEST) == CONTENT
    path = _path(root, BLOB, DIGEST + (".zst" if compress else ""))
    stored = path.read_bytes()
    for damaged in [DAMAGES[damage](stored), DAMAGES[damage](stored[:-98]) + stored[-98:]][: 1 + is_summed]:
        path.write_bytes(damaged)
        if (compress, damage, is_summed) == (True, "lengthened", False):  # nothing that is read is damaged
            assert cache.read_blob(DIGEST) == CONTENT
            continue
        assert cache.read_blob(DIGEST) is None
        assert not path.exists()
    path.write_bytes(stored[:100])
    Store(str(root)).add_blob(DIGEST, CONTENT, compress)
    assert Store(str(root)).read_blob(DIGEST) == CONTENT


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("bucket", [RECORD, BLOB])
def test_a_cache_file_renamed_to_another_key_is_not_used(root, cache, bucket, compress, monkeypatch):
    monkeypatch.setattr(store, "SUMMED_FROM", 1)
    cache.add_blob(DIGEST, CONTENT, compress)
    cache.add_record(RECORD, DIGEST, BODY)
    suffix = ".zst" if compress and bucket == BLOB else ""
    moved = _path(root, bucket, OTHER_KEY + suffix)
    moved.parent.mkdir(exist_ok=True)
    _path(root, bucket, DIGEST + suffix).rename(moved)
    found = cache.read_blob(OTHER_KEY) if bucket == BLOB else cache.find_record(RECORD, OTHER_KEY)
    assert found is None


def test_a_readonly_store_finds_results_but_writes_and_removes_nothing(root, cache):
    readonly = Store(str(root), is_readonly=True)
    readonly.add_record(RECORD, KEY, BODY)
    readonly.add_blob(DIGEST, CONTENT, compress=True)
    assert (cache.find_record(RECORD, KEY), cache.read_blob(DIGEST), cache.find_memo(KEY)) == (None, None, "")
    assert not root.exists(), "nor does looking make it"
    cache.add_record(RECORD, KEY, BODY)
    cache.add_memo(OTHER_KEY, "x")
    _path(root, MEMO, OTHER_KEY).write_bytes(b"damaged")
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


@pytest.mark.parametrize(("size", "is_compressed"), [(4096, False), (4097, True)])
def test_content_that_fits_into_a_disk_block_is_not_compressed(tmp_path, size, is_compressed):
    cache = Store(str(tmp_path / "cache"))
    content = b"x" * size
    digest = keys.digest_bytes(content)
    cache.add_blob(digest, content, compress=True)
    assert os.path.exists(cache.path(store.BLOB, digest) + store.COMPRESSED) == is_compressed
    assert Store(cache.root).read_blob(digest) == content


@pytest.mark.parametrize("is_readonly", [False, True])
def test_files_read_or_relied_on_can_be_marked_as_used(cache, is_readonly):
    cache.add_record(RECORD, KEY, BODY)
    cache.add_record(RECORD, OTHER_KEY, BODY)
    cache.add_blob(DIGEST, CONTENT, compress=True)
    call = Store(cache.root)
    assert call.find_record(RECORD, KEY)
    call.rely_on(DIGEST)
    paths = [cache.path(RECORD, KEY), cache.path(BLOB, DIGEST) + store.COMPRESSED]
    others = [cache.path(RECORD, OTHER_KEY)]
    for path in (*paths, *others):
        os.utime(path, (1, 1))
    Store(cache.root, is_readonly).mark_used([*call.used, f"{RECORD}/00/{KEY}"])
    assert [os.stat(path).st_mtime > 1 for path in (*paths, *others)] == [not is_readonly] * 2 + [False]


# How files get there: at once and whole.


@pytest.mark.parametrize("blocked", ["", "tmp", RECORD])
def test_a_file_in_place_of_a_cache_folder_is_a_reported_fault_and_raises_nothing(root, cache, blocked):
    (root / blocked).parent.mkdir(parents=True, exist_ok=True)
    (root / blocked).write_text("in the way")
    cache.add_record(RECORD, KEY, b"body")
    assert cache.fault_message
    assert cache.find_record(RECORD, KEY) is None


def test_a_writer_that_fails_leaves_no_temporary_file(root, cache, monkeypatch):
    def fail(*paths, **folders):
        raise OSError(28, "No space left on device")

    cache.add_memo(OTHER_KEY, "x")
    monkeypatch.setattr(os, "rename", fail)
    cache.add_record(RECORD, KEY, b"body")
    assert "No space left" in cache.fault_message
    assert cache.fault == "disk_full"
    assert not list((root / "tmp").glob("*"))


LOADS = """
import sys
from nvccache.store.store import BLOB, Store
cache, content = Store(sys.argv[1]), bytes(10_000)
cache.add_blob("ab" * 32, content, compress=True)
print("typing" in sys.modules, "platform" in sys.modules)
import zstandard
with open(cache.path(BLOB, "ab" * 32) + ".zst", "rb") as stream:
    assert zstandard.decompress(stream.read()) == content
"""


def test_compressing_loads_zstandard_s_c_module_alone(root):
    """The package takes as long to load as compressing two megabytes."""
    argv = [sys.executable, "-c", LOADS, str(root)]
    assert subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout == "False False\n"
