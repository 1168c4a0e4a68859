"""Processes: signals, many calls at once, eviction under them, recursion, and streams that are closed."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import pytest

from installations import launcher_of_tree
from scenarios.support.at_once import end, ending, start
from scenarios.support.both_ways import object_by_plain
from scenarios.support.toolkits import HOST_OPTIONS, SOURCE, copy_toolkit, wrap
from workspaces import OLD_ENOUGH, Result, Workspace, make_workspace

pytestmark = pytest.mark.light_by_default

WARNING = "static int unused() { return 1; }\n" + SOURCE


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory, nvcc: str) -> dict[int, bytes]:
    """STEP -> the object that plain nvcc makes."""
    workspace = make_workspace(tmp_path_factory.mktemp("plain"), nvcc)
    found = {}
    for step in range(2):
        workspace.write("a.cu", source_of(step))
        found[step] = object_by_plain(workspace, "a.cu")
    return found


def source_of(step: int) -> str:
    """A source without internal names, whose object does not depend on its path."""
    return SOURCE.replace("STEP 1", f"STEP {step + 10}")


def test_a_signal_that_the_caller_ignores_is_ignored(workspace: Workspace, tmp_path: Path) -> None:
    """As under nohup."""
    workspace.write("a.cu", SOURCE)
    argv = f'trap "" HUP; exec "{sys.executable}" -m nvccache "$@"'
    toolkit = copy_toolkit(workspace, tmp_path / "toolkit")
    ptxas = toolkit / "bin/ptxas"
    wrap(ptxas, ptxas.resolve(), before="kill -HUP $PPID")
    result = workspace.run(["sh", "-c", argv, "sh", workspace.nvcc, "-c", "a.cu", "-o", "a.o", *HOST_OPTIONS])
    assert (result.status, result.stderr) == (0, b"")
    assert (workspace.directory / "a.o").exists()


def compile_all(workspace: Workspace, steps: list[int], **variables: str) -> list[bytes]:
    """Compile at the same time, each into its own directory; the objects."""
    folders = [workspace.write(f"{number}/a.cu", source_of(step)).parent for number, step in enumerate(steps)]
    time.sleep(OLD_ENOUGH)
    with ending(workspace):
        calls = [start(workspace, "-c", "a.cu", "-o", "a.o", cwd=here, **variables) for here in folders]
        assert [end(call) for call in calls] == [Result(0, b"", b"")] * len(calls)
    return [(folder / "a.o").read_bytes() for folder in folders]


def test_concurrent_eviction_leaves_all_objects_correct(
    workspace: Workspace, objects: dict[int, bytes]
) -> None:
    """The same and different inputs, with one initially empty cache that is soon too small."""
    steps = [0, 1]
    for _ in ("cold", "warm"):
        found = compile_all(workspace, steps, NVCCACHE_MAX_SIZE="60K")
        assert found == [objects[step] for step in steps]
    calls = workspace.counters().calls
    assert calls["fault"] == calls["failed"] == calls["bypass"] == 0


def test_removing_the_cache_during_a_compile_leaves_the_object_correct(
    workspace: Workspace, objects: dict[int, bytes], tmp_path: Path
) -> None:
    workspace.write("a.cu", source_of(0))
    log = tmp_path / "log"
    time.sleep(OLD_ENOUGH)
    with ending(workspace):
        call = start(workspace, "-c", "a.cu", "-o", "a.o", NVCCACHE_LOG=str(log))
        while call.poll() is None:
            shutil.rmtree(workspace.cache, ignore_errors=True)
            time.sleep(0.02)
        assert end(call) == Result(0, b"", b"")
    assert (workspace.directory / "a.o").read_bytes() == objects[0], log.read_text()


@pytest.mark.parametrize("redirection", ["<&- >&- 2>&-", "2>/dev/full"])
def test_closed_or_broken_streams_fail_a_compile_only_where_they_fail_nvcc(
    workspace: Workspace, redirection: str
) -> None:
    """A compile with a warning is not disturbed, unless plain nvcc is.

    Plain nvcc fails in some of these cases, since its host compiler could not write; there is no object
    then, so doing better than nvcc misleads no build.
    """
    workspace.write("a.cu", WARNING)
    argv = ["-c", "a.cu", "-o", "a.o", "-Xcompiler", "-Wall", *HOST_OPTIONS]

    def status_of(*command: str | Path) -> int:
        return workspace.run(["sh", "-c", f'exec "$@" {redirection}', "sh", *command, *argv]).status

    allowed = {0, status_of(workspace.nvcc)}
    for level in ("nothing is stored", "stages", "direct"):
        if level == "stages":
            workspace.forget_calls()
        (workspace.directory / "a.o").unlink(missing_ok=True)
        status = status_of(launcher_of_tree(), workspace.nvcc)
        assert status in allowed
        assert (workspace.directory / "a.o").exists() == (status == 0)
    assert b"unused" in workspace.cached(*argv).stderr
