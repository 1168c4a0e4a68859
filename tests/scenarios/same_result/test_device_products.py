"""Products of device code alone: the second time each is answered by the record of the first.

With `-ptx` nvcc has ptxas check the output file, from sm_90 on.
"""

from __future__ import annotations

import time

import pytest

from scenarios.support.both_ways import both_ways
from scenarios.support.toolkits import HOST_OPTIONS
from workspaces import OLD_ENOUGH, Workspace

pytestmark = pytest.mark.light_by_default

SOURCE = "__global__ void kernel(int *x) { x[0] = @; }\n"
REFUSED = '__global__ void kernel() { asm volatile("no.such.instruction;"); }\n'
CHECKED = "-gencode=arch=compute_90,code=compute_90"
# As CMake has it with CUDA_PTX_COMPILATION.
OF_CMAKE = "--generate-code=arch=compute_90,code=[compute_90,sm_90] -MD -MT a.ptx -MF a.ptx.d -x cu -ptx"
LINES = [
    "-ptx -arch=sm_90 -o out/made",
    "-ptx -arch=sm_80",
    "-ptx -arch=sm_90 -lineinfo",
    OF_CMAKE,
    "-cubin -arch=sm_90",
    f"-fatbin {CHECKED}",
    "-optix-ir -arch=sm_90",
]


@pytest.mark.by_default(LINES[0])
@pytest.mark.parametrize("line", LINES)
def test_the_second_time_it_is_a_direct_hit(workspace: Workspace, line: str) -> None:
    # A workspace is an empty directory, an empty cache and an environment without the developer's settings.
    (workspace.directory / "out").mkdir()
    workspace.write("a.cu", SOURCE.replace("@", "1"))
    # What has just changed might change again: no call that has read it is recorded.
    time.sleep(OLD_ENOUGH)
    argv = ["a.cu", *line.split()]
    # Through nvccache, then by plain nvcc, from the same files. It fails where the status, a message or a
    # byte differs; the outcome is what became of the call through nvccache.
    outcomes = [both_ways(workspace, *argv).outcome for _ in range(2)]
    assert outcomes == ["miss", "direct_hit"]
    # Other device code must not be answered with the old.
    workspace.write("a.cu", SOURCE.replace("@", "2"))
    assert both_ways(workspace, *argv).outcome == "miss"


def test_ptx_that_is_refused_is_where_nvcc_leaves_it(workspace: Workspace) -> None:
    """What ptxas says of it names it as it is called this time."""
    workspace.write("a.cu", REFUSED)
    for name in ("one.ptx", "one.ptx", "two.ptx"):
        made = both_ways(workspace, "-ptx", "-arch=sm_90", "a.cu", "-o", name)
        assert (made.status, list(made.files), made.outcome) == (255, [name], "failed")
        assert f"ptxas {name}, line".encode() in made.stderr


def test_ptx_is_checked_though_another_file_lies_in_its_place(workspace: Workspace) -> None:
    """The check covers the new output, whether this call or another program made the file."""
    for text, status in ((REFUSED, 255), (SOURCE.replace("@", "1"), 0)):
        workspace.write("a.cu", text)
        for _ in range(2):
            workspace.write("a.ptx", "made earlier")
            argv = ("-ptx", "-arch=sm_90", "a.cu", "-o", "a.ptx", *HOST_OPTIONS)
            assert workspace.cached(*argv).status == workspace.plain(*argv).status == status
            workspace.forget_calls()
