"""The queue of items to send, and the start of the uploader."""

from __future__ import annotations

import errno
import multiprocessing
import os

import pytest

from nvccache import config, remote_url
from nvccache.files import flock
from nvccache.machine import process
from nvccache.remote import breaker, uploads
from nvccache.store import layout
from nvccache.store.directory import Directory

KEY, OTHER = "ab" * 32, "cd" * 32
ITEMS = [("blob-v1", KEY), ("record-v1", OTHER)]
FAR = "0123456789abcdef"


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
        assert arguments[2] == str(lock)
        os.dup(lock)  # what the uploader has
        return True

    monkeypatch.setattr(process, "start_detached", start)
    return calls


def queued(directory, identity=FAR):
    return [item for name in uploads.pending(directory, identity) for item in uploads.read(directory, name)]


def test_what_a_call_has_made_is_queued_once_for_each_remote_that_is_written_to(
    directory, started, root, tmp_path
):
    text = f"file://{tmp_path}/one,rw file://{tmp_path}/two file://{tmp_path}/three,rw"
    settings = config.load({"HOME": "/", "NVCCACHE_DIR": str(root), "NVCCACHE_REMOTE": text})
    uploads.send_soon(settings, [*ITEMS, ITEMS[0]], {})
    one, two, three = (remote.identity for remote in remote_url.parse(text))
    assert [queued(directory, each) for each in (one, two, three)] == [ITEMS, [], ITEMS]
    assert [arguments[1] for _, arguments, _ in started] == [one, three]
    uploads.send_soon(settings, [], {})
    assert len(uploads.pending(directory)) == 2
    assert (uploads.count_pending(directory), uploads.count_pending(directory, one)) == (4, 2)


def test_the_newest_comes_first(directory):
    for number in range(3):
        uploads.enqueue(directory, FAR, [("blob-v1", f"{number:064x}")])
    assert [key for _, key in queued(directory)] == [f"{number:064x}" for number in (2, 1, 0)]


def _enqueue_many(path, start):
    for number in range(start, start + 50):
        uploads.enqueue(path, FAR, [("blob-v1", f"{number:064x}")])


def test_processes_at_once_lose_nothing(directory):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_enqueue_many, args=(directory.path, 50 * n)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(set(queued(directory))) == 200


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
def test_what_cannot_be_queued_is_no_trouble(directory, monkeypatch, number):
    def fail(*_):
        raise OSError(number, "no")

    monkeypatch.setattr(Directory, "write", fail)
    assert not uploads.enqueue(directory, FAR, ITEMS)


@pytest.mark.parametrize(
    "line",
    ["../x-v1 " + KEY, "blob-v1 ../../" + KEY, "blob-v1 short", "0 blob-v1 " + KEY, "blob-v1", "B-v1 " + KEY],
)
def test_a_line_that_is_none_is_passed_over(directory, line):
    name = f"{FAR}-{1:016x}-00000000.queue"
    directory.write(f"remote/{name}", f"{line}\nblob-v1 {KEY}\n".encode())
    assert uploads.read(directory, name) == [("blob-v1", KEY)]


def test_what_is_no_file_of_the_queue_is_passed_over(directory, root, tmp_path):
    uploads.enqueue(directory, FAR, ITEMS)
    (root / "remote" / f"{FAR}-x.queue").write_text("blob-v1 " + KEY)
    os.symlink(tmp_path / "elsewhere", root / "remote" / f"{FAR}-{2:016x}-00000000.queue")
    assert len(uploads.pending(directory, FAR)) == 2
    assert queued(directory) == ITEMS


def test_an_uploader_gets_the_lock_and_no_second_one_is_started(directory, started):
    uploads.enqueue(directory, FAR, ITEMS)
    assert uploads.start_uploader(directory, FAR, {"A": "b"}, "log.txt")
    ((module, (path, identity, lock), environ),) = started
    settings = {"NVCCACHE_DIR": directory.path, "NVCCACHE_LOG": os.path.abspath("log.txt")}
    assert (module, path, identity) == ("nvccache.records.send_queued", directory.path, FAR)
    assert environ == {"A": "b", **settings}
    assert uploads.take_lock(directory, FAR) is None
    assert not uploads.start_uploader(directory, FAR, {})
    assert int(lock) > 2


def test_the_lock_is_free_where_no_uploader_could_be_started(directory, started, monkeypatch):
    monkeypatch.setattr(process, "start_detached", lambda *_: False)
    assert not uploads.start_uploader(directory, FAR, {})
    lock = uploads.take_lock(directory, FAR)
    assert lock is not None
    flock.release(lock)


@pytest.mark.parametrize("for_writing", [False, True])
def test_none_is_started_for_a_remote_that_is_left_alone(directory, started, for_writing):
    guard = breaker.Breaker(FAR, for_writing=for_writing)
    guard.trip("timeout", "slow")
    assert not uploads.start_uploader(directory, FAR, {})
    guard.close()
    assert started == []
    assert uploads.start_uploader(directory, FAR, {})


def test_the_layout_knows_every_name(directory):
    uploads.enqueue(directory, FAR, ITEMS)
    lock = uploads.take_lock(directory, FAR)
    assert lock is not None
    flock.release(lock)
    found = sorted(path for path, _, _ in layout.outside_buckets(directory) if path.startswith("remote/"))
    assert len(found) == 2
    assert layout.OUTSIDE_BUCKETS[uploads.FOLDER].pattern == uploads.NAME.pattern
    # Items that wait for a day are removed; a lock may be held.
    assert [layout.is_garbage(path) for path in found] == [path.endswith(".queue") for path in found]
