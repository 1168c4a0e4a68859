"""A cache with two units in it."""

from __future__ import annotations

import os

import pytest

from workspaces import Workspace


@pytest.fixture
def compiled(workspace: Workspace) -> Workspace:
    """A workspace in which `one.cu` and `two.cu` were compiled."""
    for name in ("one", "two"):
        workspace.write(f"{name}.cu", f"__global__ void {name}(int *x) {{ *x = {len(name)}; }}\n// {name}\n")
        os.utime(workspace.directory / f"{name}.cu", (1, 1))
        assert workspace.cached("-arch=sm_80", "-c", f"{name}.cu", "-o", f"{name}.o").status == 0
    return workspace
