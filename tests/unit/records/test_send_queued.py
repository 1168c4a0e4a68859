"""The uploader: what leaves the queue, what stays in it, and when it ends."""

from __future__ import annotations

import os
import threading
import time

import pytest

from nvccache import remote_url
from nvccache.files import keys
from nvccache.records import send_queued
from nvccache.records.transfer import Transfer
from nvccache.remote import breaker, envelope, uploads
from nvccache.remote.kinds import connect
from nvccache.remote.service import ServiceError
from nvccache.store import store
from nvccache.store.store import Store

BLOB, LARGE = b"an object", os.urandom(100_000)


class Remote:
    """A fake service: it keeps what is put there, fails on request, and counts queries."""

    def __init__(self):
        self.content = {}
        self.asked = []
        self.faults = {}  # name -> ServiceError
        self.fault = None

    def _ask(self, what, name):
        self.asked.append((what, name))
        fault = self.fault or self.faults.get(name)
        if fault:
            raise fault

    def get(self, name, most):
        self._ask("get", name)
        return self.content.get(name)

    def has(self, name, size=None):
        self._ask("has", name)
        return name in self.content and size in (None, len(self.content[name]))

    def put(self, name, content):
        self._ask("put", name)
        self.content[name] = content


@pytest.fixture
def far(monkeypatch, tmp_path):
    made = Remote()
    monkeypatch.setattr(send_queued, "connect", lambda *_: made)
    monkeypatch.setattr(breaker.slots, "pool_directory", lambda: str(tmp_path))
    return made


@pytest.fixture
def remote():
    (made,) = remote_url.parse("redis://me:sesame@nowhere:1,rw")
    return made


@pytest.fixture
def put(cache, remote):
    """Puts blobs into the cache and queues them together."""

    def put(*contents):
        items = []
        for content in contents:
            digest = keys.digest_bytes(content)
            cache.add_blob(digest, content, compress=False)
            items.append((store.BLOB, digest))
        assert uploads.enqueue(cache.directory, remote.identity, items)
        return items

    return put


@pytest.fixture
def sender(cache, remote, far):
    return lambda *until: send_queued.Sender(cache.directory, remote, Transfer(cache), {}, *until)


@pytest.fixture
def left(cache, remote):
    """What is in the queue."""

    def left():
        names = uploads.pending(cache.directory, remote.identity)
        return {item for name in names for item in uploads.read(cache.directory, name)}

    return left


def test_what_is_queued_is_sent_and_leaves_the_queue(put, sender, left, far):
    items = put(BLOB, LARGE)
    made = sender()
    assert made.send_pending()
    for (bucket, key), content in zip(items, (BLOB, LARGE), strict=True):
        sealed = far.content[envelope.name_of(bucket, key)]
        assert envelope.unseal(sealed, bucket, key, 1 << 20) == b"r" + content
    assert not left()
    assert (made.objects, made.bytes) == (2, sum(map(len, far.content.values())))
    assert not made.send_pending()


def test_only_a_large_blob_is_asked_for_and_none_is_sent_twice(put, sender, far):
    items = put(BLOB, LARGE)
    names = [envelope.name_of(*item) for item in items]
    far.content[names[1]] = envelope.seal(*items[1], b"r" + LARGE)
    put(BLOB)
    made = sender()
    made.send_pending()
    put(BLOB)
    made.send_pending()
    assert sorted(far.asked) == sorted([("put", names[0]), ("has", names[1])])
    assert (made.objects, made.present) == (1, 1)


def test_what_is_no_longer_in_the_cache_leaves_the_queue(put, sender, cache, left, far):
    ((_, digest),) = put(BLOB)
    os.unlink(cache.path(store.BLOB, digest))
    sender().send_pending()
    assert (left(), far.asked) == (set(), [])


def test_what_is_not_shared_is_not_sent(sender, cache, remote, left, far):
    key = keys.digest_bytes(b"secret")
    cache.add_record(store.OBJECT, key, b"how it is compiled")
    uploads.enqueue(cache.directory, remote.identity, [(store.OBJECT, key)])
    sender().send_pending()
    assert (left(), far.asked) == (set(), [])


WORDS = ["unreachable", "timeout", "throttled", "tls", "full", "bad_credentials", "denied"]


@pytest.mark.parametrize("word", WORDS)
def test_a_fault_of_the_remote_ends_the_work_and_leaves_the_queue(
    put, sender, cache, remote, left, far, word
):
    items = put(*(b"%d" % number for number in range(50)))
    far.fault = ServiceError(word)
    made = sender()
    made.send_pending()
    assert left() == set(items)
    assert len(far.asked) <= 2 * send_queued._AT_ONCE
    assert made.fault.word == word
    assert breaker.Breaker(remote.identity, for_writing=True).outage().word == word
    assert not uploads.start_uploader(cache.directory, remote.identity, {})
    assert breaker.Breaker(remote.identity).outage() is None  # it may be read
    far.fault = None
    sender().send_pending()
    assert (left(), len(far.content)) == (set(), 50)
    assert breaker.Breaker(remote.identity, for_writing=True).outage() is None


def test_what_was_sent_before_a_fault_leaves_the_queue(put, sender, left, far, monkeypatch):
    monkeypatch.setattr(send_queued, "_AT_ONCE", 1)
    sent, full = put(BLOB, LARGE)
    far.faults[envelope.name_of(*full)] = ServiceError("full")
    first = sender()
    first.send_pending()
    assert (first.objects, left()) == (1, {full})
    far.asked.clear()
    sender().send_pending()
    assert envelope.name_of(*sent) not in [name for _, name in far.asked]


def test_a_missing_directory_is_sent_to_as_soon_as_it_is_there(cache, tmp_path):
    (remote,) = remote_url.parse(f"file://{tmp_path}/mnt,rw")
    digest = keys.digest_bytes(BLOB)
    cache.add_blob(digest, BLOB, compress=False)
    assert uploads.enqueue(cache.directory, remote.identity, [(store.BLOB, digest)])
    made = send_queued.Sender(cache.directory, remote, Transfer(cache), {})
    made.send_pending()
    assert made.fault.word == "unusable_directory"
    assert breaker.Breaker(remote.identity, for_writing=True).outage() is None
    (tmp_path / "mnt").mkdir()
    again = send_queued.Sender(cache.directory, remote, Transfer(cache), {})
    again.send_pending()
    assert (again.objects, uploads.pending(cache.directory)) == (1, [])


def test_one_that_never_gets_through_holds_up_nothing_that_is_queued_later(
    put, sender, left, far, monkeypatch
):
    monkeypatch.setattr(send_queued, "_AT_ONCE", 1)
    (bad,) = put(LARGE)
    far.faults[envelope.name_of(*bad)] = ServiceError("timeout")
    for number in range(3):
        sender().send_pending()
        put(b"%d" % number)
    sender().send_pending()
    assert left() == {bad}


def test_an_item_that_fails_by_itself_is_given_up(put, sender, left, far):
    bad, good = put(BLOB, LARGE)
    far.faults[envelope.name_of(*bad)] = ServiceError("broken")
    made = sender()
    made.send_pending()
    assert not left()
    assert (made.refused, made.fault) == (1, None)
    assert envelope.name_of(*good) in far.content


def test_nothing_is_promised_that_could_not_be_sent(put, sender, far, monkeypatch):
    blob, promise = put(BLOB, LARGE)
    monkeypatch.setattr(Transfer, "is_sent_last", lambda self, item: item == promise)
    far.faults[envelope.name_of(*blob)] = ServiceError("broken")
    sender().send_pending()
    assert [name for _, name in far.asked] == [envelope.name_of(*blob)]
    far.faults.clear()
    put(BLOB, LARGE)
    sender().send_pending()
    assert len(far.content) == 2


def test_a_bug_in_sending_costs_one_item(put, sender, left, far, monkeypatch):
    bad, _good = put(BLOB, LARGE)
    real = Transfer.send

    def send(self, item, service):
        return 1 // 0 if item == bad else real(self, item, service)

    monkeypatch.setattr(Transfer, "send", send)
    made = sender()
    made.send_pending()
    assert (left(), made.fault, made.objects) == (set(), None, 1)
    assert "gave up 1 (ZeroDivisionError" in made.log_lines()[0]


def test_a_remote_that_hangs_is_given_up(put, sender, left, far, monkeypatch):
    monkeypatch.setattr(send_queued, "_STALL_SECONDS", 0.05)
    monkeypatch.setattr(far, "put", lambda *_: threading.Event().wait(30))
    items = put(BLOB)
    made = sender()
    made.send_pending()
    assert made.fault.word == "timeout"
    assert left() == set(items)


def test_it_ends_when_its_time_is_over(put, sender, left, far):
    items = put(BLOB)
    made = sender(time.monotonic() - 1)
    made.send_pending()
    assert (far.asked, made.is_over(), left()) == ([], True, set(items))


def test_a_queue_that_cannot_be_written_is_sent_only_once(put, sender, left, far, monkeypatch):
    items = put(BLOB)

    def fail(*_):
        raise OSError("full")

    monkeypatch.setattr(uploads, "remove", fail)
    with pytest.raises(OSError, match="full"):
        sender().send_pending()
    assert left() == set(items)
    assert len(far.content) == 1


def test_what_is_queued_while_it_lingers_is_sent_by_the_same(put, sender, far, monkeypatch):
    monkeypatch.setattr(send_queued, "_LINGER_SECONDS", 5.0)
    put(BLOB)
    made = sender(time.monotonic() + 6)
    worker = threading.Thread(target=made.linger)
    worker.start()
    until = time.monotonic() + 5
    while len(far.content) < 1 and time.monotonic() < until:
        time.sleep(0.01)
    put(LARGE)
    while len(far.content) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    worker.join()
    assert made.objects == 2


def test_the_log_says_what_was_sent_and_no_password(put, sender, far):
    put(BLOB)
    far.fault = ServiceError("full")
    made = sender()
    made.send_pending()
    (line,) = made.log_lines()
    assert "sent 0 objects, 0 bytes, to `redis://***@nowhere:1" in line
    assert "full: " in line
    assert "sesame" not in line


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A directory as a remote, as the environment names it."""
    monkeypatch.setattr(breaker.slots, "pool_directory", lambda: str(tmp_path))
    monkeypatch.setattr(os, "nice", lambda _: 0)
    monkeypatch.setattr(send_queued, "_LINGER_SECONDS", 0.2)
    text = f"file://{tmp_path}/far,rw"
    (tmp_path / "far").mkdir()
    monkeypatch.setenv("NVCCACHE_REMOTE", text)
    return remote_url.parse(text)[0]


def serve(cache, remote):
    lock = uploads.take_lock(cache.directory, remote.identity)
    assert lock is not None
    send_queued.main([cache.root, remote.identity, str(lock)])


def test_what_is_queued_as_it_ends_is_still_sent(cache, shared, monkeypatch):
    """The call that queued it saw the lock held, and started no uploader."""
    real, further = send_queued.flock.release, [LARGE]
    service = connect(shared, {})

    def put(content):
        digest = keys.digest_bytes(content)
        cache.add_blob(digest, content, compress=False)
        uploads.enqueue(cache.directory, shared.identity, [(store.BLOB, digest)])

    def release(descriptor):
        if further:
            put(further.pop())
            assert not uploads.start_uploader(cache.directory, shared.identity, {})
        real(descriptor)

    put(BLOB)
    lock = uploads.take_lock(cache.directory, shared.identity)
    monkeypatch.setattr(send_queued.flock, "release", release)
    send_queued.main([cache.root, shared.identity, str(lock)])
    assert len(list(service.list("1/"))) == 2


def test_a_directory_gets_what_another_machine_can_take(cache, shared, tmp_path):
    items = []
    for content in (BLOB, LARGE):
        items.append((store.BLOB, keys.digest_bytes(content)))
        cache.add_blob(items[-1][1], content, compress=False)
    uploads.enqueue(cache.directory, shared.identity, items)
    serve(cache, shared)
    service = connect(shared, {})
    other = Store(str(tmp_path / "other"))
    for item in items:
        name = envelope.name_of(*item)
        assert Transfer(other).take_in(service.get(name, 1 << 20), name)
        assert not Transfer(other).take_in(service.get(name, 1 << 20), name)
    assert [other.read_blob(key) for _, key in items] == [BLOB, LARGE]


def wait_for(condition, seconds=30.0):
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    assert condition()


def test_what_a_call_has_made_gets_to_the_remote_by_itself(toolkit, tmp_path):
    toolkit.compile()
    cache = toolkit.store()
    text = f"file://{tmp_path}/far,rw"
    (tmp_path / "far").mkdir()
    (remote,) = remote_url.parse(text)
    items = [item for item, _ in Transfer(cache).items()]
    assert uploads.enqueue(cache.directory, remote.identity, items)
    environ = {**os.environ, "NVCCACHE_REMOTE": text, "NVCCACHE_DIR": "elsewhere"}
    log = tmp_path / "log"
    assert uploads.start_uploader(cache.directory, remote.identity, environ, str(log))
    assert uploads.take_lock(cache.directory, remote.identity) is None
    wait_for(lambda: not uploads.pending(cache.directory))
    wait_for(log.exists)
    assert f"sent {len(items)} objects" in log.read_text()
    assert "gave up" not in log.read_text()

    other = Store(str(tmp_path / "other"))
    service = connect(remote, {})
    for name, _, _ in service.list("1/"):
        content = service.get(name, 1 << 26)
        assert content
        Transfer(other).take_in(content, name)
    assert toolkit.answer(NVCCACHE_DIR=other.root)


def test_a_cache_that_is_only_read_sends_nothing(toolkit, shared, tmp_path, monkeypatch):
    toolkit.compile()
    cache = toolkit.store()
    uploads.enqueue(cache.directory, shared.identity, [item for item, _ in Transfer(cache).items()])
    monkeypatch.setenv("NVCCACHE_READONLY", "1")
    serve(cache, shared)
    assert list((tmp_path / "far").iterdir()) == []
