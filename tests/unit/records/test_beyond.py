"""What other caches have is looked for, checked, kept here, and used; what one has made is sent."""

from __future__ import annotations

import os
import time

import pytest

from nvccache import remote_url
from nvccache.files import keys, signatures
from nvccache.records import beyond, bundle, input_records, manifest, transfer
from nvccache.records.beyond import Beyond
from nvccache.records.differences import Present
from nvccache.records.manifest import Found
from nvccache.records.transfer import Transfer
from nvccache.remote import envelope
from nvccache.remote.service import connect
from nvccache.remote.tier import Tier
from nvccache.store import entries, store
from nvccache.store.entries import Entry
from nvccache.store.store import Store
from shared_tier import SharedTier
from test_bundle import FRONT, NOWHERE, add

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
def here(tmp_path, tier) -> Store:
    """An empty cache, with remotes beyond it."""
    cache = Store(str(tmp_path / "here"))
    cache.beyond = Beyond(tier)
    return cache


def send_all(cache: Store, tier: SharedTier) -> None:
    for bucket, key in beyond.items_of(cache.published):
        body = beyond.to_send(bucket, key, cache)
        tier.content[bucket, key] = beyond.merged(bucket, body, tier.content.get((bucket, key)))


def holding(cache: Store, asks_beyond: bool = True) -> list[Found]:
    return list(manifest.holding(FRONT, cache, NOWHERE, Present({}), lambda *_: "an answer", asks_beyond))


def without_remotes(cache: Store) -> Store:
    return Store(cache.root)


def test_no_blob_is_taken_that_is_larger_than_what_is_sent(there, tmp_path, monkeypatch):
    place = f"file://{tmp_path}/far"
    here = Store(str(tmp_path / "here"))
    there.add_blob(DIGEST, CONTENT, compress=False)
    Transfer(there).send((store.BLOB, DIGEST), connect(remote_url.parse(place)[0], {}))
    for most, found in ((len(CONTENT), None), (transfer.LARGEST, CONTENT)):
        monkeypatch.setattr(beyond, "LARGEST", most)
        here.beyond = Beyond(Tier(remote_url.parse(place), {}, 2.0, directory=str(tmp_path)))
        here.beyond.want_blobs([DIGEST])
        assert here.read_blob(DIGEST) == found


def test_a_blob_is_had_from_elsewhere_and_kept(there, here, tier):
    there.add_blob(DIGEST, CONTENT, compress=False)
    send_all(there, tier)
    assert here.has_blob(DIGEST)
    assert not here.has_here(DIGEST)
    assert here.read_blob(DIGEST) == CONTENT
    assert without_remotes(here).read_blob(DIGEST) == CONTENT
    assert os.path.exists(here.path(store.BLOB, DIGEST))  # raw, as the other cache kept it


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
    assert tier.refused == [(store.BLOB, DIGEST)]
    assert not here.has_here(DIGEST)


def test_a_readonly_cache_uses_what_it_receives_and_keeps_nothing(there, tier, tmp_path):
    there.add_blob(DIGEST, CONTENT, compress=False)
    send_all(there, tier)
    here = Store(str(tmp_path / "readonly"), is_readonly=True)
    here.beyond = Beyond(tier)
    assert here.read_blob(DIGEST) == CONTENT
    assert not os.path.exists(tmp_path / "readonly")


def test_an_input_record_that_holds_is_found_elsewhere(there, here, tier, tmp_path):
    key = add(there, tmp_path / "x.h", "int x;\n")
    send_all(there, tier)
    assert holding(here, asks_beyond=False) == []
    assert tier.asked == []
    (found,) = holding(here)
    assert (found.key, found.attached, found.is_received) == (key, b"attached", True)
    (tmp_path / "x.h").write_text("int y;\n")
    assert holding(here) == []


def test_one_that_is_received_is_kept_with_the_signatures_of_this_machine(there, here, tier, tmp_path):
    key = add(there, tmp_path / "x.h", "int x;\n")
    send_all(there, tier)
    long_ago = time.time() - 1000
    os.utime(tmp_path / "x.h", (long_ago, long_ago))
    (found,) = holding(here)
    now = Present({})
    now.since_ns += 10**12  # long after the files were made
    manifest.adopt(FRONT, found, here, NOWHERE, now)
    kept = manifest.kept(key, without_remotes(here), NOWHERE)
    assert kept.input_record.signatures == [signatures.of(str(tmp_path / "x.h"))]
    assert [each.is_received for each in holding(here)] == [False]


def test_what_is_received_is_not_sent_again(there, here, tier, tmp_path):
    key = add(there, tmp_path / "x.h", "int x;\n", b"entry")
    there.add_blob(DIGEST, CONTENT, compress=False)
    send_all(there, tier)
    (found,) = holding(here)
    manifest.adopt(FRONT, found, here, NOWHERE, Present({}))
    here.read_blob(DIGEST)
    entries.find(here, key, asks_beyond=True)
    assert beyond.items_of(here.published) == []


def test_what_is_received_replaces_no_record_of_ones_own(there, here, tier, tmp_path):
    """A bundle may name the records of another command by their keys."""
    key = add(here, tmp_path / "x.h", "int x;\n")
    hostile = manifest.kept(key, without_remotes(here), NOWHERE)
    record = input_records.encode(hostile.input_record, b"hostile", NOWHERE)
    other_front = keys.digest_bytes(b"other front")
    tier.content[bundle.BUCKET, other_front] = bundle.Bundle({key: (record, b"")}).encode()
    now = Present({})
    for found in manifest.holding(other_front, here, NOWHERE, now, lambda *_: "an answer", True):
        manifest.adopt(other_front, found, here, NOWHERE, now)
    assert manifest.kept(key, without_remotes(here), NOWHERE).attached == b"attached"


def test_an_entry_comes_with_its_input_record(there, here, tier, tmp_path):
    key = add(there, tmp_path / "x.h", "int x;\n")
    entries.add(there, key, Entry({"ptx": DIGEST}, seconds=3.0))
    send_all(there, tier)
    assert entries.find(here, key) is None
    holding(here)
    before = list(tier.asked)
    assert entries.find(here, key, asks_beyond=True).outputs == {"ptx": DIGEST}
    assert tier.asked == before
    assert entries.find(without_remotes(here), key).seconds == 3.0


def test_an_entry_behind_a_redirect_comes_by_itself(there, here, tier):
    entries.add(there, KEY, Entry(redirect="placed"))
    send_all(there, tier)
    assert entries.find(here, KEY) is None
    assert entries.find(here, KEY, asks_beyond=True).redirect == "placed"


def test_blobs_are_sent_before_what_promises_them(there, tmp_path):
    add(there, tmp_path / "x.h", "int x;\n", b"entry")
    entries.add(there, KEY, Entry(redirect="placed"))
    there.add_blob(DIGEST, CONTENT, compress=False)
    assert beyond.items_of(there.published) == [
        (store.BLOB, DIGEST),
        (store.STAGE, KEY),
        (bundle.BUCKET, FRONT),
    ]


def test_what_is_gone_is_not_sent(there):
    assert beyond.to_send(store.BLOB, DIGEST, there) is None
    assert beyond.to_send(bundle.BUCKET, FRONT, there) is None
    assert beyond.to_send(store.STAGE, KEY, there) is None


def test_bundles_of_two_machines_are_merged(there, tier, tmp_path):
    first = add(there, tmp_path / "x.h", "int x;\n")
    send_all(there, tier)
    other = Store(str(tmp_path / "other"))
    second = add(other, tmp_path / "x.h", "int y;\n")
    send_all(other, tier)
    merged = bundle.decode(tier.content[bundle.BUCKET, FRONT])
    assert list(merged.records) == [second, first]
    assert beyond.merged(bundle.BUCKET, b"ours", b"damaged") == b"ours"
    assert beyond.merged(store.BLOB, b"ours", b"theirs") == b"ours"


def test_a_damaged_bundle_is_refused(here, tier):
    tier.content[bundle.BUCKET, FRONT] = b"damaged"
    assert holding(here) == []
    assert tier.asked == tier.refused == [(bundle.BUCKET, FRONT)]


def test_only_buckets_that_others_have_a_use_for_are_sent(there):
    for bucket in (store.TOOL, store.REPLAY, store.OBJECT, store.DIGEST, store.BASIS):
        there.add_record(bucket, KEY, b"text")
    assert beyond.items_of(there.published) == []


def test_all_that_is_going_to_be_asked_for_is_wanted_at_once(here, tier):
    here.beyond.want([FRONT, ""], [KEY])
    here.beyond.want_blobs([DIGEST])
    assert tier.wanted == [(bundle.BUCKET, FRONT), (store.STAGE, KEY), (store.BLOB, DIGEST)]


def test_what_a_call_asked_of_remotes_is_told(tmp_path):
    remotes = remote_url.parse(f"file://{tmp_path}/far")
    service = connect(remotes[0], {})
    name = envelope.name_of(store.BLOB, "ab" * 32)
    service.put(name, envelope.seal(store.BLOB, "ab" * 32, b"rbody"))
    asked = Beyond(Tier(remotes, {}, 5.0, directory=str(tmp_path)))
    assert asked.use() is None
    asked.has_blob("cd" * 32)
    asked.tier.get(store.BLOB, "ab" * 32, 100)
    use = asked.use()
    assert (use.asked, use.found, use.faults) == (2, 1, ())
    assert use.bytes == len(service.get(name, 1 << 20))
    assert use.seconds == asked.tier.waited >= 0
    service.put(name, b"junk")
    broken = Beyond(Tier(remotes, {}, 5.0, directory=str(tmp_path)))
    broken.tier.get(store.BLOB, "ab" * 32, 100)
    assert broken.use().faults == ("broken",)
