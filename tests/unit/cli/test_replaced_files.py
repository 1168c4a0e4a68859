"""Files that commands write: replaced at once, or left as they were; pipes and devices are written to."""

from __future__ import annotations

import os

import pytest

from nvccache.store.store import Store

LINES = {"stats": ["stats", "-o"], "report": ["report", "-o"], "pack": ["pack"]}
each_command = pytest.mark.parametrize("line", LINES.values(), ids=LINES)
each_text = pytest.mark.parametrize("line", [LINES["stats"], LINES["report"]], ids=["stats", "report"])


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


@pytest.mark.parametrize(("line", "kind"), [("stats", "link"), ("stats", "FIFO"), ("report", "link")])
def test_what_is_no_file_is_written_to_and_stays(nvccache, folder, line, kind):
    """A page may exceed a pipe's capacity."""
    path = folder / "out"
    if kind == "link":
        path.symlink_to("target")
    else:
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    before = path.lstat().st_mode
    assert nvccache(*LINES[line], "out").exit_code == 0
    assert path.lstat().st_mode == before
    assert (folder / "target").read_bytes() if kind == "link" else os.read(reader, 1 << 16)


@each_text
def test_a_pipe_without_reader_is_not_waited_for(nvccache, folder, line):
    os.mkfifo(folder / "out")
    result = nvccache(*line, "out")
    assert result.exit_code == 1
    assert result.stderr.endswith("Error: cannot write `out`: no process reads this pipe\n")


@each_text
@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("none/x", "No such file or directory"),
        ("/dev/full", "No space left on device"),
        (".", "Is a directory"),
    ],
)
def test_where_nothing_can_be_written_is_named(nvccache, folder, line, target, why):
    result = nvccache(*line, target)
    assert result.exit_code == (2 if line[0] == "stats" and target == "." else 1)
    assert why in result.stderr or target == "."
    assert os.listdir(folder) == []
