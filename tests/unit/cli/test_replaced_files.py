"""Files that commands write: replaced at once, or left as they were; pipes and devices are written to."""

from __future__ import annotations

import os

import pytest

from nvccache.store.store import Store

LINES = {"report": ["report", "-o"]}
each_command = pytest.mark.parametrize("line", LINES.values(), ids=LINES)


@pytest.fixture
def folder(cache_dir, tmp_path, monkeypatch):
    """The command's working directory, empty."""
    Store(cache_dir).add_blob("ab" * 32, b"x", compress=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@each_command
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_what_was_there(nvccache, folder, monkeypatch, line, step):
    def full(*_):
        raise OSError(28, "No space left on device")

    (folder / "out").write_text("was here")
    monkeypatch.setattr(os, step, full)
    result = nvccache(*line, "out")
    assert (result.exit_code, "Error: cannot write `out`: No space left" in result.stderr) == (1, True)
    assert os.listdir(folder) == ["out"] and (folder / "out").read_text() == "was here"


def test_a_link_that_is_written_to_stays(nvccache, folder):
    path = folder / "out"
    path.symlink_to("target")
    assert nvccache("report", "-o", "out").exit_code == 0
    assert path.is_symlink() and (folder / "target").read_bytes()


def test_a_pipe_without_reader_is_not_waited_for(nvccache, folder):
    os.mkfifo(folder / "out")
    result = nvccache("report", "-o", "out")
    assert result.exit_code == 1
    assert result.stderr.endswith("Error: cannot write `out`: no process reads this pipe\n")


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("none/x", "No such file or directory"),
        ("/dev/full", "No space left on device"),
        (".", "Is a directory"),
    ],
)
def test_where_nothing_can_be_written_is_named(nvccache, folder, target, why):
    result = nvccache("report", "-o", target)
    assert result.exit_code == 1
    assert why in result.stderr or target == "."
    assert os.listdir(folder) == []
