"""Which entries may be on a remote, how they get there, and which are accepted."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from nvccache.files import keys
from nvccache.records.transfer import Transfer
from nvccache.remote import envelope
from nvccache.store import sections, store
from nvccache.store.store import Store
from sample_pairs import keys_in


class Remote:
    """A fake service.

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


PRIVATE = (store.OBJECT, store.REPLAY, store.MEMO)


def records_of(cache):
    return [item for item, _ in Transfer(cache).items() if item[0] == store.RECORD]


def keys_here(item, cache):
    return set(keys_in(cache.find_record(*item)))


def another_of(body, key):
    """A record with one pair of this key, whose result differs from those in `body`."""
    _, inputs, result = sections.unpack_all("record-1", body)[:3]
    return sections.pack("record-1", [key.encode(), inputs, result.replace(b"0.", b"1.", 1)])


def keys_far(item, far):
    return set(keys_in(envelope.unseal(far.content[envelope.name_of(*item)], *item, 1 << 26)))


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


def test_records_come_last_and_nothing_else_is_shared(toolkit):
    toolkit.compile()
    items = [item for item, _ in Transfer(toolkit.store()).items()]
    buckets = [bucket for bucket, _ in items]
    assert set(buckets) == {store.BLOB, store.RECORD}
    first = buckets.index(store.RECORD)
    assert set(buckets[first:]) == {store.RECORD}
    records = {path.name for path in (toolkit.folder / "cache" / store.RECORD).glob("*/*")}
    assert {key for bucket, key in items if bucket == store.RECORD} == records
    for bucket in PRIVATE:
        toolkit.store().add_record(bucket, "0" * 64, b"text")
        digest = keys.digest_bytes(b"text")
        toolkit.store().add_blob(digest, b"text", compress=False)
        for key in ("0" * 64, digest):  # nor a blob under the name of a private bucket
            assert Transfer(toolkit.store()).sealed((bucket, key)) is None


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
    common = [item for item in records_of(cache) if item in records_of(other)]
    assert common
    for item in common:
        far.meanwhile = lambda item=item: Transfer(other).send(item, far)
        Transfer(cache).send(item, far)
        # The last writer had read before the other wrote. The other reads back, and corrects it next time.
        assert keys_far(item, far) >= keys_here(item, cache)
        Transfer(other).send(item, far)
        assert keys_far(item, far) == keys_here(item, cache) | keys_here(item, other)


def test_what_another_writes_over_ours_is_merged_once_more(toolkit, far):
    toolkit.compile()
    cache = toolkit.store()
    item = records_of(cache)[0]
    theirs = envelope.seal(*item, another_of(cache.find_record(*item), "0" * 64))
    far.afterwards = lambda name: far.content.update({name: theirs})  # read before we wrote
    Transfer(cache).send(item, far)
    assert keys_far(item, far) == {*keys_here(item, cache), "0" * 64}


def test_a_record_that_is_there_is_not_written_again(toolkit, far):
    toolkit.compile()
    send_all(toolkit.store(), far)
    far.puts.clear()
    for item in records_of(toolkit.store()):
        assert Transfer(toolkit.store()).send(item, far) == 0
    assert far.puts == []


def test_a_record_that_is_no_good_is_replaced(toolkit, far):
    toolkit.compile()
    item = records_of(toolkit.store())[0]
    name = envelope.name_of(*item)
    for junk in (b"", b"junk", envelope.seal(*item, b"junk"), envelope.seal("blob-v1", "x", b"")):
        far.content[name] = junk
        assert Transfer(toolkit.store()).send(item, far)
        assert envelope.unseal(far.content[name], *item, 1 << 26)


def crafted():
    """What an attacker may have put there: name and content."""
    good, evil = b"r" + b"an object", b"r" + b"another one"
    digest = keys.digest_bytes(good[1:])
    name = envelope.name_of(store.BLOB, digest)
    yield "no envelope", name, b"junk"
    yield "cut short", name, envelope.seal(store.BLOB, digest, good)[:-3]
    yield "another content", name, envelope.seal(store.BLOB, digest, evil)
    yield "no mark", name, envelope.seal(store.BLOB, digest, good[1:])
    yield "another name", envelope.name_of(store.BLOB, "0" * 64), envelope.seal(store.BLOB, digest, good)
    for bucket in (*PRIVATE, "stage-v6", "bundle-v4", "tmp", ".."):
        yield bucket, envelope.name_of(bucket, digest), envelope.seal(bucket, digest, good)
    for key in ("../../../../etc/passwd", "/etc/passwd", "..", "x", "", digest[:-1] + "/"):
        yield key, envelope.name_of(store.RECORD, key), envelope.seal(store.RECORD, key, b"{}")
    for inner in (
        b"junk",
        sections.pack("record-1", []),
        sections.pack("record-1", [b"../../../x", b"inputs", b"result"]),
    ):
        yield "record", envelope.name_of(store.RECORD, digest), envelope.seal(store.RECORD, digest, inner)


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
    for item in records_of(cache):
        was = cache.find_record(*item)
        theirs = another_of(was, keys_in(was)[0])
        assert was != theirs
        assert not Transfer(cache).take_in(envelope.seal(*item, theirs), envelope.name_of(*item))
        assert cache.find_record(*item) == was is not None


def test_what_tells_of_this_machine_does_not_leave_it(toolkit, far):
    time.sleep(0.2)  # what was written a moment ago has no signature
    toolkit.compile()
    send_all(toolkit.store(), far)
    inode = str(os.stat(toolkit.work / "a.cu").st_ino).encode()
    found = 0
    rests_on = f"{store.BLOB}/".encode()
    for item in records_of(toolkit.store()):
        kept = toolkit.store().find_record(*item)
        body = envelope.unseal(far.content[envelope.name_of(*item)], *item, 1 << 26)
        found += inode in kept and rests_on in kept
        assert inode not in body and rests_on not in body
    assert found


def test_received_entries_keep_within_the_size_of_the_cache(other):
    """Content that compresses well is small on a remote."""
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
