"""Products of device code alone, and sources and outputs that are no regular files."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import pytest

from installations import launcher_of_tree
from scenarios.support.both_ways import both_ways
from scenarios.support.toolkits import HOST_OPTIONS
from workspaces import OLD_ENOUGH, Result, Workspace

pytestmark = pytest.mark.light_by_default
SOURCE = "__global__ void kernel(int *x) { x[0] = @; }\n"
REFUSED = '__global__ void kernel() { asm volatile("no.such.instruction;"); }\n'
CHECKED = "-gencode=arch=compute_90,code=compute_90"
# As CMake has it with CUDA_PTX_COMPILATION.
OF_CMAKE = "--generate-code=arch=compute_90,code=[compute_90,sm_90] -MD -MT a.ptx -MF a.ptx.d -x cu -ptx"
LINES = [
    "-ptx -arch=sm_90 -o out/made",
    OF_CMAKE,
    "-cubin -arch=sm_90",
    f"-fatbin {CHECKED}",
    "-optix-ir -arch=sm_90",
]


@pytest.mark.by_default(LINES[0])
@pytest.mark.parametrize("line", LINES)
def test_the_second_identical_compile_is_a_direct_hit(workspace: Workspace, line: str) -> None:
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


def test_ptx_that_ptxas_rejects_stays_where_nvcc_leaves_it(workspace: Workspace) -> None:
    """What ptxas says of it names it as it is called this time."""
    workspace.write("a.cu", REFUSED)
    for name in ("one.ptx", "two.ptx"):
        made = both_ways(workspace, "-ptx", "-arch=sm_90", "a.cu", "-o", name)
        assert (made.status, list(made.files), made.outcome) == (255, [name], "failed")
        assert f"ptxas {name}, line".encode() in made.stderr


def test_new_ptx_is_checked_by_ptxas_though_an_older_file_exists(workspace: Workspace) -> None:
    """The check covers the new output, whether this call or another program made the file."""
    for text, status in ((REFUSED, 255), (SOURCE.replace("@", "1"), 0)):
        workspace.write("a.cu", text)
        for _ in range(2):
            workspace.write("a.ptx", "made earlier")
            argv = ("-ptx", "-arch=sm_90", "a.cu", "-o", "a.ptx", *HOST_OPTIONS)
            assert workspace.cached(*argv).status == workspace.plain(*argv).status == status
            workspace.forget_calls()


KERNEL = "__global__ void k(int *x) { *x = 1; }\n"
SHELLS = {
    "a pipe": 'cat a.cu | exec "$@"',
    "a file": 'exec "$@" < a.cu',
    "a FIFO": 'cat a.cu > k.cu & exec "$@"',
}


@pytest.mark.by_default("a pipe")
@pytest.mark.parametrize("stdin", SHELLS)
def test_a_source_from_a_pipe_is_read_by_nvcc_only(workspace: Workspace, stdin: str) -> None:
    """A stage would take the text away from nvcc, which then compiles an empty one."""
    workspace.write("a.cu", KERNEL)
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


MADE = ("-ptx", "a.cu", "-o", "a.ptx")
# Of each the command line, the shell's command, and the reason.
FAILING = {
    "closed standard input": (MADE, 'exec "$@" <&-', "standard_input"),
    "rule without dependencies": ((*MADE, "-MF", "a.d"), 'exec "$@"', "dryrun_failed"),
    "directory of a variable": ((*MADE[:-1], "$PLACE/a.ptx"), 'exec "$@"', "shell_expansion"),
}


@pytest.mark.by_default("closed standard input")
@pytest.mark.parametrize("what", FAILING)
def test_a_call_that_fails_under_nvcc_is_no_hit(workspace: Workspace, what: str) -> None:
    """Though a call that differs only in this is cached."""
    line, shell, reason = FAILING[what]
    workspace.write("a.cu", KERNEL)
    (workspace.directory / "$PLACE").mkdir()
    launcher = (str(launcher_of_tree()),)

    def run(shell: str, launcher: Sequence[str], line: Sequence[str]) -> Result:
        time.sleep(OLD_ENOUGH)
        return workspace.run(["sh", "-c", shell, "sh", *launcher, workspace.nvcc, *line], PLACE="nowhere")

    for _ in range(2):
        _, counters = workspace.since(lambda: run('exec "$@"', launcher, MADE))
    assert counters.outcome == "direct_hit"
    (workspace.directory / "a.ptx").unlink()
    expected = run(shell, (), line)
    assert expected.stderr
    result, counters = workspace.since(lambda: run(shell, launcher, line))
    assert result == expected
    assert counters.bypass_reasons == {reason: 1}
    assert not list(workspace.directory.glob("**/a.ptx"))


@pytest.mark.parametrize(
    ("line", "product"),
    [
        (("-c", "a.cu", "-o", "/dev/null"), ""),
        (("-c", "a.cu", "-MD", "-MF", "/dev/null", "-o", "a.o"), "a.o"),
    ],
    ids=["object", "depfile"],
)
def test_a_repeated_compile_to_dev_null_is_a_direct_hit(
    workspace: Workspace, line: tuple[str, ...], product: str
) -> None:
    workspace.write("a.cu", KERNEL)
    mode = os.stat(os.devnull).st_mode
    assert [both_ways(workspace, *line).outcome for _ in range(2)] == ["miss", "direct_hit"]
    assert os.stat(os.devnull).st_mode == mode
    made = both_ways(workspace, *line[:2], "-o", product or "a.o")  # whose content was kept, too
    assert made.files
