"""Remote entries are looked up, checked, stored locally and used; local results are sent."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from answering import Answering
from nvccache import config, remote_url
from nvccache.files import keys, signatures
from nvccache.records import record, send_queued, tiered_store
from nvccache.records.record import Entry, LookupKey, Result
from nvccache.records.tiered_store import TieredStore
from nvccache.remote.backend import connect
from nvccache.store import store
from nvccache.store.directory import Directory
from nvccache.store.store import Store
from sample_entries import FRONT, LATER, add, add_state, encoded, read, stored_keys
from sample_entries import valid_entries as held

CONTENT = b"an object"
DIGEST = keys.digest_bytes(CONTENT)
KEY = keys.digest_bytes(b"a key")


class SharedTier:
    """A fake remote.tier.Tier for tiered_store.TieredStore; `asked` are the queried names."""

    def __init__(self) -> None:
        self.content: dict[tuple[str, str], bytes] = {}
        self.asked: list[tuple[str, str]] = []
        self.wanted: list[tuple[str, str]] = []
        self.broken = 0  # unusable answers

    def prefetch(self, names) -> None:
        self.wanted += [(bucket, key) for bucket, key, _ in names]

    def each(self, bucket: str, key: str, most: int):
        self.asked.append((bucket, key))
        found = self.content.get((bucket, key))
        return iter([found] if found is not None and len(found) <= most else [])

    def note_broken(self) -> None:
        self.broken += 1


@pytest.fixture
def tier() -> SharedTier:
    return SharedTier()


@pytest.fixture
def there(tmp_path) -> Store:
    """The cache of another machine."""
    return Store(str(tmp_path / "there"))


@pytest.fixture
def here(tmp_path, tier) -> TieredStore:
    """An empty cache, with remotes behind it."""
    return TieredStore(str(tmp_path / "here"), tier)


def send_all(cache: Store, tier: SharedTier) -> None:
    for bucket, key in sorted(cache.published):
        body = send_queued.body_of((bucket, key), cache)
        assert body is not None
        theirs = tier.content.get((bucket, key))
        is_merged = theirs is not None and bucket == store.RECORD
        tier.content[bucket, key] = record.merged(body, theirs) if is_merged else body


def valid_entries(cache: TieredStore, lookup_key: LookupKey = FRONT) -> list[Entry]:
    return held(cache, lookup_key, cache.remote_records)


def test_all_configured_remotes_are_queried_for_a_blob(there, tmp_path):
    one, two = f"file://{tmp_path}/one", f"file://{tmp_path}/two"
    (tmp_path / "two").mkdir()
    there.add_blob(DIGEST, CONTENT, compress=False)
    send_queued.send((store.BLOB, DIGEST), there, connect(remote_url.parse(two)[0], {}))
    environ = {"HOME": "/nonexistent", "NVCCACHE_DIR": str(tmp_path), "NVCCACHE_REMOTE": f"{one} {two},rw"}
    settings = config.load(environ)
    here = tiered_store.configured(Directory(settings.dir), settings, environ)
    assert here.read_blob(DIGEST) == CONTENT
    assert here.remote_use().asked == 1


def without_remotes(cache: Store) -> Store:
    return Store(cache.root)


def test_blobs_over_the_upload_size_limit_are_not_fetched(here, tier, monkeypatch):
    tier.content[store.BLOB, DIGEST] = b"r" + CONTENT
    monkeypatch.setattr(tiered_store, "LARGEST", len(CONTENT))
    assert here.read_blob(DIGEST) is None
    monkeypatch.setattr(tiered_store, "LARGEST", len(CONTENT) + 1)
    assert here.read_blob(DIGEST) == CONTENT


@pytest.mark.parametrize("compress", [False, True])
def test_a_remote_blob_is_fetched_once_and_stored_with_its_compression(there, here, tier, compress):
    content = CONTENT * 5000
    digest = keys.digest_bytes(content)
    there.add_blob(digest, content, compress=compress)
    send_all(there, tier)
    assert not without_remotes(here).has_blob(digest)
    for _ in range(2):
        assert here.has_blob(digest)
        assert here.read_blob(digest) == without_remotes(here).read_blob(digest) == content
    assert os.path.exists(here.path(store.BLOB, digest) + (store.COMPRESSED if compress else ""))
    assert not here.has_blob(KEY)
    assert tier.asked == [(store.BLOB, digest), (store.BLOB, KEY)]


@pytest.mark.parametrize("sent", [b"", b"r", b"r" + CONTENT + b".", b"x" + CONTENT, CONTENT])
def test_a_received_blob_with_another_digest_is_rejected(here, tier, sent):
    tier.content[store.BLOB, DIGEST] = sent
    assert here.read_blob(DIGEST) is None
    assert tier.broken == 1
    assert not without_remotes(here).has_blob(DIGEST)


def test_a_readonly_cache_uses_remote_objects_and_stores_none(there, tier, tmp_path):
    there.add_blob(DIGEST, CONTENT, compress=False)
    send_all(there, tier)
    here = TieredStore(str(tmp_path / "readonly"), tier, is_readonly=True)
    assert here.read_blob(DIGEST) == CONTENT
    assert not os.path.exists(tmp_path / "readonly")


def test_a_valid_result_is_found_on_the_remote(there, here, tier, tmp_path):
    key = add_state(there, tmp_path / "x.h", "int x;\n", Result(stdout=b"said"))
    send_all(there, tier)
    assert held(here) == []
    assert tier.asked == []
    (entry,) = valid_entries(here)
    assert (entry.key, entry.result.stdout, entry.is_received) == (key, b"said", True)
    (tmp_path / "x.h").write_text("int y;\n")
    assert valid_entries(here) == []


def test_file_signatures_in_received_records_are_ignored(there, here, tier, tmp_path):
    """By a forged signature a file would count as unchanged, whatever its content."""
    made = read(_written(tmp_path / "x.h", "int x;\n"))
    made.digests = [keys.digest_bytes(b"another content")]
    add(there, made, later=LATER)
    tier.content[store.RECORD, FRONT.key] = encoded(there)
    assert held(there)
    assert valid_entries(here) == []


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _files(inputs, path):
    for name in ("files", "digests", "signatures"):
        setattr(inputs, name, getattr(inputs, name) * 10_001)
    inputs.kinds *= 10_001


def _directories(inputs, path):
    inputs.directories = [path] * 10_001
    inputs.directory_signatures, inputs.names = [signatures.UNKNOWN] * 10_001, [[]] * 10_001


def _names(inputs, path):
    inputs.directories, inputs.directory_signatures = [path], [signatures.UNKNOWN]
    inputs.names = [["-" + "x" * 200] * (1 << 15)]


@pytest.mark.parametrize("multiply", [_files, _directories, _names])
def test_a_received_record_that_names_too_many_files_is_rejected(there, here, tier, tmp_path, multiply):
    """400,000 names take 700 kB on a remote, and would take a compile half a minute to look at."""
    inputs = read(_written(tmp_path / "x.h", "int x;\n"))
    multiply(inputs, str(tmp_path))
    add(there, inputs, later=LATER)
    tier.content[store.RECORD, FRONT.key] = encoded(there)
    assert held(there)
    assert valid_entries(here) == []
    assert tier.broken == 1


def test_a_valid_local_result_is_used_before_a_remote_one(there, here, tier, tmp_path):
    """For the same inputs, the remote is not queried."""
    path = tmp_path / "x.h"
    key = add_state(there, path, "int x;\n", Result(stdout=b"theirs"))
    other = add_state(there, path, "int y;\n", Result(stdout=b"theirs"))
    send_all(there, tier)
    add_state(here, path, "int x;\n", Result(stdout=b"ours"))
    assert [(entry.key, entry.result.stdout, entry.is_received) for entry in valid_entries(here)] == [
        (key, b"ours", False)
    ]
    path.write_text("int y;\n")
    assert [(entry.key, entry.is_received) for entry in valid_entries(here)] == [(other, True)]


def test_results_of_all_remotes_are_tried(there, here, tier, tmp_path):
    path, bodies = tmp_path / "x.h", []
    for name, text in (("one", "int x;\n"), ("two", "int y;\n")):
        cache = Store(str(tmp_path / name))
        key = add_state(cache, path, text)
        bodies.append(send_queued.body_of((store.RECORD, FRONT.key), cache))
    tier.each = lambda *_: iter([bodies[0], b"damaged", bodies[1], bodies[1]])
    assert [(entry.key, entry.is_received) for entry in valid_entries(here)] == [(key, True)]
    assert tier.broken == 1


def test_a_received_result_is_stored_with_signatures_of_local_files(there, here, tier, tmp_path):
    key = add_state(there, tmp_path / "x.h", "int x;\n")
    send_all(there, tier)
    long_ago = time.time() - 1000
    os.utime(tmp_path / "x.h", (long_ago, long_ago))
    (entry,) = valid_entries(here)
    now = Answering()
    now.since_ns += 10**12  # long after the files were made
    record.adopt(entry, here, now)
    named = record.find_by_name(f"{FRONT.key}/{key}", without_remotes(here))
    assert named.input_record.signatures == [signatures.signature_of(str(tmp_path / "x.h"))]
    assert [each.is_received for each in valid_entries(here)] == [False]


def test_received_objects_are_not_uploaded_again(there, here, tier, tmp_path):
    add_state(there, tmp_path / "x.h", "int x;\n")
    there.add_blob(DIGEST, CONTENT, compress=False)
    send_all(there, tier)
    (entry,) = valid_entries(here)
    record.adopt(entry, here, Answering())
    here.read_blob(DIGEST)
    assert not here.published


def test_received_results_do_not_replace_local_ones(there, here, tier, tmp_path):
    """A record may claim any keys for its entries, but only counts under its own front key."""
    key = add_state(here, tmp_path / "x.h", "int x;\n", Result(stdout=b"ours"))
    other = LookupKey(keys.digest_bytes(b"other front"))
    hostile = Store(str(tmp_path / "hostile"))
    add_state(hostile, tmp_path / "x.h", "int x;\n", Result(stdout=b"hostile"))
    for lookup_key in (FRONT, other):
        tier.content[store.RECORD, lookup_key.key] = record.without_hints(encoded(hostile))
        for entry in valid_entries(here, lookup_key):
            if entry.is_received:
                record.adopt(entry, here, Answering())
    assert stored_keys(without_remotes(here), other) == [key]
    assert record.find_by_name(f"{FRONT.key}/{key}", without_remotes(here)).result.stdout == b"ours"


def test_records_and_missing_blobs_are_prefetched_from_the_remote_in_one_go(here, tier):
    here.add_blob(DIGEST, CONTENT, compress=False)
    here.prefetch_records([FRONT.key, KEY])
    here.read_blobs([DIGEST, KEY])
    assert tier.wanted == [(store.RECORD, FRONT.key), (store.RECORD, KEY), (store.BLOB, KEY)]


def test_remote_queries_of_a_call_are_reported_if_there_were_any(here, tier):
    for asked, faults, is_reported in ((0, (), False), (0, ("tls",), True), (2, (), True)):
        tier.asked, tier.found, tier.bytes_in, tier.waited, tier.faults = asked, 1, 2048, 0.5, faults
        use = here.remote_use()
        texts = [str(asked), "1", "2048", "0.500000", "".join(faults)]
        assert (use.texts() if use else None) == (texts if is_reported else None)
