"""Stale scratch directories in the temporary directory are removed, and nothing else."""

from __future__ import annotations

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
def parent(tmp_path) -> Path:
    """The user's directory, with something in it that keeps it."""
    made = tmp_path / "mine"
    made.mkdir(0o700)
    (made / "kept").mkdir()
    return made


@pytest.fixture
def left(parent) -> Path:
    """A directory no longer in use, with something in it."""
    path = parent / scratch.new_name()
    os.close(scratch.make(str(path)))
    (path / "tmp").mkdir()
    (path / "tmp" / "a.ii").write_text("text")
    return path


def sweep(path: Path, age: float = 2 * _DAY) -> None:
    for entry in path.iterdir() if path.exists() else ():
        os.utime(entry, (time.time() - age,) * 2, follow_symlinks=False)
    scratch.sweep(str(path))


def test_stale_scratch_directories_are_removed_after_a_day(left):
    sweep(left.parent, age=_DAY / 2)
    assert left.exists()
    sweep(left.parent)
    assert not left.exists()


def test_a_scratch_parent_that_another_call_removes_is_created_again(tmp_path, monkeypatch):
    path, mkdir = tmp_path / "mine" / scratch.new_name(), os.mkdir
    removed: list[str] = []

    def create_late(name: str, mode: int) -> None:
        if not removed and name == str(path):
            removed.append(name)
            path.parent.rmdir()
        mkdir(name, mode)

    monkeypatch.setattr("os.mkdir", create_late)
    os.close(scratch.make(str(path)))
    assert removed and path.exists()


def test_a_scratch_directory_is_kept_while_its_process_lives(parent):
    path = parent / scratch.new_name()
    script = "import sys, time\nfrom nvccache.machine import scratch\nscratch.make(sys.argv[1])\n"
    command = [sys.executable, "-c", script + "print(flush=True)\ntime.sleep(1000)", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline()
            sweep(parent)
            assert path.exists()
        finally:
            process.kill()
    sweep(parent)
    assert not path.exists()


def test_a_call_removes_its_scratch_directory_and_stale_ones(left):
    """But not on the way of a call that is alone: its parent is removed with it."""
    path = left.with_name(scratch.new_name())
    os.utime(left, (time.time() - 2 * _DAY,) * 2)
    assert scratch.within(str(path), path.exists)
    assert not path.exists() and not left.exists()
    with pytest.raises(NotADirectoryError):
        scratch.within("/dev/null/below/scratch", lambda: None)


def test_a_file_that_a_dying_compiler_creates_during_the_removal_is_removed_too(left, monkeypatch):
    rmdir = os.rmdir
    created: list[str] = []

    def create_late(name: str) -> None:
        if not created and name == str(left / "tmp"):
            created.append(name)
            (left / "tmp" / "b.ii").write_text("text")
        rmdir(name)

    monkeypatch.setattr("os.rmdir", create_late)
    scratch.remove(str(left))
    assert created and not left.exists()


@pytest.mark.parametrize("name", ["0123", "{}x"])
def test_sweeping_scratch_keeps_directories_with_other_names(left, name):
    other = left.with_name(name.replace("{}", left.name))
    left.rename(other)
    sweep(left.parent)
    assert (other / "tmp" / "a.ii").exists()


def test_sweeping_scratch_removes_only_directories_and_follows_no_links(left, parent):
    precious = parent / "precious"
    left.rename(precious)
    (parent / scratch.new_name()).symlink_to(precious)
    (parent / scratch.new_name()).write_text("a file")
    os.mkfifo(parent / scratch.new_name())
    inner = parent / scratch.new_name()
    inner.mkdir()
    (inner / "link").symlink_to(precious)
    before = set(os.listdir(parent))
    sweep(parent)
    assert before - set(os.listdir(parent)) == {inner.name}
    assert (precious / "tmp" / "a.ii").exists()


@pytest.mark.parametrize("name", ["absent", "sticky"])
def test_scratch_directories_are_private_and_below_tmpdir(tmp_path, name):
    (tmp_path / "sticky").mkdir()
    (tmp_path / "sticky").chmod(0o1777)
    path = Path(scratch.choose({"TMPDIR": str(tmp_path / name)}, str(tmp_path)))
    assert path.parent == tmp_path / name / f"nvccache-{os.geteuid()}"
    if name == "absent":
        with pytest.raises(FileNotFoundError):
            scratch.make(str(path))
        return
    os.close(scratch.make(str(path)))
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o700, 0o700)
    scratch.remove(str(path))
    assert os.listdir(tmp_path / name) == []


def _open_to_all(parent: Path) -> None:
    parent.chmod(0o777)


def _readable_by_others(parent: Path) -> None:
    (parent / f"nvccache-{os.geteuid()}").mkdir(0o755)


def _link(parent: Path) -> None:
    (parent / "elsewhere").mkdir(0o700)
    (parent / f"nvccache-{os.geteuid()}").symlink_to("elsewhere")


def _of_another_user(parent: Path) -> None:
    path = parent / f"nvccache-{os.geteuid()}"
    path.mkdir(0o700)
    os.chown(path, unprivileged.NOBODY, unprivileged.NOBODY)


UNSAFE = [_open_to_all, _readable_by_others, _link]
UNSAFE += [_of_another_user] if os.geteuid() == 0 else []


@pytest.mark.parametrize("spoil", UNSAFE)
def test_scratch_directories_are_in_the_cache_if_others_could_exchange_those_in_tmpdir(tmp_path, spoil):
    temporary, cache = tmp_path / "tmp", tmp_path / "cache"
    temporary.mkdir()
    environ = {"TMPDIR": str(temporary)}
    assert Path(scratch.choose(environ, str(cache))).parents[1] == temporary
    spoil(temporary)
    path = Path(scratch.choose(environ, str(cache)))
    assert path.parents[1] == cache and cache.exists()
    spoil(cache)
    assert Path(scratch.choose(environ, str(cache))).parents[1] == Path("/tmp")
    with pytest.raises(OSError, match="could replace"):
        scratch.make(str(path))
    assert not path.exists()


def test_without_file_locks_scratch_directories_are_made_but_not_swept(left, parent, monkeypatch):
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError("no locks")

    monkeypatch.setattr("fcntl.flock", refuse)
    os.close(scratch.make(str(parent / scratch.new_name())))
    sweep(parent)
    assert len(list(parent.iterdir())) == 3


def test_sweeping_scratch_does_not_list_the_shared_temporary_directory(tmp_path, monkeypatch):
    """Hundreds of thousands of them would delay each call."""
    path = Path(scratch.choose({"TMPDIR": str(tmp_path)}, ""))
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: scandir(folder) if folder != str(tmp_path) else 1 / 0)
    scratch.within(str(path), path.exists)
