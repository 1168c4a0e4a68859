"""The queue of items to send, and the start of the uploader."""

from __future__ import annotations

import os
import time

import pytest

from nvccache import config, remote_url
from nvccache.files import flock
from nvccache.machine import process
from nvccache.remote import outages, uploads
from nvccache.store.directory import Directory

KEY, OTHER = "ab" * 32, "cd" * 32
ITEMS = [("blob-v1", KEY), ("record-v1", OTHER)]
FAR = "0123456789abcdef"
SECOND = "fedcba9876543210"


@pytest.fixture
def directory(root):
    made = Directory(str(root))
    made.prepare()
    return made


@pytest.fixture
def started(monkeypatch):
    """The uploaders that were started, and whether the lock was held then."""
    calls = []

    def start(module, arguments, environ, pass_fds):
        calls.append((module, arguments, environ))
        (lock,) = pass_fds
        assert arguments[1] == str(lock)
        os.dup(lock)  # what the uploader has
        return True

    monkeypatch.setattr(process, "start_detached", start)
    return calls


@pytest.fixture
def send_soon(root, tmp_path, started):
    """Queues items as a call does, with two writable remotes; returns the identities of all three."""
    text = f"file://{tmp_path}/one,rw file://{tmp_path}/two file://{tmp_path}/three,rw"

    def send(items):
        settings = config.load({"HOME": "/", "NVCCACHE_DIR": str(root), "NVCCACHE_REMOTE": text})
        uploads.send_soon(settings, items, {})
        return [remote.identity for remote in remote_url.parse(text)]

    return send


def test_results_are_queued_once_for_each_writable_remote(directory, send_soon, started):
    one, two, three = send_soon([*ITEMS, ITEMS[0]])
    assert [uploads.queued(directory, each) for each in (one, two, three)] == [ITEMS, [], ITEMS]
    send_soon([])
    assert len(started) == 1
    send_soon(ITEMS)
    assert uploads.queued(directory, one) == ITEMS


def test_no_uploader_is_started_while_no_remote_can_be_written(send_soon, started):
    one, _, three = send_soon([])
    outages.begin(one, "timeout", "slow")
    outages.begin(outages.OF_WRITING.format(three), "full", "it is full")
    send_soon(ITEMS)
    assert started == []
    outages.end(one)
    send_soon(ITEMS)
    assert len(started) == 1


def test_uploaded_items_leave_the_queue_and_others_stay(directory):
    uploads.enqueue(directory, [FAR, SECOND], ITEMS)
    for _ in ("by us", "by another process"):
        uploads.remove(directory, FAR, ITEMS[0])
    assert uploads.queued(directory, FAR) == [ITEMS[1]]
    assert uploads.queued(directory, SECOND) == ITEMS


def test_queued_items_are_sent_in_order_and_dropped_after_a_day(directory):
    uploads.enqueue(directory, [FAR], ITEMS)
    now = time.time()
    for item, age in zip(ITEMS, (80_000, 90_000), strict=True):
        os.utime(f"{directory.path}/{uploads._path(FAR, item)}", (now - age, now - age))
    assert uploads.queued(directory, FAR) == ITEMS[::-1]
    uploads.remove_stale(directory, FAR)
    assert uploads.queued(directory, FAR) == ITEMS[:1]


def test_a_queue_that_cannot_be_written_costs_only_the_upload(directory):
    directory.write("remote/" + FAR, b"no folder")
    assert not uploads.enqueue(directory, [FAR], ITEMS)
    assert uploads.queued(directory, FAR) == []


def test_an_uploader_inherits_the_lock_and_no_second_one_is_started(directory, started):
    assert uploads.start_uploader(directory, {"A": "b"}, "log.txt")
    ((module, (path, lock), environ),) = started
    settings = {"NVCCACHE_DIR": directory.path, "NVCCACHE_LOG": os.path.abspath("log.txt")}
    assert (module, path) == ("nvccache.records.send_queued", directory.path)
    assert environ == {"A": "b", **settings}
    assert uploads.take_lock(directory) is None
    assert not uploads.start_uploader(directory, {})
    assert int(lock) > 2


def test_the_upload_lock_is_free_if_no_uploader_could_be_started(directory, monkeypatch):
    monkeypatch.setattr(process, "start_detached", lambda *_: False)
    assert not uploads.start_uploader(directory, {})
    lock = uploads.take_lock(directory)
    assert lock is not None
    flock.release(lock)
