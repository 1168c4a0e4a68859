"""Sources and outputs that are no regular files: pipes, devices, standard input by another name."""

from __future__ import annotations

import os

import pytest

from installations import launcher_of_tree
from workspaces import Result, Workspace

pytestmark = pytest.mark.light

SOURCE = "__global__ void k(int *x) { *x = 1; }\n"
SHELLS = {
    "a pipe": 'cat a.cu | exec "$@"',
    "a file": 'exec "$@" < a.cu',
    "a FIFO": 'cat a.cu > k.cu & exec "$@"',
}


@pytest.mark.parametrize("stdin", SHELLS)
def test_source_that_is_read_once_is_read_by_nvcc_only(workspace: Workspace, stdin: str) -> None:
    """A stage would take the text away from nvcc, which then compiles an empty one."""
    workspace.write("a.cu", SOURCE)
    link = workspace.directory / "k.cu"
    os.mkfifo(link) if stdin == "a FIFO" else link.symlink_to("/dev/stdin")
    line = ("-ptx", "k.cu", "-o", "a.ptx")

    def run(*launcher: str) -> Result:
        return workspace.run(["sh", "-c", SHELLS[stdin], "sh", *launcher, workspace.nvcc, *line])

    product = workspace.directory / "a.ptx"
    assert run().status == 0
    expected = product.read_bytes()
    assert b".entry" in expected
    for _ in range(2):
        product.unlink()
        result, counters = workspace.since(lambda: run(str(launcher_of_tree())))
        assert (result.status, product.read_bytes()) == (0, expected)
        assert counters.bypass_reasons == {"standard_input": 1}
