"""The queue of what has still to be sent, and the start of who sends it."""

from __future__ import annotations

import errno
import multiprocessing
import os
import time

import pytest

from nvccache import remote_url
from nvccache.machine import process
from nvccache.remote import breaker, uploads
from nvccache.store import layout
from nvccache.store.directory import Directory

KEY, OTHER = "ab" * 32, "cd" * 32
ITEMS = [("blob-v1", KEY), ("stage-v5", OTHER)]


@pytest.fixture
def directory(root):
    made = Directory(str(root))
    made.prepare()
    return made


@pytest.fixture
def remotes(tmp_path):
    return remote_url.parse(f"file://{tmp_path}/one,rw file://{tmp_path}/two")


@pytest.fixture
def started(monkeypatch, tmp_path):
    """The uploaders that were started."""
    monkeypatch.setattr(breaker.slots, "pool_directory", lambda: str(tmp_path))
    calls = []
    monkeypatch.setattr(process, "start_detached", lambda *arguments: calls.append(arguments) or True)
    return calls


def queued(directory, remote):
    found = {}
    for name, _ in uploads.pending(directory, remote.identity):
        found |= uploads.read(directory, name)
    return found


def test_items_are_queued_once_and_only_for_remotes_that_are_written_to(directory, remotes):
    assert uploads.enqueue(directory, remotes, [*ITEMS, ITEMS[0]])
    assert queued(directory, remotes[0]) == dict.fromkeys(ITEMS, 0)
    assert queued(directory, remotes[1]) == {}
    assert not uploads.enqueue(directory, remotes[1:], ITEMS)
    assert not uploads.enqueue(directory, remotes, [])
    assert len(uploads.pending(directory)) == 1


def test_the_oldest_comes_first(directory, remotes):
    for number in range(3):
        uploads.enqueue(directory, remotes, [("blob-v1", f"{number:064x}")])
    assert [key for _, key in queued(directory, remotes[0])] == [f"{number:064x}" for number in range(3)]


def _enqueue_many(path, text, start):
    for number in range(start, start + 50):
        uploads.enqueue(path, remote_url.parse(text), [("blob-v1", f"{number:064x}")])


def test_processes_at_once_lose_nothing(directory, remotes, tmp_path):
    text = f"file://{tmp_path}/one,rw"
    workers = [
        multiprocessing.get_context("fork").Process(target=_enqueue_many, args=(directory.path, text, 50 * n))
        for n in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(queued(directory, remotes[0])) == 200


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
def test_what_cannot_be_queued_is_no_trouble(directory, remotes, monkeypatch, number):
    def fail(*_):
        raise OSError(number, "no")

    monkeypatch.setattr(Directory, "write", fail)
    assert not uploads.enqueue(directory, remotes, ITEMS)


def test_nothing_is_queued_for_a_remote_that_forbids_writing(directory, remotes):
    state = uploads.State()
    state.refused_until = time.time() + 60
    uploads.write_state(directory, remotes[0].identity, state)
    assert not uploads.enqueue(directory, remotes, ITEMS)
    state.refused_until = time.time() - 1
    uploads.write_state(directory, remotes[0].identity, state)
    assert uploads.enqueue(directory, remotes, ITEMS)


STATE = (
    '{"sent": 1, "bytes": 1, "present": 1, "dropped": 1, "word": "", "text": "",'
    ' "at": %s, "refused_until": 0}'
)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", '{"sent": 1}', '{"sent": "x"}', "null", "\0"),
        *(STATE % time for time in ("NaN", "Infinity", "-1", "1e300")),
    ],
)
def test_a_state_that_is_none_counts_as_nothing(directory, remotes, text):
    directory.write(f"remote/{remotes[0].identity}.state", text.encode())
    assert uploads.state_of(directory, remotes[0].identity).sent == 0


def test_no_state_stops_uploads_for_good(directory, remotes):
    state = uploads.State()
    state.refused_until = 1e12
    state.fail("denied", "x" * 1000)
    uploads.write_state(directory, remotes[0].identity, state)
    found = uploads.state_of(directory, remotes[0].identity)
    assert found.refused_until < time.time() + 601
    assert (found.word, len(found.text)) == ("denied", 400)


def test_what_was_found_under_a_wrong_clock_is_no_later_than_now(directory, remotes):
    """Else what goes wrong from now on would be taken for older than what was sent last."""
    directory.write(f"remote/{remotes[0].identity}.state", (STATE % "4e9").encode())
    assert 0 < uploads.state_of(directory, remotes[0].identity).at <= time.time()


@pytest.mark.parametrize(
    "line",
    [
        "0 ../x-v1 " + KEY,
        "0 blob-v1 ../../" + KEY,
        "0 blob-v1 short",
        "x blob-v1 " + KEY,
        "0 blob-v1",
        "0 B-v1 " + KEY,
    ],
)
def test_a_line_that_is_none_is_passed_over(directory, remotes, line):
    name = f"{remotes[0].identity}-{1:016x}-00000000.queue"
    directory.write(f"remote/{name}", f"{line}\n3 blob-v1 {KEY}\n".encode())
    assert uploads.read(directory, name) == {("blob-v1", KEY): 3}


def test_what_is_no_file_of_the_queue_is_passed_over(directory, remotes, root, tmp_path):
    uploads.enqueue(directory, remotes, ITEMS)
    (root / "remote" / f"{remotes[0].identity}-x.queue").write_text("0 blob-v1 " + KEY)
    os.symlink(tmp_path / "elsewhere", root / "remote" / f"{remotes[0].identity}-{2:016x}-00000000.queue")
    assert len(uploads.pending(directory, remotes[0].identity)) == 2
    assert queued(directory, remotes[0]) == dict.fromkeys(ITEMS, 0)


def test_the_oldest_go_beyond_the_bounds_and_are_counted(directory, remotes):
    identity = remotes[0].identity
    for number in range(6):
        uploads.enqueue(directory, remotes, [("blob-v1", f"{number:064x}")])
    size = uploads.pending(directory)[0][1]
    uploads.trim(directory, identity, most_bytes=4 * size)
    assert [key for _, key in queued(directory, remotes[0])] == [f"{number:064x}" for number in range(2, 6)]
    uploads.trim(directory, identity, most_files=1)
    assert [key for _, key in queued(directory, remotes[0])] == [f"{5:064x}"]
    assert uploads.state_of(directory, identity).dropped == 5


def test_an_uploader_is_started_where_something_waits(directory, remotes, started, tmp_path):
    assert not uploads.ensure_running(directory, remotes, {})
    uploads.enqueue(directory, remotes, ITEMS)
    assert uploads.ensure_running(directory, remotes, {"A": "b"}, "log.txt")
    settings = {"NVCCACHE_DIR": directory.path, "NVCCACHE_LOG": os.path.abspath("log.txt")}
    assert started == [("nvccache.records.send_queued", [directory.path], {"A": "b", **settings})]
    assert not uploads.ensure_running(directory, remotes[1:], {})


def test_no_second_one_is_started(directory, remotes, started):
    uploads.enqueue(directory, remotes, ITEMS)
    with uploads.sending(directory, remotes[0].identity) as is_ours:
        assert is_ours
        assert not uploads.ensure_running(directory, remotes, {})
    assert uploads.ensure_running(directory, remotes, {})


def test_none_is_started_for_a_remote_that_is_out(directory, remotes, started):
    uploads.enqueue(directory, remotes, ITEMS)
    for for_writing in (False, True):
        guard = breaker.Breaker(remotes[0].identity, for_writing=for_writing)
        guard.trip("timeout", "slow")
        assert not uploads.ensure_running(directory, remotes, {})
        guard.close()
    assert started == []
    assert uploads.ensure_running(directory, remotes, {})


def test_what_is_queued_while_somebody_looks_is_not_forgotten(directory, remotes, started, monkeypatch):
    """Whoever looks for work holds the lock for a moment, in which others take it for an uploader."""
    real = uploads.flock.let_go

    def let_go_later(descriptor):
        uploads.enqueue(directory, remotes, ITEMS)
        assert not started
        real(descriptor)

    monkeypatch.setattr(uploads.flock, "let_go", let_go_later)
    assert uploads.ensure_running(directory, remotes, {})


def test_the_layout_knows_every_name(directory, remotes):
    uploads.enqueue(directory, remotes, ITEMS)
    uploads.write_state(directory, remotes[0].identity, uploads.State())
    with uploads.sending(directory, remotes[0].identity):
        pass
    found = {path for path, _, _ in layout.beside(directory) if path.startswith("remote/")}
    assert len(found) == 3
    assert layout.BESIDE[uploads.FOLDER].pattern == uploads.NAME.pattern
    assert not any(map(layout.is_left_behind, found))
