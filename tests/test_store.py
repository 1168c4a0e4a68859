"""The cache directory: what comes back is what was put in, or nothing; and products as nvcc writes them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import unprivileged
from nvccache import keys, store
from nvccache.store import BLOB, BUCKETS, STAGE, TOOL, Store

KEY = keys.digest_bytes(b"a key")
OTHER_KEY = keys.digest_bytes(b"another key")
CONTENT = b"\x7fELF" + bytes(range(256)) * 40
DIGEST = keys.digest_bytes(CONTENT)
LARGE = CONTENT * 120  # worth to be cloned
BODY = b"a body\nof two lines\xff"
RECORDS = [bucket for bucket in BUCKETS if bucket != BLOB]
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


@pytest.mark.parametrize("bucket", RECORDS)
def test_a_record_comes_back_as_it_was_put_in(cache, bucket):
    for body in (b"first", BODY, b""):
        cache.add_record(bucket, KEY, body)
        assert cache.find_record(bucket, KEY) == body
        assert cache.find_record(bucket, OTHER_KEY) is None


@pytest.mark.parametrize(
    "name", ["", "..", "../../../etc/passwd", "/etc/passwd", KEY + "x", "a\0b", "." * 32]
)
def test_a_name_that_is_no_key_leads_nowhere(root, cache, name):
    """Records name blobs and other records, and may have been tampered with."""
    assert Path(cache.path(BLOB, name)).parent.parent == root / BLOB
    assert cache.read_blob(name) is None
    assert cache.find_record(STAGE, name) is None


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
    cache.add_record(STAGE, KEY, BODY)
    moved = _path(root, STAGE, OTHER_KEY)
    moved.parent.mkdir(exist_ok=True)
    _path(root, STAGE, KEY).rename(moved)
    assert cache.find_record(STAGE, OTHER_KEY) is None


def test_a_directory_in_the_place_of_a_file_is_absent(root, cache):
    for bucket in (STAGE, BLOB):
        _path(root, bucket, KEY).mkdir(parents=True)
    assert cache.find_record(STAGE, KEY) is None
    assert cache.read_blob(KEY) is None


def test_what_is_used_counts_as_used_now(root, cache):
    cache.add_record(STAGE, KEY, BODY)
    cache.add_blob(DIGEST, CONTENT, compress=False)
    for path in (_path(root, STAGE, KEY), _path(root, BLOB, DIGEST)):
        os.utime(path, (1, 1))
    cache.find_record(STAGE, KEY)
    cache.read_blob(DIGEST)
    for path in (_path(root, STAGE, KEY), _path(root, BLOB, DIGEST)):
        assert path.stat().st_mtime > 1


def test_looking_makes_no_directory(root, cache):
    assert (cache.find_record(STAGE, KEY), cache.read_blob(DIGEST), cache.find_memo(KEY)) == (None, None, "")
    assert not root.exists()


def test_a_readonly_store_writes_nothing(root):
    cache = Store(str(root), is_readonly=True)
    cache.add_record(STAGE, KEY, BODY)
    cache.add_blob(DIGEST, CONTENT, compress=True)
    assert not root.exists()


def test_a_readonly_store_reads_and_removes_nothing(root, cache):
    cache.add_record(STAGE, KEY, BODY)
    cache.add_memo(OTHER_KEY, "x")
    _path(root, TOOL, OTHER_KEY).write_bytes(b"damaged")
    readonly = Store(str(root), is_readonly=True)
    assert readonly.find_record(STAGE, KEY) == BODY
    assert readonly.find_memo(OTHER_KEY) == ""
    assert _path(root, TOOL, OTHER_KEY).exists()


def test_a_directory_that_cannot_be_written_is_read_without_an_error(root, cache):
    cache.add_record(STAGE, KEY, BODY)
    Store(str(root)).add_blob(DIGEST, CONTENT, compress=True)
    with unprivileged.read_only(root) as copy:
        there = Store(copy)
        assert there.find_record(STAGE, KEY) == BODY
        assert there.read_blob(DIGEST) == CONTENT
        there.add_memo(OTHER_KEY, "x")
        assert there.trouble
        assert Store(copy).find_memo(OTHER_KEY) == ""


def test_what_was_added_is_counted_once(root, cache):
    cache.add_blob(DIGEST, CONTENT, compress=False)
    cache.add_blob(DIGEST, CONTENT, compress=False)
    assert cache.added_bytes == len(CONTENT)


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
    _restore(destination, raw_blob=cache.path(BLOB, DIGEST))
    assert destination.stat().st_ino != Path(cache.path(BLOB, DIGEST)).stat().st_ino
    destination.write_bytes(b"overwritten")
    assert cache.read_blob(DIGEST) == CONTENT


@pytest.mark.parametrize("state", ["missing", "of another size", "a directory"])
def test_a_blob_that_cannot_be_cloned_is_copied(tmp_path, destination, state):
    blob = tmp_path / "blob"
    if state == "of another size":
        blob.write_bytes(b"x")
    elif state == "a directory":
        blob.mkdir()
    store.restore(LARGE, str(blob), str(destination), unlink_first=False)
    assert destination.read_bytes() == LARGE


@pytest.mark.parametrize(("content", "is_cloned"), [(LARGE, True), (CONTENT, False)])
def test_where_the_file_system_can_clone_the_blocks_of_a_large_product_are_shared(
    tmp_path, destination, monkeypatch, content, is_cloned
):
    import fcntl

    requests = []

    def clone(target: int, request: int, source: int) -> None:
        requests.append(request)
        os.write(target, os.pread(source, len(content), 0))

    blob = tmp_path / "blob"
    blob.write_bytes(content)
    monkeypatch.setattr(fcntl, "ioctl", clone)
    store.restore(content, str(blob), str(destination), unlink_first=False)
    assert requests == [0x40049409] * is_cloned  # FICLONE
    assert destination.read_bytes() == content


def test_a_damaged_blob_is_not_cloned_in_the_place_of_what_was_just_made(tmp_path, destination, monkeypatch):
    blob = tmp_path / "blob"
    blob.write_bytes(b"?" * len(LARGE))
    monkeypatch.setattr("fcntl.ioctl", lambda target, request, source: os.write(target, b"cloned"))
    store.restore(LARGE, str(blob), str(destination), unlink_first=False)
    assert destination.read_bytes() == LARGE
