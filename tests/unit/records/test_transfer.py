"""What of a cache may be elsewhere, how it gets there, and what is taken in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nvccache.files import keys
from nvccache.records import bundle, manifest
from nvccache.records.transfer import Transfer
from nvccache.remote import envelope
from nvccache.store import store
from nvccache.store.store import Store


class Remote:
    """What stands for a service.

    `meanwhile` is done once, between a get and the put that follows, and `afterwards` once after a put.
    """

    def __init__(self):
        self.content = {}
        self.puts = []
        self.meanwhile = None
        self.afterwards = None

    def get(self, name, most):
        return self.content.get(name)

    def has(self, name, size=None):
        return name in self.content and size in (None, len(self.content[name]))

    def put(self, name, content):
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile:
            meanwhile()
        self.puts.append(name)
        self.content[name] = content
        afterwards, self.afterwards = self.afterwards, None
        if afterwards:
            afterwards(name)


@pytest.fixture
def far():
    return Remote()


@pytest.fixture
def other(tmp_path):
    return Store(str(tmp_path / "other"))


def take_all(far, cache):
    return [Transfer(cache).take_in(content, name) for name, content in far.content.items()]


def send_all(cache, far):
    return sum(Transfer(cache).send(item, far) for item, _ in Transfer(cache).items())


def test_another_machine_answers_a_call_with_what_it_was_sent(toolkit, far, other):
    toolkit.compile()
    assert send_all(toolkit.store(), far) == sum(map(len, far.content.values()))
    assert all(take_all(far, other))
    assert toolkit.answer(NVCCACHE_DIR=other.root)
    assert not any(take_all(far, other))


def test_a_large_blob_is_sent_again_only_where_it_was_cut_off(toolkit, far):
    content = os.urandom(100_000)
    blob = store.BLOB, keys.digest_bytes(content)
    toolkit.store().add_blob(blob[1], content, compress=False)
    transfer = Transfer(toolkit.store())
    name = envelope.name_of(*blob)
    assert transfer.send(blob, far) == len(far.content[name])
    assert transfer.send(blob, far) == 0
    assert far.puts == [name]
    whole, far.content[name] = far.content[name], far.content[name][:50_000]
    assert transfer.send(blob, far) == len(whole)
    assert far.content[name] == whole


def test_bundles_come_last_and_nothing_else_is_shared(toolkit):
    toolkit.compile()
    alone = keys.digest_bytes(b"alone")
    toolkit.store().add_record(store.STAGE, alone, b"{}")
    items = [item for item, _ in Transfer(toolkit.store()).items()]
    buckets = [bucket for bucket, _ in items]
    assert set(buckets) == {store.BLOB, store.STAGE, bundle.BUCKET}
    first = buckets.index(bundle.BUCKET)
    assert set(buckets[first:]) == {bundle.BUCKET}
    entries = {path.name for path in (toolkit.folder / "cache" / store.STAGE).glob("*/*")}
    assert entries  # they lie in the bundles
    assert (store.STAGE, alone) in items
    assert not {key for bucket, key in items if bucket == store.STAGE} & entries - {alone}
    for bucket in (store.OBJECT, store.REPLAY, store.TOOL, store.DIGEST, store.BASIS, store.INPUT_RECORD):
        path = next((toolkit.folder / "cache" / bucket).glob("*/*"), None)
        assert Transfer(toolkit.store()).sealed((bucket, path.name if path else "0" * 64)) is None


def test_records_of_two_machines_come_together(toolkit, far, other):
    toolkit.compile()
    send_all(toolkit.store(), far)
    toolkit.write("a.cu", "int b;\n")
    toolkit.compile(NVCCACHE_DIR=other.root)
    send_all(other, far)
    both = Store(str(toolkit.folder / "both"))
    take_all(far, both)
    assert toolkit.answer(NVCCACHE_DIR=both.root)
    toolkit.write("a.cu", "int a;\n")
    assert toolkit.answer(NVCCACHE_DIR=both.root)


def test_what_another_writes_at_the_same_time_is_not_lost(toolkit, far, other):
    toolkit.compile()
    toolkit.write("a.cu", "int b;\n")
    toolkit.compile(NVCCACHE_DIR=other.root)
    cache = toolkit.store()
    common = [
        item
        for item, _ in Transfer(cache).items()
        if item[0] == bundle.BUCKET and item in dict(Transfer(other).items())
    ]
    assert common
    for item in common:
        far.meanwhile = lambda item=item: Transfer(other).send(item, far)
        Transfer(cache).send(item, far)
        name = envelope.name_of(*item)
        found = bundle.decode(envelope.unseal(far.content[name], *item, 1 << 26)).records
        # Whoever wrote last had read before: the other one reads back, and finds out when it sends again.
        assert found.keys() >= set(manifest.keys_of(item[1], cache))
        Transfer(other).send(item, far)
        found = bundle.decode(envelope.unseal(far.content[name], *item, 1 << 26)).records
        assert found.keys() == {*manifest.keys_of(item[1], cache), *manifest.keys_of(item[1], other)}


def test_what_another_writes_over_ours_is_merged_once_more(toolkit, far):
    toolkit.compile()
    cache = toolkit.store()
    item = next(item for item, _ in Transfer(cache).items() if item[0] == bundle.BUCKET)
    theirs = envelope.seal(*item, bundle.Bundle().encode())
    far.afterwards = lambda name: far.content.update({name: theirs})  # read before we wrote
    Transfer(cache).send(item, far)
    found = bundle.decode(envelope.unseal(far.content[envelope.name_of(*item)], *item, 1 << 26)).records
    assert found.keys() == set(manifest.keys_of(item[1], cache))


def test_a_bundle_that_is_there_is_not_written_again(toolkit, far):
    toolkit.compile()
    send_all(toolkit.store(), far)
    far.puts.clear()
    for item, _ in Transfer(toolkit.store()).items():
        if item[0] == bundle.BUCKET:
            assert Transfer(toolkit.store()).send(item, far) == 0
    assert far.puts == []


def test_a_bundle_that_is_no_good_is_replaced(toolkit, far):
    toolkit.compile()
    item = next(item for item, _ in Transfer(toolkit.store()).items() if item[0] == bundle.BUCKET)
    name = envelope.name_of(*item)
    for junk in (b"", b"junk", envelope.seal(*item, b"junk"), envelope.seal("blob-v1", "x", b"")):
        far.content[name] = junk
        assert Transfer(toolkit.store()).send(item, far)
        assert envelope.unseal(far.content[name], *item, 1 << 26)


def crafted():
    """What somebody hostile may have put there: name and content."""
    good, evil = b"r" + b"an object", b"r" + b"another one"
    digest = keys.digest_bytes(good[1:])
    name = envelope.name_of(store.BLOB, digest)
    yield "no envelope", name, b"junk"
    yield "cut short", name, envelope.seal(store.BLOB, digest, good)[:-3]
    yield "another content", name, envelope.seal(store.BLOB, digest, evil)
    yield "no mark", name, envelope.seal(store.BLOB, digest, good[1:])
    yield "another name", envelope.name_of(store.BLOB, "0" * 64), envelope.seal(store.BLOB, digest, good)
    private = (store.OBJECT, store.REPLAY, store.TOOL, store.DIGEST, store.BASIS, store.MANIFEST)
    for bucket in (*private, "tmp", ".."):
        yield bucket, envelope.name_of(bucket, digest), envelope.seal(bucket, digest, good)
    for key in ("../../../../etc/passwd", "/etc/passwd", "..", "x", "", digest[:-1] + "/"):
        yield key, envelope.name_of(store.STAGE, key), envelope.seal(store.STAGE, key, b"{}")
    inner = bundle.sections.pack("bundle-1", [b"../../../x", b"record", b"entry"])
    yield "bundle", envelope.name_of(bundle.BUCKET, digest), envelope.seal(bundle.BUCKET, digest, inner)


@pytest.mark.parametrize("case", list(crafted()), ids=lambda case: case[0])
def test_nothing_crafted_is_taken_in(case, other, tmp_path):
    _, name, content = case
    try:
        was_taken = Transfer(other).take_in(content, name)
    except ValueError:
        was_taken = False
    assert not was_taken
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["no-home"]


def test_what_is_here_stays_as_it_is(toolkit):
    toolkit.compile()
    cache = toolkit.store()
    for path in (toolkit.folder / "cache" / store.STAGE).glob("*/*"):
        item = (store.STAGE, path.name)
        was = cache.find_record(*item)
        assert not Transfer(cache).take_in(envelope.seal(*item, b"{}"), envelope.name_of(*item))
        assert cache.find_record(*item) == was is not None


def test_no_signature_leaves_the_machine(toolkit, far):
    toolkit.compile()
    send_all(toolkit.store(), far)
    inode = str(os.stat(toolkit.work / "a.cu").st_ino).encode()
    found = 0
    for item, _ in Transfer(toolkit.store()).items():
        if item[0] == bundle.BUCKET:
            body = envelope.unseal(far.content[envelope.name_of(*item)], *item, 1 << 26)
            found += b"a.cu" in body
            assert inode not in body
    assert found


def test_a_bundle_names_records_by_keys_alone(toolkit, far, other):
    toolkit.compile()
    item = next(item for item, _ in Transfer(toolkit.store()).items() if item[0] == bundle.BUCKET)
    found = bundle.of_manifest(item[1], toolkit.store())
    record = next(iter(found.records.values()))
    for name in ("../../../x", "ab", "0" * 63 + "/"):
        body = bundle.Bundle({**found.records, name: record}).encode()
        with pytest.raises(ValueError, match="no key"):
            Transfer(other).take_in(envelope.seal(*item, body), envelope.name_of(*item))
    assert not os.path.exists(other.root)


def test_what_is_taken_in_keeps_within_the_size_of_the_cache(other):
    """Content that compresses well is little on a remote."""
    taking = Transfer(other, max_size=20 << 20)
    for number in range(30):
        content = bytes([number]) * (4 << 20)
        digest = keys.digest_bytes(content)
        taking.take_in(
            envelope.seal(store.BLOB, digest, b"r" + content), envelope.name_of(store.BLOB, digest)
        )
    taking.keep_within_limit()
    kept = sum(path.stat().st_size for path in Path(other.root, store.BLOB).rglob("*") if path.is_file())
    assert 0 < kept <= 20 << 20
