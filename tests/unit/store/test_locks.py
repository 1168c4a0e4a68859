"""The locks of the cache: they exclude each other, and a miss does not load filelock for them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from nvccache.files import flock
from nvccache.store import event_line, event_totals, locks
from nvccache.store.directory import Directory
from nvccache.store.event_line import Event


@pytest.fixture
def directory(tmp_path) -> Directory:
    return Directory(str(tmp_path / "cache"))


@pytest.mark.parametrize("first", [flock.take, locks.with_filelock])
@pytest.mark.parametrize("second", [flock.take, locks.with_filelock])
def test_only_one_process_holds_a_lock(directory, first, second):
    """Even though one uses flock and the other filelock."""
    with locks.hold(directory, "a", 0.0, first):
        with (
            pytest.raises(TimeoutError, match=r"holds the lock `.*/locks/a\.lock`"),
            locks.hold(directory, "a", 0.02, second),
        ):
            pass
        with locks.hold(directory, "b", 0.0, second):
            pass
    with locks.hold(directory, "a", 0.0, second):
        pass


LOADS = """
import sys
from nvccache.store import event_line, event_totals, eviction, store
cache = store.Store(sys.argv[1])
cache.add_record(store.RECORD, "ab" * 32, b"body")
eviction.count_and_limit(sys.argv[1], cache.added, 0)
event_line.append(sys.argv[1], event_line.Event("miss"))
event_totals.read(sys.argv[1])
print("filelock" in sys.modules)
event_totals.fold(sys.argv[1])
print("filelock" in sys.modules)
"""


def test_filelock_is_imported_only_to_merge_the_event_log(directory):
    """Loading it makes a miss a tenth slower."""
    argv = [sys.executable, "-c", LOADS, directory.path]
    assert subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout == "False\nTrue\n"


def test_the_event_log_is_not_merged_while_another_process_holds_its_lock(directory, monkeypatch):
    event_line.append(directory, Event("miss"))
    monkeypatch.setattr(event_line, "LARGE", 1)
    other = Directory(directory.path)
    log = f"{directory.path}/journal/{event_line.LOG}"
    with locks.hold(directory, "journal", 0.0):
        event_totals.fold(other)
        assert os.path.getsize(log)
    event_totals.fold(other)
    assert not os.path.exists(log)
