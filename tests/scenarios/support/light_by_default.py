"""For modules whose tests need no CUDA headers: by default they compile with next to none.

Most of a small compile are the headers that nvcc includes by itself, which have no part in what such tests
show. In a full run they read the real ones. A module imports `nvcc`, which takes the place of the fixture of
that name for its workspaces.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import installations
from scenarios.support.light_toolkit import light_toolkit_on_path, remember_digests
from workspaces import Workspace, make_workspace


@pytest.fixture(scope="session")
def light_nvcc(real_nvcc: str, workers_base: Path, request: pytest.FixtureRequest) -> str:
    """An nvcc of a light toolkit, one for all workers; the real one in a full run."""
    if request.config.getoption("--every-case"):
        return real_nvcc

    def make(folder: Path) -> None:
        folder.mkdir()
        workspace = make_workspace(folder, real_nvcc)
        remember_digests(workspace, light_toolkit_on_path(workspace, folder / "toolkit"))
        (folder / "nvcc").write_text(workspace.nvcc)

    return (installations.shared(workers_base, "light", make) / "nvcc").read_text()


@pytest.fixture(scope="session")
def nvcc(light_nvcc: str) -> str:
    return light_nvcc


def with_real_headers(workspace: Workspace, real_nvcc: str) -> Workspace:
    """The workspace of a test that needs them all the same."""
    path = f"{Path(real_nvcc).parent}:{workspace.environ['PATH']}"
    return dataclasses.replace(workspace, nvcc=real_nvcc, environ={**workspace.environ, "PATH": path})
