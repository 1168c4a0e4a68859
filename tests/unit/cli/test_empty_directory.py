"""An empty directory for the cache, such as a fresh volume: treated as a missing one."""

from __future__ import annotations

import os

import pytest

REPORT = ["report", "--output", "report.html"]
DONE = [
    ["stats"],
    ["stats", "--json"],
    ["stats", "--zero"],
    ["stats", "--by", "source"],
]
DONE += [["clean"], ["clean", "--all"], ["clean", "--matching", "*.cu"]]
DONE += [["clean", "--max-size", "1G", "--dry-run"], ["events"], REPORT]
DONE += [["remote", "push"], ["remote", "status"]]
NOTHING_TO_SHOW = [["explain"]]


@pytest.mark.parametrize("is_made", [False, True], ids=["absent", "empty"])
@pytest.mark.parametrize("line", [*DONE, *NOTHING_TO_SHOW], ids=" ".join)
def test_a_command_ends_as_without_a_directory(nvccache, cache_dir, tmp_path, monkeypatch, line, is_made):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{tmp_path}/far,rw")
    (tmp_path / "far").mkdir()
    if is_made:
        os.mkdir(cache_dir)
    result = nvccache(*line)
    assert result.exit_code == (line in NOTHING_TO_SHOW), result.output
    assert "cache directory" not in result.output
    if is_made:
        assert os.listdir(cache_dir) == []
