"""A toolkit of its own for the workspace of a scenario."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.support.toolkits import light_toolkit, share_digests
from workspaces import Workspace


@pytest.fixture
def toolkit(workspace: Workspace, tmp_path: Path, light_nvcc: str) -> Path:
    """A toolkit with few headers, whose parts can be replaced; the workspace uses it."""
    share_digests(Path(light_nvcc).parents[1], tmp_path / "toolkit")
    return light_toolkit(workspace, tmp_path / "toolkit")
