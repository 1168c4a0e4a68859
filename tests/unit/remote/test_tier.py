"""Queries of the store: one time limit for all, each name once, and failed remotes are not used.

Only real waiting time counts, once; threads are few, and none keeps a process from exiting.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

import faulty_server
from faulty_server import FaultyServer, says
from nvccache import remote_url
from nvccache.remote import envelope
from nvccache.remote.breaker import Breaker
from nvccache.remote.shared_directory import SharedDirectory
from nvccache.remote.tier import Budget, Pool, Tier
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

    def tier(self, text, timeout=0.5):
        return Tier(remote_url.parse(text), NO_CREDENTIALS, timeout, self.messages.append)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_absent(place):
    asked = place.tier(f"{place.one} {place.two}")
    assert asked.get("blob", KEYS[0], 1000) is None
    assert [each.requested for each in asked.remotes] == [1, 1]
    assert [each.faults for each in asked.remotes] == [{}, {}]


@pytest.mark.parametrize("which", ["one", "two"])
def test_found_at_either(place, which):
    place.put(getattr(place, which), KEYS[0])
    asked = place.tier(f"{place.one} {place.two}")
    assert asked.get("blob", KEYS[0], 1000) == BODY
    assert sum(each.found for each in asked.remotes) == 1
    assert sum(each.bytes_in for each in asked.remotes) == len(envelope.seal("blob", KEYS[0], BODY))


def test_a_missing_directory_is_named_and_used_as_soon_as_it_is_there(place, tmp_path):
    text = f"file://{tmp_path}/mnt"
    asked = place.tier(text)
    assert asked.get("blob", KEYS[0], 1000) is None
    assert asked.remotes[0].faults == {"unusable_directory": 1}
    assert place.messages == [f"`{text}` is not used: there is no such directory"]
    (tmp_path / "mnt").mkdir()
    place.put(text, KEYS[0])
    assert place.tier(text).get("blob", KEYS[0], 1000) == BODY


def test_too_large(place):
    place.put(place.one, KEYS[0])
    assert place.tier(place.one).get("blob", KEYS[0], len(BODY) - 1) is None
    asked = place.tier(place.one)
    assert asked.get("blob", KEYS[0], len(BODY)) == BODY
    assert asked.get("blob", KEYS[0], 10) is None


def test_what_is_prefetched_is_asked_for_once(place):
    with FaultyServer(says(200, envelope.seal("blob", KEYS[0], BODY))) as server:
        asked = place.tier(f"{server.url}/p")
        asked.prefetch([("blob", KEYS[0], 1000)] * 3)
        assert asked.get("blob", KEYS[0], 1000) == BODY
        assert asked.get("blob", KEYS[0], 1000) == BODY
        assert len(server.requests) == 1


def test_another_name_is_garbage(place):
    place.put(place.one, KEYS[0], sealed_as=KEYS[1])
    asked = place.tier(place.one)
    assert asked.get("blob", KEYS[0], 1000) is None
    assert asked.remotes[0].faults == {"broken": 1}
    assert place.messages == []


def test_server_of_nothing_but_garbage_is_left_alone(place):
    with FaultyServer(says(200, b"<html>log in first</html>")) as server:
        asked = place.tier(f"{server.url}/p")
        for key in KEYS[:10]:
            assert asked.get("blob", key, 1000) is None
        assert len(server.requests) == 3
        assert place.tier(f"{server.url}/p").get("blob", KEYS[0], 1000) is None
        assert len(server.requests) == 3


@pytest.mark.parametrize("answer", [faulty_server.is_silent, faulty_server.drips])
def test_time_is_waited_once(place, answer):
    with FaultyServer(answer) as server:
        text = f"{server.url}/p"
        asked = place.tier(text)
        began = time.monotonic()
        for key in KEYS:
            assert asked.get("blob", key, 1000) is None
        assert 0.4 < time.monotonic() - began < 1.5
        assert 0.4 < asked.waited < 1
        assert asked.remotes[0].faults.keys() == {"timeout"}
        outage = Breaker(remote_url.parse(text)[0].identity).outage()
        assert outage is not None
        assert outage.word == "timeout"
        began = time.monotonic()
        later = place.tier(text)
        for key in KEYS:
            assert later.get("blob", key, 1000) is None
        assert time.monotonic() - began < 0.2
        assert (later.remotes[0].requested, later.remotes[0].faults) == (0, {"left_alone": 1})
        until = time.strftime("%H:%M:%S", time.localtime(outage.until))
        assert place.messages == [
            f"`{text}` is skipped for 60 s: {outage.text}",
            f"`{text}` is skipped until {until}: {outage.text}",
        ]


def test_one_that_hangs_does_not_hide_the_next(place):
    place.put(place.two, KEYS[0])
    place.put(place.two, KEYS[1])
    with FaultyServer(faulty_server.is_silent) as server:
        asked = place.tier(f"{server.url}/p {place.two}", timeout=5)
        began = time.monotonic()
        assert asked.get("blob", KEYS[0], 1000) == BODY
        assert asked.get("blob", KEYS[1], 1000) == BODY
        assert time.monotonic() - began < 1


def test_absence_is_no_fault_and_bad_credentials_are(place):
    with FaultyServer(says(404)) as server:
        asked = place.tier(f"{server.url}/p")
        for key in KEYS:
            assert asked.get("blob", key, 1000) is None
        assert len(server.requests) == len(KEYS)
        server.answer = says(401)
        text = f"http://user:SECRET@127.0.0.1:{server.port}/q"
        asked = place.tier(text)
        assert asked.get("blob", KEYS[0], 1000) is None
        assert asked.remotes[0].faults == {"bad_credentials": 1}
        assert len(place.messages) == 1
        assert "SECRET" not in place.messages[0] + asked.remotes[0].shown
        before = len(server.requests)
        assert asked.get("blob", KEYS[1], 1000) is None
        assert len(server.requests) == before


def test_remote_that_is_back_is_asked_by_all(place, monkeypatch):
    identity = remote_url.parse(place.one)[0].identity
    Breaker(identity).trip("timeout", "")
    assert place.tier(place.one).get("blob", KEYS[0], 1000) is None
    outage = Breaker(identity).outage()
    assert outage is not None
    monkeypatch.setattr("nvccache.remote.breaker.time.time", lambda: outage.until + 1)
    assert place.tier(place.one).get("blob", KEYS[0], 1000) is None
    assert Breaker(identity).outage() is None


def test_extra_that_is_missing_is_said_and_no_outage(place, own_pool, monkeypatch):
    monkeypatch.setitem(sys.modules, "opendal", None)
    asked = place.tier("s3://bucket")
    assert asked.get("blob", KEYS[0], 1000) is None
    assert asked.get("blob", KEYS[1], 1000) is None
    assert asked.remotes[0].faults == {"not_installed": 1}
    assert len(place.messages) == 1
    assert list(own_pool.iterdir()) == []


PROGRAM = """
import sys
import threading
from nvccache import remote_url
from nvccache.machine import slots
from nvccache.remote.tier import Tier
slots.pool_directory = lambda: ""
asked = Tier(remote_url.parse(sys.argv[1]), {"HOME": "/nonexistent"}, float(sys.argv[2]))
asked.prefetch([("blob", "%064x" % number, 1000) for number in range(20)])
print("asking", flush=True)
asked.get("blob", "%064x" % 0, 1000)
"""


@pytest.mark.parametrize("answer", [faulty_server.is_silent, faulty_server.drips])
def test_process_ends_though_threads_hang(answer):
    with FaultyServer(answer) as server:
        command = [sys.executable, "-c", PROGRAM, f"{server.url}/p", "0.3"]
        done = subprocess.run(command, check=False, timeout=20, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_interrupt_is_heard_while_waiting():
    with FaultyServer(faulty_server.is_silent) as server:
        command = [sys.executable, "-c", PROGRAM, f"{server.url}/p", "30"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"asking\n"
            time.sleep(0.3)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            process.wait(10)
            assert time.monotonic() - began < 5
            assert process.returncode == -signal.SIGINT


def test_who_waits_goes_on_when_the_call_is_to_end():
    with FaultyServer(faulty_server.is_silent) as server:
        asked = Tier(remote_url.parse(f"{server.url}/p"), NO_CREDENTIALS, 30.0)
        began = time.monotonic()
        threading.Timer(0.2, asked.close).start()
        assert asked.get("blob", KEYS[0], 1000) is None
        assert asked.get("blob", KEYS[1], 1000) is None
        assert time.monotonic() - began < 10


def test_what_is_refused_is_absent_from_then_on(place):
    place.put(place.one, KEYS[0])
    place.put(place.two, KEYS[0], b"another")
    asked = place.tier(f"{place.one} {place.two}")
    both = {BODY, b"another"}
    for _ in range(2):
        found = asked.get("blob", KEYS[0], 1000)
        assert found in both
        both.remove(found)
        asked.reject("blob", KEYS[0], found)
    assert asked.get("blob", KEYS[0], 1000) is None
    assert [each.faults for each in asked.remotes] == [{"broken": 1}, {"broken": 1}]


def test_each_remote_may_have_something_else_under_a_key(place):
    place.put(place.one, KEYS[0], b"one")
    place.put(place.two, KEYS[0], b"two")
    place.put(place.two, KEYS[1], b"only two")
    asked = place.tier(f"{place.one} {place.two}")
    assert sorted(asked.each("blob", KEYS[0], 1000)) == [b"one", b"two"]
    assert list(asked.each("blob", KEYS[1], 1000)) == [b"only two"]
    assert list(asked.each("blob", KEYS[2], 1000)) == []
    assert list(asked.each("blob", KEYS[1], 3)) == []


def test_what_has_come_is_looked_at_before_the_rest_is_waited_for(place):
    place.put(place.two, KEYS[0])
    with FaultyServer(faulty_server.is_silent) as server:
        asked = place.tier(f"{server.url}/p {place.two}", timeout=3)
        began = time.monotonic()
        found = asked.each("blob", KEYS[0], 1000)
        assert next(found) == BODY
        assert time.monotonic() - began < 1
        assert list(found) == []
        assert 2 < time.monotonic() - began < 5
        assert asked.remotes[0].faults == {"timeout": 1}
        assert list(asked.each("blob", KEYS[0], 1000)) == [BODY]


def budget_of(seconds):
    return Budget(threading.Condition(), seconds)


def wait(budget, seconds):
    """Wait for a condition that holds after `seconds`."""
    condition, ready = budget._changed, threading.Event()

    def end():
        with condition:
            ready.set()
            condition.notify_all()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    with condition:
        return budget.wait(ready.is_set)


def test_what_is_waited_is_spent():
    budget = budget_of(0.5)
    assert wait(budget, 0.1)
    assert 0.05 <= budget.waited < 0.3
    assert not wait(budget, 5)
    assert 0.5 <= budget.waited < 0.8
    began = time.monotonic()
    assert not wait(budget, 5)
    assert time.monotonic() - began < 0.2


def test_time_without_waiting_is_free():
    budget = budget_of(1)
    time.sleep(0.05)
    assert budget.left == 1


def test_overlapped_waits_count_once():
    budget = budget_of(5)
    threads = [threading.Thread(target=wait, args=(budget, 0.2)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0.15 <= budget.waited < 0.6


def test_a_wait_within_another_takes_nothing_from_it():
    budget = budget_of(5)
    longer = threading.Thread(target=wait, args=(budget, 0.4))
    longer.start()
    time.sleep(0.2)
    wait(budget, 0.05)
    longer.join()
    assert 0.35 <= budget.waited < 0.8


def test_what_holds_is_not_waited_for():
    assert budget_of(0).wait(lambda: True)


def test_pool_starts_no_more_threads_than_it_may():
    pool = Pool(3)
    release = threading.Event()
    running = []
    most = 0
    done = threading.Semaphore(0)

    def work():
        nonlocal most
        running.append("")
        most = max(most, len(running))
        release.wait(10)
        running.pop()
        done.release()

    for _ in range(10):
        pool.start(work)
    time.sleep(0.1)
    release.set()
    for _ in range(10):
        assert done.acquire(timeout=10)
    assert most == 3


def test_a_thread_that_hangs_keeps_no_process():
    program = "import threading; from nvccache.remote.tier import Pool; Pool(1).start(threading.Event().wait)"
    subprocess.run([sys.executable, "-c", program], timeout=20, check=True)
