"""Locks on open files: which exclude each other, and until when."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import pytest

from nvccache.files import flock


@pytest.fixture
def opened(tmp_path):
    """Opens one file again and again."""
    descriptors = []

    def open_it() -> int:
        descriptors.append(os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT))
        return descriptors[-1]

    yield open_it
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def test_only_one_open_file_can_hold_a_lock(opened):
    first, second = opened(), opened()
    assert flock.take(first)
    assert flock.take(first)
    assert not flock.take(second)
    flock.release(first)
    assert flock.take(second)


def test_a_released_lock_is_free_even_if_a_child_inherited_the_file(opened):
    descriptor = opened()
    assert flock.take(descriptor)
    sleep = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
    with subprocess.Popen(sleep, stdout=subprocess.PIPE, pass_fds=[descriptor]) as child:
        try:
            assert child.stdout.readline()
            flock.release(descriptor)
            assert flock.take(opened())
        finally:
            child.kill()


def test_locking_an_unlockable_descriptor_raises_and_closes(opened):
    descriptor = opened()
    os.close(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        flock.take(descriptor)
    path_only = os.open("/", os.O_PATH)
    with pytest.raises(OSError):
        flock.take_or_close(path_only)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(path_only)
