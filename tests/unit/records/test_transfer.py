"""Which entries may be on a remote, and how they get there."""

from __future__ import annotations

import os
import time

import pytest

from nvccache.files import keys
from nvccache.records import send_queued
from nvccache.remote import envelope
from nvccache.store import store
from nvccache.store.store import Store
from sample_pairs import keys_in, shareable

PRIVATE = (store.OBJECT, store.REPLAY, store.MEMO)


class Remote:
    """A fake service."""

    def __init__(self):
        self.content = {}

    def get(self, name, most):
        return self.content.get(name)

    def put(self, name, content):
        self.content[name] = content


@pytest.fixture
def far():
    return Remote()


@pytest.fixture
def other(tmp_path):
    return Store(str(tmp_path / "other"))


def records_of(cache):
    return [item for item in shareable(cache) if item[0] == store.RECORD]


def keys_here(item, cache):
    return set(keys_in(cache.find_record(*item)))


def keys_far(item, far):
    return set(keys_in(envelope.unseal(far.content[envelope.name_of(*item)], *item, 1 << 26)))


def send_all(cache, far):
    return sum(send_queued.send(item, cache, far) for item in shareable(cache))


def test_blobs_and_records_are_sent_and_nothing_else(toolkit, far):
    toolkit.compile()
    cache = toolkit.store()
    assert send_all(cache, far) == sum(map(len, far.content.values()))
    records = {path.name for path in (toolkit.folder / "cache" / store.RECORD).glob("*/*")}
    assert {key for _, key in records_of(cache)} == records
    for bucket in PRIVATE:
        cache.add_record(bucket, "0" * 64, b"text")
        digest = keys.digest_bytes(b"text")
        cache.add_blob(digest, b"text", compress=False)
        for key in ("0" * 64, digest):  # nor a blob under the name of a private bucket
            assert send_queued.body_of((bucket, key), cache) is None


def test_records_of_two_machines_are_merged(toolkit, far, other):
    toolkit.compile()
    cache = toolkit.store()
    send_all(cache, far)
    toolkit.write("a.cu", "int b;\n")
    toolkit.compile(NVCCACHE_DIR=other.root)
    send_all(other, far)
    common = [item for item in records_of(cache) if item in records_of(other)]
    assert common
    for item in common:
        assert keys_far(item, far) == keys_here(item, cache) | keys_here(item, other)


@pytest.mark.parametrize("junk", [b"", b"junk", "record", "another name"])
def test_damaged_record_is_replaced(toolkit, far, junk):
    toolkit.compile()
    item = records_of(toolkit.store())[0]
    crafted = {"record": envelope.seal(*item, b"junk"), "another name": envelope.seal("blob-v1", "x", b"")}
    far.content[envelope.name_of(*item)] = crafted.get(junk, junk)
    assert send_queued.send(item, toolkit.store(), far)
    assert keys_far(item, far) == keys_here(item, toolkit.store())


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
