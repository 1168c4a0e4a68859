"""How files get into the cache directory: at once and whole, with the permissions that the umask allows."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import pytest

from nvccache.files import keys
from nvccache.store import locks
from nvccache.store.directory import Directory
from nvccache.store.store import RECORD, REPLAY

KEY = keys.digest_bytes(b"a key")
OTHER_KEY = keys.digest_bytes(b"another key")
CONTENT = b"\x7fELF" + bytes(range(256)) * 40
DIGEST = keys.digest_bytes(CONTENT)


def _temporary_files(root: Path) -> list[Path]:
    return list((root / "tmp").glob("*"))


@pytest.mark.parametrize("blocked", ["", "tmp", "locks", RECORD])
def test_a_file_in_the_place_of_a_directory_is_trouble_and_no_error(root, cache, blocked):
    (root / blocked).parent.mkdir(parents=True, exist_ok=True)
    (root / blocked).write_text("in the way")
    cache.add_record(RECORD, KEY, b"body")
    assert cache.fault_message
    assert cache.find_record(RECORD, KEY) is None


def test_a_writer_that_fails_leaves_no_temporary_file(root, cache, monkeypatch):
    def fail(*paths, **folders):
        raise OSError(28, "No space left on device")

    cache.add_memo(OTHER_KEY, "x")
    monkeypatch.setattr(os, "rename", fail)
    cache.add_record(RECORD, KEY, b"body")
    assert "No space left" in cache.fault_message
    assert cache.fault == "disk_full"
    assert not _temporary_files(root)


def test_a_record_that_nothing_depends_on_waits_for_no_lock(root, cache, monkeypatch):
    monkeypatch.setattr(locks, "_LOCK_SECONDS", 0.05)
    with locks.hold(Directory(str(root)), KEY[0]):
        for body in (b"first", b"second"):
            cache.add_record(REPLAY, KEY, body, lock=False)
            assert cache.find_record(REPLAY, KEY) == body
    assert not cache.fault_message


class _Meeting(dict[str, int]):
    """Two threads that may read a value at the same time do so before either writes."""

    def __init__(self) -> None:
        super().__init__()
        self.barrier = threading.Barrier(2)

    def get(self, key: str, default: int = 0) -> int:
        value = super().get(key, default)
        with contextlib.suppress(threading.BrokenBarrierError):
            self.barrier.wait(0.5)
        return value


def test_bytes_that_two_threads_add_are_all_counted(cache):
    cache.added = _Meeting()
    threads = [
        threading.Thread(target=cache.add_record, args=(REPLAY, key, bytes(100), False))
        for key in (KEY, KEY[:2] + OTHER_KEY[2:])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.added == {KEY[:2]: 200}
