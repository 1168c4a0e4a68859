"""Stale scratch directories in the temporary directory are removed, and nothing else."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import unprivileged
from nvccache.machine import scratch

_DAY = 24 * 3600


@pytest.fixture
def left(tmp_path) -> Path:
    """A directory no longer in use, with something in it."""
    path = tmp_path / scratch.new_name()
    os.close(scratch.make(str(path)))
    (path / "tmp").mkdir()
    (path / "tmp" / "a.ii").write_text("text")
    return path


def sweep(path: Path, spared: str = "") -> None:
    scratch.sweep(str(path), spared)


def test_what_was_left_goes(left):
    sweep(left.parent)
    assert not left.exists()


def test_what_is_in_use_stays_until_its_call_is_dead(tmp_path):
    path = tmp_path / scratch.new_name()
    script = "import sys, time\nfrom nvccache.machine import scratch\nscratch.make(sys.argv[1])\n"
    command = [sys.executable, "-c", script + "print(flush=True)\ntime.sleep(1000)", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline()
            os.utime(path, (1, 1))
            sweep(tmp_path)
            assert path.exists()
        finally:
            process.kill()
    sweep(tmp_path)
    assert not path.exists()


def test_the_directory_of_the_call_itself_stays(left):
    """The call may not have locked it yet."""
    sweep(left.parent, left.name)
    assert left.exists()


@pytest.mark.parametrize(
    "name",
    [
        "nvccache-",
        "nvccache-0123",
        "nvccache-doctor-x",
        "nvccache-{}x",
        "x-{}",
        "nvccache-{}.d",
        "Nvccache-{}",
    ],
)
def test_what_is_called_otherwise_stays(left, name):
    other = left.with_name(name.replace("{}", left.name.partition("-")[2]))
    left.rename(other)
    sweep(left.parent)
    assert (other / "tmp" / "a.ii").exists()


def test_what_is_no_directory_stays_and_links_are_not_followed(left, tmp_path):
    precious = tmp_path / "precious"
    left.rename(precious)
    (tmp_path / scratch.new_name()).symlink_to(precious)
    (tmp_path / scratch.new_name()).write_text("a file")
    os.mkfifo(tmp_path / scratch.new_name())
    inner = tmp_path / scratch.new_name()
    inner.mkdir()
    (inner / "link").symlink_to(precious)
    before = set(os.listdir(tmp_path))
    sweep(tmp_path)
    assert before - set(os.listdir(tmp_path)) == {inner.name}
    assert (precious / "tmp" / "a.ii").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_what_others_left_stays(left):
    os.chown(left, unprivileged.NOBODY, unprivileged.NOBODY)
    sweep(left.parent)
    assert left.exists()


def test_names_of_others_are_not_even_looked_at(left, monkeypatch):
    other = left.with_name(left.name.replace(f"-{os.geteuid()}-", f"-{os.geteuid() + 1}-"))
    left.rename(other)
    monkeypatch.setattr(scratch, "_remove_if_stale", lambda path, is_from_here: pytest.fail(path))
    sweep(other.parent)


def test_a_sweep_ends_in_time_whatever_is_there(tmp_path, monkeypatch):
    folder = tmp_path / "tmp"
    folder.mkdir()
    for _ in range(8):
        os.close(scratch.make(str(folder / scratch.new_name())))
    monkeypatch.setattr(scratch, "_SWEEP_SECONDS", -1.0)
    sweep(folder)
    assert len(list(folder.iterdir())) == 7, "what there is no time for is left to the next call"


@pytest.mark.parametrize(("age", "is_left"), [(_DAY / 2, True), (_DAY * 2, False)])
def test_what_another_machine_left_goes_when_it_is_old(left, age, is_left):
    """Locks of that machine are invisible here."""
    other = left.with_name(f"nvccache-{os.geteuid()}-" + "0" * 16)
    left.rename(other)
    os.utime(other, (time.time() - age,) * 2)
    sweep(left.parent)
    assert other.exists() == is_left


def test_a_name_is_new_and_a_directory_private(tmp_path):
    assert scratch.new_name() != scratch.new_name()
    path = tmp_path / scratch.new_name()
    os.close(scratch.make(str(path)))
    assert path.stat().st_mode & 0o777 == 0o700
    with pytest.raises(FileExistsError):
        scratch.make(str(path))


def test_a_directory_that_is_swept_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    path = tmp_path / scratch.new_name()
    opens, locks = os.open, fcntl.flock
    swept: list[str] = []
    removed: list[int] = []

    def open_late(name: str, flags: int, *, dir_fd: int | None = None) -> int:
        if not swept and name == str(path):
            swept.append(name)
            sweep(tmp_path)
        return opens(name, flags, dir_fd=dir_fd)

    def lock_late(descriptor: int, operation: int) -> None:
        if operation & fcntl.LOCK_SH and not removed:
            removed.append(descriptor)
            os.rmdir(path)
        locks(descriptor, operation)

    monkeypatch.setattr("os.open", open_late)
    monkeypatch.setattr("fcntl.flock", lock_late)
    descriptor = scratch.make(str(path))
    monkeypatch.undo()
    assert swept and removed
    sweep(tmp_path)
    assert path.exists()
    os.close(descriptor)


def test_without_locks_a_directory_is_made_and_none_is_swept(left, tmp_path, monkeypatch):
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError("no locks")

    monkeypatch.setattr("fcntl.flock", refuse)
    os.close(scratch.make(str(tmp_path / scratch.new_name())))
    sweep(tmp_path)
    assert len(list(tmp_path.glob("nvccache-*"))) == 2


def test_a_directory_that_is_not_there_is_no_trouble(tmp_path):
    sweep(tmp_path / "absent")
    scratch.remove(str(tmp_path / "absent"))
