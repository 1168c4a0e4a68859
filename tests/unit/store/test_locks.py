"""The locks of the cache: which exclude each other, and the modules they load."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from nvccache.files import flock
from nvccache.store import event_line, event_totals, eviction, locks
from nvccache.store.directory import Directory, LockTimeoutError
from nvccache.store.event_line import Event
from nvccache.store.store import RECORD, Store

KEY = "ab" * 32


@pytest.fixture
def directory(tmp_path) -> Directory:
    return Directory(str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(locks, "_LOCK_SECONDS", 0.05)


@pytest.mark.parametrize("first", [flock.take, locks.with_filelock])
@pytest.mark.parametrize("second", [flock.take, locks.with_filelock])
def test_adding_and_removing_exclude_each_other(directory, first, second):
    """Even though one uses flock and the other filelock."""
    with locks.hold(directory, "a", take=first):
        other = Directory(directory.path)
        with (
            pytest.raises(LockTimeoutError, match=r"holds the lock `.*/locks/a\.lock`"),
            locks.hold(other, "a", take=second),
        ):
            pass
        assert other.seconds_waited >= 0.05
        with locks.hold(Directory(directory.path), "b", take=second):
            pass
    with locks.hold(Directory(directory.path), "a", take=second):
        pass


def test_a_lock_with_its_own_time_limit_uses_up_none_of_the_calls(directory):
    with locks.hold(directory, "journal", 0.0):
        with pytest.raises(LockTimeoutError), locks.hold(Directory(directory.path), "journal", 0.02):
            pass
        assert not directory.seconds_waited


LOADS = """
import sys
from nvccache.store import event_line, event_totals, eviction, store
cache = store.Store(sys.argv[1])
cache.add_record(store.RECORD, "ab" * 32, b"body")
eviction.count_and_limit(sys.argv[1], cache.added, 0)
event_line.append(sys.argv[1], event_line.Event("miss"))
print("filelock" in sys.modules)
getattr(sys.modules["nvccache.store." + sys.argv[2]], sys.argv[3])(sys.argv[1])
print("filelock" in sys.modules)
"""


@pytest.mark.parametrize(
    ("module", "function", "loads"),
    [("eviction", "clear", True), ("event_totals", "fold", True), ("event_totals", "read", False)],
)
def test_only_removing_and_folding_load_filelock(directory, module, function, loads):
    """Loading it makes a miss a tenth slower."""
    argv = [sys.executable, "-c", LOADS, directory.path, module, function]
    assert subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout == f"False\n{loads}\n"


def test_eviction_and_log_folding_respect_a_publishers_lock(directory, monkeypatch):
    cache = Store(directory)
    cache.add_record(RECORD, KEY, b"body")
    event_line.append(directory, Event("miss"))
    monkeypatch.setattr(event_line, "LARGE", 1)
    other = Directory(directory.path)
    log = f"{directory.path}/journal/{event_line.LOG}"
    with locks.hold(directory, KEY[0]), pytest.raises(LockTimeoutError):
        eviction.clear(other)
    assert cache.find_record(RECORD, KEY) == b"body"
    with locks.hold(directory, "journal", 0.0):
        event_totals.fold(other)
        assert os.path.getsize(log)
    event_totals.fold(other)
    assert not os.path.exists(log)
