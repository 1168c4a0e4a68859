from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner

from nvccache.cli.group import commands


@pytest.fixture
def cache_dir(tmp_path, monkeypatch):
    """The path of this test's cache, which does not exist. The environment has no other settings."""
    for name in list(os.environ):
        if name.startswith("NVCCACHE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    path = str(tmp_path / "cache")
    monkeypatch.setenv("NVCCACHE_DIR", path)
    return path


@pytest.fixture
def nvccache(cache_dir):
    """Runs an nvccache command in this process; `lines` and `json` return the output of a successful one."""

    def run(*arguments, **environ):
        result = CliRunner().invoke(commands, arguments, prog_name="nvccache", env=environ)
        assert "nvccache has a bug" not in result.output
        return result

    def lines(*arguments, **environ):
        result = run(*arguments, **environ)
        assert result.exit_code == 0, result.output
        return result.output.splitlines()

    def as_json(*arguments, **environ):
        return json.loads(run(*arguments, "--json", **environ).stdout)

    run.lines, run.json = lines, as_json
    return run
