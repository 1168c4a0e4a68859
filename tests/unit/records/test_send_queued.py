"""The uploader: what leaves the queue, what stays in it, and when it ends."""

from __future__ import annotations

import itertools
import os
import threading
import time

import pytest

from nvccache import remote_url
from nvccache.files import keys
from nvccache.records import record, send_queued
from nvccache.remote import envelope, outages, uploads
from nvccache.remote.backend import BackendError
from nvccache.store import store
from nvccache.store.store import Store
from sample_entries import FRONT, add_state, keys_in

BLOB, LARGE = b"an object", os.urandom(100_000)


class Remote:
    """A fake backend: it keeps what is put there, fails on request, and counts queries."""

    def __init__(self):
        self.content = {}
        self.asked = []
        self.faults = {}  # name -> BackendError
        self.fault = None

    def _ask(self, what, name):
        self.asked.append((what, name))
        fault = self.fault or self.faults.get(name)
        if fault:
            raise fault

    def get(self, name, most):
        self._ask("get", name)
        return self.content.get(name)

    def put(self, name, content):
        self._ask("put", name)
        self.content[name] = content


@pytest.fixture
def far(monkeypatch, own_pool):
    made = Remote()
    monkeypatch.setattr(send_queued, "connect", lambda *_: made)
    return made


@pytest.fixture
def remote():
    (made,) = remote_url.parse("redis://me:sesame@nowhere:1,rw")
    return made


@pytest.fixture
def put(cache, remote):
    """Puts blobs into the cache and queues them, a second after one another."""
    seconds = itertools.count(time.time() - 1000)

    def put(*contents):
        items = []
        for content in contents:
            digest = keys.digest_bytes(content)
            cache.add_blob(digest, content, compress=False)
            items.append((store.BLOB, digest))
            assert uploads.enqueue(cache.directory, [remote.identity], items[-1:])
            now = next(seconds)
            os.utime(f"{cache.root}/{uploads._path(remote.identity, items[-1])}", (now, now))
        return items

    return put


@pytest.fixture
def send(cache, remote, far):
    """Sends what is queued; returns the sender."""

    def send():
        made = send_queued.Sender(cache.directory, remote, {})
        was_queued = bool(uploads.queued(cache.directory, remote.identity))
        assert made.send_pending() == was_queued
        return made

    return send


@pytest.fixture
def left(cache, remote):
    """What is in the queue."""
    return lambda: uploads.queued(cache.directory, remote.identity)


def test_queued_objects_are_sent_and_leave_the_queue(put, send, left, far):
    items = put(BLOB, LARGE)
    sent = send()
    for (bucket, key), content in zip(items, (BLOB, LARGE), strict=True):
        sealed = far.content[envelope.name_of(bucket, key)]
        assert envelope.unseal(sealed, bucket, key, 1 << 20) == b"r" + content
    assert not left()
    assert (sent.objects, sent.bytes) == (2, sum(map(len, far.content.values())))
    assert send().objects == 0


def test_an_object_that_was_evicted_leaves_the_queue(put, send, cache, left, far):
    ((_, digest),) = put(BLOB)
    os.unlink(cache.path(store.BLOB, digest))
    send()
    assert (left(), far.asked) == ([], [])


def test_records_are_uploaded_after_all_blobs(put, send, cache, remote, far, monkeypatch):
    key, order = keys.digest_bytes(b"record"), []
    uploads.enqueue(cache.directory, [remote.identity], [(store.RECORD, key)])
    items = put(BLOB, LARGE)
    monkeypatch.setattr(send_queued, "send", lambda item, *_: order.append(item) or 1)
    send()
    assert set(order[:2]) == set(items)
    assert order[2:] == [(store.RECORD, key)]


@pytest.mark.parametrize("word", ["unreachable", "full", "denied"])
def test_a_fault_of_the_remote_ends_the_upload_and_keeps_the_queue(put, send, remote, left, far, word):
    items = put(*(b"%d" % number for number in range(50)))
    far.fault = BackendError(word)
    sent = send()
    assert left() == items
    assert len(far.asked) <= 2 * send_queued._AT_ONCE
    assert sent.fault.word == word
    assert "sent 0 objects, 0 bytes, to `redis://***@nowhere:1" in sent.log_line()
    assert outages.current(outages.OF_WRITING.format(remote.identity)).word == word
    assert outages.current(remote.identity) is None  # it may be read
    far.fault = None
    send()
    assert (left(), len(far.content)) == ([], 50)


def test_objects_sent_before_a_fault_leave_the_queue(put, send, left, far, monkeypatch):
    monkeypatch.setattr(send_queued, "_AT_ONCE", 1)
    full, sent = put(BLOB, LARGE)
    far.faults[envelope.name_of(*full)] = BackendError("full")
    assert (send().objects, left()) == (1, [full])
    far.asked.clear()
    send()
    assert envelope.name_of(*sent) not in [name for _, name in far.asked]


def test_an_object_that_never_gets_through_does_not_block_later_ones(put, send, left, far, monkeypatch):
    monkeypatch.setattr(send_queued, "_AT_ONCE", 1)
    (bad,) = put(LARGE)
    far.faults[envelope.name_of(*bad)] = BackendError("timeout")
    for number in range(3):
        put(b"%d" % number)
        send()
    assert left() == [bad]


@pytest.mark.parametrize("error", [BackendError("broken"), ZeroDivisionError()])
def test_an_object_that_fails_without_a_fault_of_the_remote_is_given_up(put, send, left, far, error):
    bad, good = put(BLOB, LARGE)
    far.faults[envelope.name_of(*bad)] = error
    sent = send()
    assert not left()
    size = len(far.content[envelope.name_of(*good)])
    assert (sent.refused, sent.fault, sent.objects, sent.bytes) == (1, None, 1, size)
    assert "gave up 1" in sent.log_line()
    assert envelope.name_of(*good) in far.content


def test_a_remote_that_hangs_ends_the_upload_and_keeps_the_queue(put, send, left, far, monkeypatch):
    monkeypatch.setattr(send_queued, "_STALL_SECONDS", 0.05)
    monkeypatch.setattr(far, "put", lambda *_: threading.Event().wait(30))
    items = put(BLOB)
    assert send().fault.word == "timeout"
    assert left() == items


@pytest.fixture
def record_of(tmp_path):
    """Makes the cache of a machine with a record for this text of a header."""

    def make(text):
        made = Store(str(tmp_path / text))
        add_state(made, tmp_path / "x.h", text)
        return made

    return make


RECORD = (store.RECORD, FRONT.key)


def keys_far(far):
    return keys_in(envelope.unseal(far.content[envelope.name_of(*RECORD)], *RECORD, 1 << 26))


def test_records_of_two_machines_are_merged(far, record_of):
    one, two = record_of("int x;"), record_of("int y;")
    for cache in (one, two):
        send_queued.send(RECORD, cache, far)
    assert keys_far(far) == keys_in(two.find_record(*RECORD)) + keys_in(one.find_record(*RECORD))


@pytest.mark.parametrize(
    "junk", [b"junk", envelope.seal(*RECORD, b"junk"), envelope.seal("blob-v1", "x", b"")]
)
def test_a_damaged_record_on_the_remote_is_replaced(far, record_of, junk):
    cache = record_of("int x;")
    far.content[envelope.name_of(*RECORD)] = junk
    assert send_queued.send(RECORD, cache, far)
    assert keys_far(far) == keys_in(cache.find_record(*RECORD))


def test_private_missing_and_machine_specific_objects_are_not_sent(cache, record_of, monkeypatch):
    for bucket in (store.OBJECT, store.REPLAY, store.MEMO):
        digest = keys.digest_bytes(b"text")
        cache.add_blob(digest, b"text", compress=False)
        for key in ("0" * 64, digest):  # nor a blob under the name of a private bucket
            cache.add_record(bucket, key, b"text")
            assert (bucket, key) not in cache.published
            assert send_queued.body_of((bucket, key), cache) is None
    assert send_queued.body_of((store.BLOB, "0" * 64), cache) is None
    assert send_queued.body_of(RECORD, cache) is None
    made = record_of("int x;")
    body = made.find_record(*RECORD)
    sent = send_queued.body_of(RECORD, made)
    assert sent == record.without_hints(body) != body
    for limit in (len(sent), len(sent) - 1):
        monkeypatch.setattr(send_queued, "LARGEST", limit)
        assert (send_queued.body_of(RECORD, made) == sent) == (limit == len(sent))
    made.add_record(*RECORD, b"no record")
    assert send_queued.body_of(RECORD, made) is None


@pytest.fixture
def shared(tmp_path, own_pool, monkeypatch):
    """A directory as a remote, as the environment names it."""
    monkeypatch.setattr(os, "nice", lambda _: 0)
    monkeypatch.setattr(send_queued, "_LINGER_SECONDS", 0.2)
    text = f"file://{tmp_path}/far,rw"
    (tmp_path / "far").mkdir()
    monkeypatch.setenv("NVCCACHE_REMOTE", text)
    return remote_url.parse(text)[0]


@pytest.fixture
def queue(cache, shared):
    def queue(content):
        digest = keys.digest_bytes(content)
        cache.add_blob(digest, content, compress=False)
        uploads.enqueue(cache.directory, [shared.identity], [(store.BLOB, digest)])

    return queue


def serve(cache):
    send_queued.main([cache.root, str(uploads.take_lock(cache.directory))])


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_an_object_queued_as_the_uploader_ends_is_still_sent(cache, queue, tmp_path, monkeypatch):
    """The call that queued it saw the lock held, and started no uploader."""
    real, further = send_queued.flock.release, [LARGE]

    def release(descriptor):
        if further and os.fstat(descriptor).st_ino == cache.directory.status("remote/lock").st_ino:
            queue(further.pop())
            assert not uploads.start_uploader(cache.directory, {})
        real(descriptor)

    queue(BLOB)
    monkeypatch.setattr(send_queued.flock, "release", release)
    serve(cache)
    assert len(files(tmp_path / "far")) == 2


def test_each_remote_gets_the_objects_queued_for_it(cache, queue, shared, tmp_path, monkeypatch):
    queue(BLOB)
    second = f"file://{tmp_path}/second,rw"
    (tmp_path / "second").mkdir()
    (other,) = remote_url.parse(second)
    item = (store.BLOB, keys.digest_bytes(BLOB))
    uploads.enqueue(cache.directory, [other.identity], [item])
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{tmp_path}/far,rw {second}")
    outages.begin(shared.identity, "timeout", "slow")
    serve(cache)
    assert (len(files(tmp_path / "far")), len(files(tmp_path / "second"))) == (0, 1)
    outages.end(shared.identity)
    serve(cache)
    assert len(files(tmp_path / "far")) == 1


def test_a_readonly_cache_uploads_nothing(cache, queue, tmp_path, monkeypatch):
    queue(BLOB)
    monkeypatch.setenv("NVCCACHE_READONLY", "1")
    serve(cache)
    assert files(tmp_path / "far") == []
