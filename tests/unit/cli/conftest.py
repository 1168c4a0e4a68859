from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

from nvccache.cli.group import commands


@pytest.fixture
def cache_dir(tmp_path, monkeypatch):
    """Where the cache of this test would be; not made. The environment is otherwise free of settings."""
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
    """Runs one command line of nvccache in this process."""

    def run(*arguments, **environ):
        result = CliRunner().invoke(commands, arguments, prog_name="nvccache", env=environ)
        assert "nvccache has a bug" not in result.output
        return result

    return run
