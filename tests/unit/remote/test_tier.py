"""Queries of remotes: in order, each name once, within one time limit; failed remotes are not used."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

import faulty_server
from faulty_server import FaultyServer, says
from nvccache import remote_url
from nvccache.remote import envelope, outages
from nvccache.remote import tier as tier_module
from nvccache.remote.shared_directory import SharedDirectory
from nvccache.remote.tier import Tier
from opened_remotes import NO_CREDENTIALS

pytest.importorskip("opendal", reason="opendal is not installed: pip install 'nvccache[remote]'")

KEYS = [f"{number:02x}" * 32 for number in range(20)]
BODY = b"body" * 100


class Place:
    """Two directories as remotes, and tiers of them or of given URLs."""

    def __init__(self, folder):
        self.messages = []
        for name in ("one", "two"):
            (folder / name).mkdir()
        self.one = f"file://{folder}/one"
        self.two = f"file://{folder}/two"

    def put(self, place, key, body=BODY, sealed_as=""):
        content = envelope.seal("blob", sealed_as or key, body)
        SharedDirectory(place.removeprefix("file://")).put(envelope.name_of("blob", key), content)

    def tier(self, text, timeout=0.5, **further):
        return Tier(remote_url.parse(text), NO_CREDENTIALS, timeout, self.messages.append, **further)


def get(tier, key=KEYS[0], most=1000):
    return next(tier.each("blob", key, most), None)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_remotes_are_queried_in_order(place):
    place.put(place.one, KEYS[0], b"one")
    place.put(place.two, KEYS[0], b"two")
    place.put(place.two, KEYS[1], b"only two")
    tier = place.tier(f"{place.one} {place.two}")
    assert list(tier.each("blob", KEYS[0], 1000)) == [b"one", b"two"]
    assert list(tier.each("blob", KEYS[1], 1000)) == [b"only two"]
    assert list(tier.each("blob", KEYS[2], 1000)) == []
    assert (tier.asked, tier.found, tier.faults) == (3, 3, {})
    sealed = (("one", KEYS[0]), ("two", KEYS[0]), ("only two", KEYS[1]))
    assert tier.bytes_in == sum(len(envelope.seal("blob", key, body.encode())) for body, key in sealed)


def test_the_second_remote_is_not_queried_for_what_the_first_has(place):
    place.put(place.one, KEYS[0])
    with FaultyServer(says(404)) as server:
        tier = place.tier(f"{place.one} {server.url}/p")
        assert get(tier) == BODY
        assert server.requests == []
        assert get(tier, KEYS[1]) is None
        assert len(server.requests) == 1


def test_a_remote_object_larger_than_the_limit_counts_as_absent(place):
    place.put(place.one, KEYS[0])
    assert get(place.tier(place.one), most=len(BODY) - 1) is None
    assert get(place.tier(place.one), most=len(BODY)) == BODY


def test_a_prefetched_remote_object_is_requested_once(place):
    with FaultyServer(says(200, envelope.seal("blob", KEYS[0], BODY))) as server:
        tier = place.tier(f"{server.url}/p")
        tier.prefetch([("blob", KEYS[0], 1000)] * 3)
        assert get(tier) == get(tier) == BODY
        assert len(server.requests) == 1
        tier.prefetch([("blob", key, 1000) for key in KEYS])
        assert tier._threads <= 8


def test_an_object_stored_under_a_wrong_name_is_absent_and_the_next_remote_is_queried(place):
    place.put(place.one, KEYS[0], sealed_as=KEYS[1])
    place.put(place.two, KEYS[0])
    tier = place.tier(f"{place.one} {place.two}")
    assert get(tier) == BODY
    assert list(tier.faults) == ["broken"]
    assert place.messages == []


@pytest.mark.parametrize("answer", [faulty_server.is_silent, faulty_server.drips])
def test_a_silent_remote_is_waited_for_once_and_then_skipped_by_all_calls(place, answer):
    with FaultyServer(answer) as server:
        text = f"{server.url}/p"
        tier = place.tier(f"{text} {place.two}")
        assert all(get(tier, key) is None for key in KEYS)
        assert list(tier.faults) == ["timeout"]
        outage = outages.current(remote_url.parse(text)[0].identity)
        assert outage and outage.word == "timeout"
        place.put(place.two, KEYS[0])
        later = place.tier(f"{text} {place.two}")
        assert get(later) == BODY
        assert list(later.faults) == ["left_alone"]
        assert place.messages == [f"`{text}` is not used: {outage.text}"]


def test_an_absent_remote_object_is_no_fault_but_bad_credentials_are(place):
    with FaultyServer(says(404)) as server:
        tier = place.tier(f"{server.url}/p")
        assert all(get(tier, key) is None for key in KEYS)
        assert len(server.requests) == len(KEYS)
        server.answer = says(401)
        tier = place.tier(f"http://user:SECRET@127.0.0.1:{server.port}/q")
        assert get(tier) is None
        assert list(tier.faults) == ["bad_credentials"]
        (message,) = place.messages
        assert "SECRET" not in message
        before = len(server.requests)
        assert get(tier, KEYS[1]) is None
        assert len(server.requests) == before


@pytest.mark.parametrize(
    ("text", "word"), [("s3://bucket", "not_installed"), ("file:///nowhere/mnt", "unusable_directory")]
)
def test_a_missing_package_or_directory_is_logged_without_an_outage(place, own_pool, monkeypatch, text, word):
    monkeypatch.setitem(sys.modules, "opendal", None)
    tier = place.tier(text)
    assert get(tier) is None
    assert get(tier, KEYS[1]) is None
    assert list(tier.faults) == [word]
    (message,) = place.messages
    assert message.startswith(f"`{text}` is not used: ")
    assert list(own_pool.iterdir()) == []


PROGRAM = """
import signal, sys
from nvccache import remote_url
from nvccache.machine import slots
from nvccache.remote.tier import Tier
slots.pool_directory = lambda: ""
tier = Tier(remote_url.parse(sys.argv[1]), {"HOME": "/nonexistent"}, float(sys.argv[2]))
tier.prefetch([("blob", "%064x" % number, 1000) for number in range(20)])
print("asking", flush=True)
list(tier.each("blob", "%064x" % 0, 1000))
"""


@pytest.mark.parametrize(("seconds", "is_interrupted"), [("0.3", False), ("30", True)])
def test_a_process_ends_although_threads_wait_for_a_remote(seconds, is_interrupted):
    with FaultyServer(faulty_server.drips) as server:
        command = [sys.executable, "-c", PROGRAM, f"{server.url}/p", seconds]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"asking\n"
            if is_interrupted:
                time.sleep(0.3)
                process.send_signal(signal.SIGINT)
            assert process.wait(20) == (-signal.SIGINT if is_interrupted else 0)
            assert is_interrupted or process.stderr.read() == b""


def test_waiting_for_a_remote_ends_when_the_call_ends():
    with FaultyServer(faulty_server.is_silent) as server:
        tier = Tier(remote_url.parse(f"{server.url}/p"), NO_CREDENTIALS, 600.0)
        threading.Timer(0.2, tier.close).start()
        assert get(tier) is None
        assert get(tier, KEYS[1]) is None


def test_time_in_which_several_threads_wait_for_a_remote_is_counted_once(place, monkeypatch):
    now, is_over = [100.0], threading.Event()
    backend = SimpleNamespace(get=lambda *_: is_over.wait(60) and None)
    monkeypatch.setattr(tier_module, "connect", lambda *_: backend)
    tier = place.tier(place.one, timeout=1000.0, clock=lambda: now[0])
    threads = [threading.Thread(target=get, args=(tier, key)) for key in KEYS[:5]]
    for thread in threads:
        thread.start()
    while tier._waiting < len(threads):
        time.sleep(0.01)
    now[0] += 7
    is_over.set()
    for thread in threads:
        thread.join()
    assert tier.waited == 7


def test_remote_objects_count_as_absent_if_no_thread_can_be_started(place, monkeypatch):
    def start(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    place.put(place.one, KEYS[0])
    assert get(place.tier(place.one)) is None
