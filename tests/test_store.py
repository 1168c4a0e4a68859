"""The cache directory: what comes back is what was put in, or nothing; and products as nvcc writes them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import unprivileged
from nvccache import eviction, keys, store
from nvccache.store import BLOB, MANIFEST, STAGE, TOOL, Entry, Store

KEY = keys.digest_bytes(b"a key")
OTHER_KEY = keys.digest_bytes(b"another key")
CONTENT = b"\x7fELF" + bytes(range(256)) * 40
DIGEST = keys.digest_bytes(CONTENT)
ENTRY = Entry({"object": DIGEST, "module_id": KEY}, b"out\xff", b"warning: \xe2\x82\xac\n", 1.25)
DAMAGES = {
    "emptied": lambda content: b"",
    "cut": lambda content: content[:-1],
    "cut to its first line": lambda content: content.partition(b"\n")[0],
    "lengthened": lambda content: content + b"x",
    "one bit flipped": lambda content: content[:-5] + bytes([content[-5] ^ 1]) + content[-4:],
    "zeros": lambda content: bytes(len(content)),
    "text": lambda content: b"hello\nworld\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def cache(root) -> Store:
    return Store(str(root))


def _path(root: Path, bucket: str, name: str) -> Path:
    return root / bucket / name[:2] / name


def _files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_an_entry_comes_back_as_it_was_put_in(cache):
    cache.add_entry(KEY, ENTRY)
    assert cache.find_entry(KEY) == ENTRY
    assert cache.find_entry(OTHER_KEY) is None


def test_a_redirect_comes_back_as_one(cache):
    cache.add_entry(KEY, Entry(is_redirect=True))
    assert cache.find_entry(KEY) == Entry(is_redirect=True)


def test_a_later_entry_takes_the_place_of_an_earlier_one(cache):
    cache.add_entry(KEY, Entry(stderr=b"first"))
    cache.add_entry(KEY, ENTRY)
    assert cache.find_entry(KEY) == ENTRY


def test_a_manifest_comes_back_as_it_was_put_in(cache):
    readings = [{"key": KEY, "files": {"/a\udcff.h": DIGEST}, "absent": ["/b"]}]
    cache.add_manifest(KEY, readings)
    assert cache.find_manifest(KEY) == readings
    assert cache.find_manifest(OTHER_KEY) == []


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
    assert Path(cache.raw_blob_path(DIGEST)).read_bytes() == CONTENT


def test_an_intermediate_is_kept_compressed(root, cache):
    cache.add_blob(DIGEST, CONTENT, compress=True)
    (name,) = [name for name in _files(root) if name.startswith(BLOB)]
    assert (root / name).stat().st_size < len(CONTENT)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("bucket", [STAGE, MANIFEST, TOOL])
def test_a_damaged_record_is_absent_and_removed(root, cache, bucket, damage):
    add, find = {
        STAGE: (lambda: cache.add_entry(KEY, ENTRY), cache.find_entry),
        MANIFEST: (
            lambda: cache.add_manifest(KEY, [{"key": KEY, "files": {}, "absent": []}]),
            cache.find_manifest,
        ),
        TOOL: (lambda: cache.add_memo(KEY, "some digest"), cache.find_memo),
    }[bucket]
    add()
    path = _path(root, bucket, KEY)
    path.write_bytes(damage(path.read_bytes()))
    assert not find(KEY)
    assert not path.exists()
    assert "damaged" in cache.trouble


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


def test_a_record_under_another_key_is_absent(root, cache):
    cache.add_entry(KEY, ENTRY)
    moved = _path(root, STAGE, OTHER_KEY)
    moved.parent.mkdir(exist_ok=True)
    _path(root, STAGE, KEY).rename(moved)
    assert cache.find_entry(OTHER_KEY) is None


def test_a_directory_in_the_place_of_a_file_is_absent(root, cache):
    for bucket in (STAGE, BLOB):
        _path(root, bucket, KEY).mkdir(parents=True)
    assert cache.find_entry(KEY) is None
    assert cache.read_blob(KEY) is None


def test_what_is_used_counts_as_used_now(root, cache):
    cache.add_entry(KEY, ENTRY)
    cache.add_blob(DIGEST, CONTENT, compress=False)
    for path in (_path(root, STAGE, KEY), _path(root, BLOB, DIGEST)):
        os.utime(path, (1, 1))
    cache.find_entry(KEY)
    cache.read_blob(DIGEST)
    for path in (_path(root, STAGE, KEY), _path(root, BLOB, DIGEST)):
        assert path.stat().st_mtime > 1


def test_the_directory_says_that_it_is_a_cache(root, cache):
    cache.add_memo(KEY, "x")
    assert (root / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806bc55\n")


def test_looking_makes_no_directory(root, cache):
    assert (cache.find_entry(KEY), cache.read_blob(DIGEST), cache.find_memo(KEY)) == (None, None, "")
    assert not root.exists()


def test_a_readonly_store_writes_nothing(root):
    cache = Store(str(root), is_readonly=True)
    cache.add_entry(KEY, ENTRY)
    cache.add_blob(DIGEST, CONTENT, compress=True)
    assert not root.exists()


def test_a_readonly_store_reads_and_removes_nothing(root, cache):
    cache.add_entry(KEY, ENTRY)
    cache.add_memo(OTHER_KEY, "x")
    _path(root, TOOL, OTHER_KEY).write_bytes(b"damaged")
    readonly = Store(str(root), is_readonly=True)
    assert readonly.find_entry(KEY) == ENTRY
    assert readonly.find_memo(OTHER_KEY) == ""
    assert _path(root, TOOL, OTHER_KEY).exists()


def test_a_directory_that_cannot_be_written_is_read_without_an_error(root, cache):
    cache.add_entry(KEY, ENTRY)
    Store(str(root)).add_blob(DIGEST, CONTENT, compress=True)
    with unprivileged.read_only(root) as copy:
        there = Store(copy)
        assert there.find_entry(KEY) == ENTRY
        assert there.read_blob(DIGEST) == CONTENT
        there.add_memo(OTHER_KEY, "x")
        assert there.trouble
        assert there.find_memo(OTHER_KEY) == ""


@pytest.mark.parametrize("blocked", ["", "tmp", "locks", STAGE])
def test_a_file_in_the_place_of_a_directory_is_trouble_and_no_error(root, cache, blocked):
    (root / blocked).parent.mkdir(parents=True, exist_ok=True)
    (root / blocked).write_text("in the way")
    cache.add_entry(KEY, ENTRY)
    assert cache.trouble
    assert cache.find_entry(KEY) is None


def test_what_is_stored_obeys_the_umask(root, cache):
    previous = os.umask(0o027)
    try:
        cache.add_entry(KEY, ENTRY)
    finally:
        os.umask(previous)
    assert stat.S_IMODE(_path(root, STAGE, KEY).stat().st_mode) == 0o640


def test_no_temporary_file_is_left(root, cache):
    cache.add_entry(KEY, ENTRY)
    cache.add_blob(DIGEST, CONTENT, compress=True)
    assert not _files(root / "tmp")


def test_a_writer_that_fails_leaves_no_temporary_file(root, cache, monkeypatch):
    def fail(*paths):
        raise OSError(28, "No space left on device")

    cache.add_memo(OTHER_KEY, "x")
    monkeypatch.setattr(os, "rename", fail)
    cache.add_entry(KEY, ENTRY)
    assert "No space left" in cache.trouble
    assert not _files(root / "tmp")


def test_a_lock_that_is_held_too_long_is_trouble_and_no_error(root, cache, monkeypatch):
    monkeypatch.setattr(store, "_LOCK_SECONDS", 0.05)
    with store.shard_lock(str(root), KEY[0]):
        cache.add_entry(KEY, ENTRY)
    assert "holds the lock" in cache.trouble
    assert cache.find_entry(KEY) is None


def test_buckets_of_other_versions_are_left_alone(root, cache):
    other = root / "stage-v999" / "ab" / "file"
    other.parent.mkdir(parents=True)
    other.write_text("of a newer release")
    cache.add_entry(KEY, ENTRY)
    eviction.clear(str(root))
    assert cache.find_entry(KEY) is None
    assert other.read_text() == "of a newer release"


def test_what_was_added_is_counted_once(root, cache):
    cache.add_blob(DIGEST, CONTENT, compress=False)
    cache.add_blob(DIGEST, CONTENT, compress=False)
    assert cache.added_bytes == len(CONTENT)


WRITER = """
import sys
from nvccache import keys
from nvccache.store import Entry, Store
cache = Store(sys.argv[1])
for number in range(60):
    content = b"%d " % (number % 20) * 500
    digest = keys.digest_bytes(content)
    cache.add_blob(digest, content, number % 2 == 0)
    cache.add_entry(keys.digest_bytes(b"key %d" % (number % 20)), Entry({"object": digest}))
    found = cache.read_blob(digest)
    assert found == content, number
assert not cache.trouble, cache.trouble
"""


def test_processes_that_publish_at_the_same_time_do_not_disturb_each_other(root):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(root)]) for _ in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    cache = Store(str(root))
    for number in range(20):
        entry = cache.find_entry(keys.digest_bytes(b"key %d" % number))
        assert entry and cache.read_blob(entry.outputs["object"]) == b"%d " % number * 500
    assert not _files(root / "tmp")


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    return tmp_path / "a.o"


def _restore(destination: Path, unlink_first: bool = False, raw_blob: str = "") -> None:
    store.restore(CONTENT, raw_blob, str(destination), unlink_first)


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o077])
def test_a_new_product_has_the_mode_that_the_umask_gives(destination, umask):
    previous = os.umask(umask)
    try:
        _restore(destination)
    finally:
        os.umask(previous)
    assert stat.S_IMODE(destination.stat().st_mode) == 0o666 & ~umask
    assert destination.read_bytes() == CONTENT


def test_an_existing_file_is_written_into_and_keeps_its_mode(destination, tmp_path):
    destination.write_bytes(b"longer than what comes " * 1000)
    destination.chmod(0o600)
    os.link(destination, tmp_path / "other name")
    _restore(destination)
    assert (tmp_path / "other name").read_bytes() == CONTENT
    assert stat.S_IMODE(destination.stat().st_mode) == 0o600


def test_an_existing_object_is_replaced_as_the_assembler_does(destination, tmp_path):
    destination.write_bytes(b"old")
    os.link(destination, tmp_path / "other name")
    _restore(destination, unlink_first=True)
    assert destination.read_bytes() == CONTENT
    assert (tmp_path / "other name").read_bytes() == b"old"


def test_a_symbolic_link_is_written_through(destination, tmp_path):
    destination.symlink_to("target")
    _restore(destination)
    assert (tmp_path / "target").read_bytes() == CONTENT
    assert destination.is_symlink()


def test_a_symbolic_link_in_the_place_of_an_object_is_replaced(destination, tmp_path):
    (tmp_path / "target").write_bytes(b"old")
    destination.symlink_to("target")
    _restore(destination, unlink_first=True)
    assert (tmp_path / "target").read_bytes() == b"old"
    assert not destination.is_symlink() and destination.read_bytes() == CONTENT


def test_an_object_with_nothing_in_it_is_written_into_as_the_assembler_does(destination, tmp_path):
    destination.write_bytes(b"")
    os.link(destination, tmp_path / "other name")
    _restore(destination, unlink_first=True)
    assert (tmp_path / "other name").read_bytes() == CONTENT


@pytest.mark.parametrize("unlink_first", [False, True])
def test_a_product_that_cannot_be_written_raises(tmp_path, unlink_first):
    (tmp_path / "directory").mkdir()
    for path in (tmp_path / "directory", tmp_path / "missing" / "a.o"):
        with pytest.raises(OSError):
            _restore(path, unlink_first)


def test_what_is_done_to_a_product_does_not_reach_the_store(cache, destination):
    cache.add_blob(DIGEST, CONTENT, compress=False)
    _restore(destination, raw_blob=cache.raw_blob_path(DIGEST))
    assert destination.stat().st_ino != Path(cache.raw_blob_path(DIGEST)).stat().st_ino
    destination.write_bytes(b"overwritten")
    assert cache.read_blob(DIGEST) == CONTENT


@pytest.mark.parametrize("state", ["missing", "of another size", "a directory"])
def test_a_blob_that_cannot_be_cloned_is_copied(tmp_path, destination, state):
    blob = tmp_path / "blob"
    if state == "of another size":
        blob.write_bytes(b"x")
    elif state == "a directory":
        blob.mkdir()
    _restore(destination, raw_blob=str(blob))
    assert destination.read_bytes() == CONTENT


def test_where_the_file_system_can_clone_the_blocks_are_shared(tmp_path, destination, monkeypatch):
    import fcntl

    requests = []

    def clone(target: int, request: int, source: int) -> None:
        requests.append(request)
        os.write(target, os.pread(source, len(CONTENT), 0))

    blob = tmp_path / "blob"
    blob.write_bytes(CONTENT)
    monkeypatch.setattr(fcntl, "ioctl", clone)
    store.restore(CONTENT, str(blob), str(destination), unlink_first=False)
    assert requests == [0x40049409]  # FICLONE
    assert destination.read_bytes() == CONTENT


def test_a_damaged_blob_is_not_cloned_in_the_place_of_what_was_just_made(tmp_path, destination, monkeypatch):
    blob = tmp_path / "blob"
    blob.write_bytes(b"?" * len(CONTENT))
    monkeypatch.setattr("fcntl.ioctl", lambda target, request, source: os.write(target, b"cloned"))
    store.restore(CONTENT, str(blob), str(destination), unlink_first=False)
    assert destination.read_bytes() == CONTENT
