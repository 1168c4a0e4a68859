"""The suite's own promise: no test can read or change the cache of the user who runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from nvccache import config
from nvccache.store import store
from workspaces import Workspace


def test_no_test_can_create_the_users_default_cache() -> None:
    cache = store.Store(config.load(os.environ).dir)
    cache.add_blob("0" * 64, b"content", compress=False)
    assert "Not a directory" in cache.fault_message
    assert not cache.has_blob("0" * 64)


def test_subprocesses_of_tests_cannot_reach_the_users_cache() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "nvccache", "clean", "--max-size", "0"], capture_output=True, check=False
    )
    assert b"removed" not in shown.stdout


def test_a_workspace_has_a_home_and_a_cache_of_its_own(workspace: Workspace, tmp_path: Path) -> None:
    assert workspace.cache.is_relative_to(tmp_path)
    assert Path(workspace.environ["HOME"]).is_relative_to(tmp_path)
    assert workspace.environ["NVCCACHE_STRICT"] == "1"
