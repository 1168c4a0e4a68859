"""Who sends what is queued: what leaves the queue, what stays in it, and when it stops."""

from __future__ import annotations

import os
import threading
import time

import pytest

from nvccache import remote_url
from nvccache.files import keys
from nvccache.records.transfer import Transfer
from nvccache.remote import breaker, envelope, uploader, uploads
from nvccache.remote.service import Service
from nvccache.remote.service_error import ServiceError
from nvccache.store import store
from nvccache.store.store import Store

BLOB, LARGE = b"an object", os.urandom(100_000)


class Remote:
    """What stands for a service: it keeps what is put there, fails as told, and counts what it was asked."""

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
    monkeypatch.setattr(uploader, "Service", lambda *_: made)
    monkeypatch.setattr(breaker.slots, "pool_directory", lambda: str(tmp_path))
    return made


@pytest.fixture
def remote():
    (made,) = remote_url.parse("redis://nowhere:1,rw")
    return made


@pytest.fixture
def put(cache, remote):
    """Puts blobs into the cache and queues them."""

    def put(*contents):
        items = []
        for content in contents:
            digest = keys.digest_bytes(content)
            cache.add_blob(digest, content, compress=False)
            items.append((store.BLOB, digest))
        assert uploads.enqueue(cache.directory, [remote], items)
        return items

    return put


@pytest.fixture
def sender(cache, remote, far):
    return lambda **others: uploader.Sender(cache.directory, remote, Transfer(cache), {}, **others)


def left(cache, remote):
    names = [name for name, _ in uploads.pending(cache.directory, remote.identity)]
    return {item: tries for name in names for item, tries in uploads.read(cache.directory, name).items()}


def test_what_is_queued_is_sent_and_leaves_the_queue(put, sender, cache, remote, far):
    items = put(BLOB, LARGE)
    made = sender()
    made.drain()
    for (bucket, key), content in zip(items, (BLOB, LARGE), strict=True):
        sealed = far.content[envelope.name_of(bucket, key)]
        assert envelope.unseal(sealed, bucket, key, 1 << 20) == b"r" + content
    assert left(cache, remote) == {}
    assert (made.state.sent, made.state.bytes) == (2, sum(map(len, far.content.values())))
    state = uploads.state_of(cache.directory, remote.identity)
    assert (state.sent, state.bytes, state.word) == (2, made.state.bytes, "")
    assert time.time() - 60 < state.sent_at <= time.time()


def test_only_a_large_blob_is_asked_for_and_none_is_sent_twice(put, sender, far):
    items = put(BLOB, LARGE)
    names = [envelope.name_of(*item) for item in items]
    far.content[names[1]] = envelope.seal(*items[1], b"r" + LARGE)
    put(BLOB)
    made = sender()
    made.drain()
    assert sorted(far.asked) == sorted([("put", names[0]), ("has", names[1])])
    assert (made.state.sent, made.state.present) == (1, 1)


def test_what_is_no_longer_in_the_cache_leaves_the_queue(put, sender, cache, remote, far):
    ((_, digest),) = put(BLOB)
    os.unlink(cache.path(store.BLOB, digest))
    sender().drain()
    assert (left(cache, remote), far.asked) == ({}, [])


def test_what_is_not_shared_is_not_sent(sender, cache, remote, far):
    key = keys.digest_bytes(b"secret")
    cache.add_record(store.OBJECT, key, b"how it is compiled")
    uploads.enqueue(cache.directory, [remote], [(store.OBJECT, key)])
    sender().drain()
    assert (left(cache, remote), far.asked) == ({}, [])


@pytest.mark.parametrize("word", ["unreachable", "timeout", "throttled", "tls", "full", "bad_credentials"])
def test_a_fault_of_the_remote_ends_the_work_and_leaves_the_queue(put, sender, cache, remote, far, word):
    items = put(*(b"%d" % number for number in range(50)))
    far.fault = ServiceError(word)
    made = sender()
    made.drain()
    assert set(left(cache, remote)) == set(items)
    assert len(far.asked) <= 2 * uploader._AT_ONCE
    assert made.fault.word == word
    state = uploads.state_of(cache.directory, remote.identity)
    assert state.word == word
    assert breaker.Breaker(remote.identity, for_writing=True).outage().word == word
    assert not uploads.ensure_running(cache.directory, [remote], {})
    is_out = breaker.Breaker(remote.identity).outage() is not None
    assert is_out == (word in ("unreachable", "throttled", "tls"))


def test_a_remote_that_forbids_writing_gets_nothing_more(put, sender, cache, remote, far):
    put(BLOB)
    put(LARGE)
    far.fault = ServiceError("denied")
    made = sender()
    made.drain()
    assert left(cache, remote) == {}
    assert made.state.dropped == 2
    state = uploads.state_of(cache.directory, remote.identity)
    assert (state.word, state.dropped) == ("denied", 2)
    assert not uploads.enqueue(cache.directory, [remote], [(store.BLOB, keys.digest_bytes(BLOB))])
    assert breaker.Breaker(remote.identity).outage() is None


@pytest.mark.parametrize("word", ["broken", "timeout"])
def test_an_item_that_fails_by_itself_is_given_up_after_some_tries(put, sender, cache, remote, far, word):
    bad, good = put(BLOB, LARGE)
    far.faults[envelope.name_of(*bad)] = ServiceError(word)
    outage = breaker.Breaker(remote.identity, for_writing=True)
    for tries in range(1, 5):
        sender().drain()
        assert left(cache, remote)[bad] == tries
        outage.close()
    made = sender()
    made.drain()
    assert left(cache, remote).keys() <= {good}
    assert made.state.dropped == 1
    if word == "broken":
        assert envelope.name_of(*good) in far.content


def test_nothing_is_promised_that_could_not_be_sent(put, sender, cache, far, monkeypatch):
    blob, promise = put(BLOB, LARGE)
    monkeypatch.setattr(Transfer, "is_promise", lambda self, item: item == promise)
    far.faults[envelope.name_of(*blob)] = ServiceError("broken")
    sender().drain()
    assert [name for _, name in far.asked] == [envelope.name_of(*blob)]
    far.faults.clear()
    sender().drain()
    assert len(far.content) == 2


def test_a_bug_in_sending_costs_one_item(put, sender, cache, remote, far, monkeypatch):
    bad, _good = put(BLOB, LARGE)
    real = Transfer.send

    def send(self, item, service):
        return 1 // 0 if item == bad else real(self, item, service)

    monkeypatch.setattr(Transfer, "send", send)
    made = sender()
    made.drain()
    assert left(cache, remote) == {bad: 1}
    assert made.fault is None
    assert "ZeroDivisionError" in uploads.state_of(cache.directory, remote.identity).text


def test_a_remote_that_hangs_is_given_up(put, sender, cache, remote, far, monkeypatch):
    monkeypatch.setattr(uploader, "_STALL_SECONDS", 0.05)
    monkeypatch.setattr(far, "put", lambda *_: threading.Event().wait(30))
    items = put(BLOB)
    made = sender()
    made.drain()
    assert made.fault.word == "timeout"
    assert set(left(cache, remote)) == set(items)


def test_it_ends_when_its_time_or_its_bytes_are_spent(put, sender, cache, remote, far, monkeypatch):
    items = put(*(os.urandom(1000) for _ in range(50)))
    sender(until=time.monotonic() - 1).drain()
    assert far.asked == []
    monkeypatch.setattr(uploader, "_MOST_BYTES", 5000)
    made = sender()
    made.drain()
    assert 5 <= made.state.sent < 10
    assert made.is_spent
    assert len(left(cache, remote)) == len(items) - made.state.sent


def test_a_remote_that_is_out_is_not_asked(put, sender, cache, remote, far):
    put(BLOB)
    breaker.Breaker(remote.identity).trip("unreachable", "down")
    made = sender()
    made.drain()
    assert (far.asked, made.fault.word) == ([], "unreachable")
    assert len(left(cache, remote)) == 1


def test_whoever_finds_an_outage_over_ends_it(put, sender, remote, far, monkeypatch):
    put(BLOB)
    guard = breaker.Breaker(remote.identity)
    guard.trip("unreachable", "down")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 120)
    sender().drain()
    assert guard.outage() is None


def test_nothing_is_lost_when_the_queue_cannot_be_written(put, sender, cache, remote, far, monkeypatch):
    items = put(BLOB)

    def fail(*_):
        raise OSError("full")

    monkeypatch.setattr(uploads, "keep", fail)
    sender().drain()
    assert set(left(cache, remote)) == set(items)
    assert len(far.content) == 1


def test_what_is_queued_while_it_lingers_is_sent_by_the_same(put, cache, remote, far, monkeypatch):
    monkeypatch.setattr(uploader, "_LINGER_SECONDS", 5.0)
    put(BLOB)
    made = []
    real = uploader.Sender
    monkeypatch.setattr(uploader, "Sender", lambda *arguments: made.append(real(*arguments)) or made[-1])
    monkeypatch.setattr(uploader, "_LIFE_SECONDS", 6.0)
    worker = threading.Thread(target=uploader.serve, args=(cache.directory, [remote], Transfer(cache), {}))
    worker.start()
    until = time.monotonic() + 5
    while len(far.content) < 1 and time.monotonic() < until:
        time.sleep(0.01)
    put(LARGE)
    while len(far.content) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    worker.join()
    assert len(far.content) == 2
    assert len(made) == 1


def test_what_is_queued_as_it_ends_is_sent_all_the_same(put, cache, remote, far, monkeypatch):
    """Whoever queued it saw the lock held, and started nobody."""
    monkeypatch.setattr(uploader, "_LINGER_SECONDS", 0.0)
    put(BLOB)
    real = uploader._log
    further = [LARGE]

    def log(*arguments):
        real(*arguments)
        if further:
            put(further.pop())

    monkeypatch.setattr(uploader, "_log", log)
    uploader.serve(cache.directory, [remote], Transfer(cache), {}, "")
    assert len(far.content) == 2


def test_two_do_not_send_the_same(put, cache, remote, far, monkeypatch):
    monkeypatch.setattr(uploader, "_LOCK_SECONDS", 0.1)
    put(BLOB)
    with uploads.sending(cache.directory, remote.identity):
        uploader.serve(cache.directory, [remote], Transfer(cache), {}, "")
    assert far.asked == []


def test_the_log_says_what_was_sent_and_no_password(put, cache, far, tmp_path, monkeypatch):
    monkeypatch.setattr(uploader, "_LINGER_SECONDS", 0.0)
    (remote,) = remote_url.parse("redis://me:sesame@nowhere:1,rw")
    cache.add_blob(keys.digest_bytes(BLOB), BLOB, compress=False)
    uploads.enqueue(cache.directory, [remote], [(store.BLOB, keys.digest_bytes(BLOB))])
    far.fault = ServiceError("full")
    uploader.serve(cache.directory, [remote], Transfer(cache), {}, str(tmp_path / "log"))
    said = (tmp_path / "log").read_text()
    assert "sent 0 objects, 0 bytes, to `redis://***@nowhere:1" in said
    assert "full: " in said
    assert "sesame" not in said


def test_a_directory_gets_what_another_machine_can_take(put, cache, tmp_path, monkeypatch):
    monkeypatch.setattr(breaker.slots, "pool_directory", lambda: str(tmp_path))
    (remote,) = remote_url.parse(f"file://{tmp_path}/shared,rw")
    items = [(store.BLOB, keys.digest_bytes(content)) for content in (BLOB, LARGE)]
    put(BLOB, LARGE)
    uploads.enqueue(cache.directory, [remote], items)
    uploader.Sender(cache.directory, remote, Transfer(cache), {}).drain()
    service = Service(remote, {})
    other = Store(str(tmp_path / "other"))
    for item in items:
        name = envelope.name_of(*item)
        assert Transfer(other).take_in(service.get(name, 1 << 20), name)
        assert not Transfer(other).take_in(service.get(name, 1 << 20), name)
    assert [other.read_blob(key) for _, key in items] == [BLOB, LARGE]
