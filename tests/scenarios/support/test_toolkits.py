"""A toolkit with next to no headers has few, wherever its installation keeps them; a full run has all."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from scenarios.support.toolkits import with_real_headers
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default


def lines_read(workspace: Workspace) -> int:
    workspace.write("empty.cu", "")
    done = workspace.plain("-E", "empty.cu")
    assert done.status == 0
    return done.stdout.count(b"\n")


def test_the_tests_use_a_toolkit_without_most_headers_unless_every_case_is_run(
    workspace: Workspace, real_nvcc: str, request: pytest.FixtureRequest
) -> None:
    if Path(workspace.nvcc).parents[1].name.endswith("-whole"):
        pytest.skip("the headers of this toolkit are of another kind")
    whole = lines_read(with_real_headers(workspace, real_nvcc))
    # By its path, and by its name.
    for found in (workspace, dataclasses.replace(workspace, nvcc="nvcc")):
        is_light = lines_read(found) < whole / 4
        assert is_light == (not request.config.getoption("--every-case"))
