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
from nvccache.records.input_records import InputRecord
from nvccache.records.record import Entry, LookupKey, Result
from nvccache.records.tiered_store import TieredStore
from nvccache.remote import envelope
from nvccache.remote.service import connect
from nvccache.remote.tier import Tier
from nvccache.store import directory, store
from nvccache.store.store import Store
from sample_pairs import FRONT, LATER, NOWHERE, add, add_state, encoded, kept, keys_in, read
from sample_pairs import valid_entries as held
from shared_tier import SharedTier

CONTENT = b"an object"
DIGEST = keys.digest_bytes(CONTENT)
KEY = keys.digest_bytes(b"a key")


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


def test_what_the_settings_name_is_asked(there, tmp_path):
    one, two = f"file://{tmp_path}/one", f"file://{tmp_path}/two"
    (tmp_path / "two").mkdir()
    there.add_blob(DIGEST, CONTENT, compress=False)
    send_queued.send((store.BLOB, DIGEST), there, connect(remote_url.parse(two)[0], {}))
    environ = {"HOME": "/nonexistent", "NVCCACHE_DIR": str(tmp_path), "NVCCACHE_REMOTE": f"{one} {two},rw"}
    settings = config.load(environ)
    here = tiered_store.of(directory.of(settings), settings, environ)
    assert here.read_blob(DIGEST) == CONTENT
    assert here.remote_use().asked == 1


def without_remotes(cache: Store) -> Store:
    return Store(cache.root)


@pytest.mark.usefixtures("own_pool")
def test_no_blob_is_taken_that_is_larger_than_what_is_sent(there, tmp_path, monkeypatch):
    place = f"file://{tmp_path}/far"
    (tmp_path / "far").mkdir()
    there.add_blob(DIGEST, CONTENT, compress=False)
    send_queued.send((store.BLOB, DIGEST), there, connect(remote_url.parse(place)[0], {}))
    for most, found in ((len(CONTENT), None), (send_queued.LARGEST, CONTENT)):
        monkeypatch.setattr(tiered_store, "LARGEST", most)
        tier = Tier(remote_url.parse(place), {}, 2.0)
        here = TieredStore(str(tmp_path / "here"), tier)
        assert list(here.read_blobs([DIGEST])) == [found]


def test_a_blob_is_had_from_elsewhere_and_kept(there, here, tier):
    there.add_blob(DIGEST, CONTENT, compress=False)
    send_all(there, tier)
    assert not without_remotes(here).has_blob(DIGEST)
    assert here.read_blob(DIGEST) == CONTENT
    assert without_remotes(here).read_blob(DIGEST) == CONTENT
    assert os.path.exists(here.path(store.BLOB, DIGEST))  # raw, as the other cache kept it


def test_a_blob_is_fetched_once_and_never_one_that_is_gone(there, here, tier):
    there.add_blob(DIGEST, CONTENT, compress=False)
    send_all(there, tier)
    for _ in range(2):
        assert here.has_blob(DIGEST)
        assert without_remotes(here).has_blob(DIGEST)
    assert not here.has_blob(KEY)
    assert tier.asked == [(store.BLOB, DIGEST), (store.BLOB, KEY)]


def test_an_intermediate_is_kept_compressed(there, here, tier):
    content = CONTENT * 5000
    digest = keys.digest_bytes(content)
    there.add_blob(digest, content, compress=True)
    send_all(there, tier)
    assert here.read_blob(digest) == content
    assert os.path.exists(here.path(store.BLOB, digest) + store.COMPRESSED)


@pytest.mark.parametrize("sent", [b"", b"r", b"r" + CONTENT + b".", b"x" + CONTENT, CONTENT])
def test_a_blob_of_another_digest_is_absent(here, tier, sent):
    tier.content[store.BLOB, DIGEST] = sent
    assert here.read_blob(DIGEST) is None
    assert tier.broken == 1
    assert not without_remotes(here).has_blob(DIGEST)


def test_a_readonly_cache_uses_what_it_receives_and_keeps_nothing(there, tier, tmp_path):
    there.add_blob(DIGEST, CONTENT, compress=False)
    send_all(there, tier)
    here = TieredStore(str(tmp_path / "readonly"), tier, is_readonly=True)
    assert here.read_blob(DIGEST) == CONTENT
    assert not os.path.exists(tmp_path / "readonly")


def test_a_pair_that_holds_is_found_elsewhere(there, here, tier, tmp_path):
    key = add_state(there, tmp_path / "x.h", "int x;\n", Result(stdout=b"said"))
    send_all(there, tier)
    assert held(here) == []
    assert tier.asked == []
    (entry,) = valid_entries(here)
    assert (entry.key, entry.result.stdout, entry.is_received) == (key, b"said", True)
    (tmp_path / "x.h").write_text("int y;\n")
    assert valid_entries(here) == []


def test_what_is_received_is_not_believed_about_this_machine(there, here, tier, tmp_path):
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


def _forged(there, tier, read: InputRecord) -> None:
    """Put a record of these inputs on the remote, which a cache here would not send."""
    add(there, read, later=LATER)
    tier.content[store.RECORD, FRONT.key] = encoded(there)


@pytest.mark.parametrize("of_directories", [False, True])
def test_record_that_names_too_many_files_is_rejected(there, here, tier, tmp_path, of_directories):
    """400,000 names take 700 kB on a remote, and would take a compile half a minute to look at."""
    inputs = read(*[_written(tmp_path / "x.h", "int x;\n")] * (1 if of_directories else 10_001))
    if of_directories:
        inputs.directories = [str(tmp_path)] * 10_001
        inputs.directory_signatures, inputs.names = [signatures.UNKNOWN] * 10_001, [[]] * 10_001
    _forged(there, tier, inputs)
    assert held(there)
    assert valid_entries(here) == []
    assert tier.broken == 1


def test_record_with_too_many_names_is_rejected(there, here, tier, tmp_path):
    inputs = read(absent=tmp_path / ("x" * 200))
    inputs.names = [inputs.names[0] * (1 << 15)]
    _forged(there, tier, inputs)
    assert held(there)
    assert valid_entries(here) == []
    assert tier.broken == 1


def test_what_is_here_comes_before_what_is_elsewhere(there, here, tier, tmp_path):
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


def test_what_each_of_several_remotes_has_is_looked_at(there, here, tier, tmp_path):
    path, bodies = tmp_path / "x.h", []
    for name, text in (("one", "int x;\n"), ("two", "int y;\n")):
        cache = Store(str(tmp_path / name))
        key = add_state(cache, path, text)
        bodies.append(send_queued.body_of((store.RECORD, FRONT.key), cache))
    tier.each = lambda *_: iter([bodies[0], b"damaged", bodies[1], bodies[1]])
    assert [(entry.key, entry.is_received) for entry in valid_entries(here)] == [(key, True)]
    assert tier.broken == 1


def test_one_that_is_received_is_kept_with_the_signatures_of_this_machine(there, here, tier, tmp_path):
    key = add_state(there, tmp_path / "x.h", "int x;\n")
    send_all(there, tier)
    long_ago = time.time() - 1000
    os.utime(tmp_path / "x.h", (long_ago, long_ago))
    (entry,) = valid_entries(here)
    now = Answering()
    now.since_ns += 10**12  # long after the files were made
    record.adopt(entry, here, now)
    named = record.find_by_name(f"{FRONT.key}/{key}", NOWHERE, without_remotes(here))
    assert named.input_record.signatures == [signatures.of(str(tmp_path / "x.h"))]
    assert [each.is_received for each in valid_entries(here)] == [False]


def test_one_that_is_received_lies_before_what_is_here(there, here, tier, tmp_path):
    path = tmp_path / "x.h"
    theirs = add_state(there, path, "int x;\n")
    send_all(there, tier)
    ours = add_state(here, path, "int y;\n")
    path.write_text("int x;\n")
    (entry,) = valid_entries(here)
    record.adopt(entry, here, Answering())
    assert kept(without_remotes(here)) == [theirs, ours]


def test_what_is_received_is_not_sent_again(there, here, tier, tmp_path):
    add_state(there, tmp_path / "x.h", "int x;\n")
    there.add_blob(DIGEST, CONTENT, compress=False)
    send_all(there, tier)
    (entry,) = valid_entries(here)
    record.adopt(entry, here, Answering())
    here.read_blob(DIGEST)
    assert not here.published


def test_what_is_received_replaces_no_pair_of_ones_own(there, here, tier, tmp_path):
    """A record may claim any keys for its entries, but only counts under its own front key."""
    key = add_state(here, tmp_path / "x.h", "int x;\n", Result(stdout=b"ours"))
    other = LookupKey(keys.digest_bytes(b"other front"), NOWHERE)
    hostile = Store(str(tmp_path / "hostile"))
    add_state(hostile, tmp_path / "x.h", "int x;\n", Result(stdout=b"hostile"))
    for lookup_key in (FRONT, other):
        tier.content[store.RECORD, lookup_key.key] = record.without_hints(encoded(hostile))
        for entry in valid_entries(here, lookup_key):
            if entry.is_received:
                record.adopt(entry, here, Answering())
    assert kept(without_remotes(here), other) == [key]
    assert record.find_by_name(f"{FRONT.key}/{key}", NOWHERE, without_remotes(here)).result.stdout == b"ours"


def test_what_is_made_is_sent(there, tmp_path):
    add_state(there, tmp_path / "x.h", "int x;\n")
    there.add_blob(DIGEST, CONTENT, compress=False)
    assert set(there.published) == {(store.BLOB, DIGEST), (store.RECORD, FRONT.key)}


def test_what_is_gone_is_not_sent(there):
    assert send_queued.body_of((store.BLOB, DIGEST), there) is None
    assert send_queued.body_of((store.RECORD, FRONT.key), there) is None


def test_what_tells_of_this_machine_is_not_sent(there, tmp_path):
    result = Result()
    result.basis = [there.name(store.BLOB, DIGEST)]
    add_state(there, tmp_path / "x.h", "int x;\n", result)
    assert send_queued.body_of((store.RECORD, FRONT.key), there) == record.without_hints(encoded(there))
    there.add_record(store.RECORD, FRONT.key, b"no record")
    assert send_queued.body_of((store.RECORD, FRONT.key), there) is None


def test_records_of_two_machines_are_merged(there, tier, tmp_path):
    first = add_state(there, tmp_path / "x.h", "int x;\n")
    send_all(there, tier)
    other = Store(str(tmp_path / "other"))
    second = add_state(other, tmp_path / "x.h", "int y;\n")
    send_all(other, tier)
    assert keys_in(tier.content[store.RECORD, FRONT.key]) == [second, first]


def test_a_damaged_record_is_refused(here, tier):
    tier.content[store.RECORD, FRONT.key] = b"damaged"
    assert valid_entries(here) == []
    assert (tier.asked, tier.broken) == ([(store.RECORD, FRONT.key)], 1)


def test_only_buckets_that_others_have_a_use_for_are_sent(there):
    for bucket in (store.MEMO, store.REPLAY, store.OBJECT):
        there.add_record(bucket, KEY, b"text")
    assert not there.published


def test_all_that_is_going_to_be_asked_for_is_wanted_at_once(here, tier):
    here.add_blob(DIGEST, CONTENT, compress=False)
    here.prefetch_records([FRONT.key, KEY])
    here.read_blobs([DIGEST, KEY])
    assert tier.wanted == [(store.RECORD, FRONT.key), (store.RECORD, KEY), (store.BLOB, KEY)]


@pytest.mark.usefixtures("own_pool")
def test_a_calls_remote_requests_are_reported(tmp_path):
    (tmp_path / "far").mkdir()
    remotes = remote_url.parse(f"file://{tmp_path}/far")
    service = connect(remotes[0], {})
    name = envelope.name_of(store.BLOB, "ab" * 32)
    service.put(name, envelope.seal(store.BLOB, "ab" * 32, b"rbody"))
    tier = Tier(remotes, {}, 5.0)
    here = TieredStore(str(tmp_path / "here"), tier)
    assert here.remote_use() is None
    here.has_blob("cd" * 32)
    assert list(tier.each(store.BLOB, "ab" * 32, 100)) == [b"rbody"]
    use = here.remote_use()
    assert (use.asked, use.found, use.faults) == (2, 1, ())
    assert use.bytes == len(service.get(name, 1 << 20))
    assert use.seconds == tier.waited >= 0
    service.put(name, b"junk")
    tier = Tier(remotes, {}, 5.0)
    assert list(tier.each(store.BLOB, "ab" * 32, 100)) == []
    assert TieredStore(str(tmp_path / "here"), tier).remote_use().faults == ("broken",)
