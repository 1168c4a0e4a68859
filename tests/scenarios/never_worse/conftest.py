"""A cache that has one source's object, which each test may damage."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scenarios.never_worse.primed_cache import check_compiles
from scenarios.support.both_ways import object_by_plain
from scenarios.support.toolkits import SOURCE
from workspaces import Workspace, make_workspace


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, light_nvcc: str) -> tuple[Workspace, bytes, Path]:
    workspace = make_workspace(tmp_path_factory.mktemp("shared"), light_nvcc)
    workspace.write("a.cu", SOURCE)
    expected = object_by_plain(workspace, "a.cu")
    check_compiles(workspace, expected)
    saved = workspace.cache.parent / "saved"
    shutil.copytree(workspace.cache, saved)
    return workspace, expected, saved


@pytest.fixture
def primed(shared: tuple[Workspace, bytes, Path]) -> tuple[Workspace, bytes]:
    """A source, its object by plain nvcc, and a cache that has it."""
    workspace, expected, saved = shared
    workspace.write("a.cu", SOURCE)
    workspace.environ["NVCCACHE_DIR"] = str(saved.parent / "cache")
    shutil.rmtree(workspace.cache, ignore_errors=True)
    shutil.copytree(saved, workspace.cache)
    return workspace, expected
