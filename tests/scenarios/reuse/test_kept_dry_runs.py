"""A dry run is repeated only if something differs that affects its output."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scenarios.support.both_ways import by_cache
from workspaces import Workspace

LINE = ("-arch=sm_80", "-DSTEP=3", "-ptx", "a.cu", "-o", "a.ptx")
REPLAYED = "the dry run is replayed"


class Calls:
    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.count = workspace, 0

    def is_known(self, *argv: str, cwd: Path | None = None, **variables: str) -> bool:
        """Whether the dry run of a call was replayed, whose source has been edited."""
        self.count += 1
        workspace, log = self.workspace, self.workspace.directory.parent / "log"
        workspace.write("a.cu", f"int edit{self.count};\n__global__ void kernel(int *x) {{ *x = STEP; }}\n")
        log.unlink(missing_ok=True)
        made = by_cache(workspace, *(argv or LINE), cwd=cwd, NVCCACHE_LOG=str(log), **variables)
        assert made.status == 0, made.stderr
        return REPLAYED in log.read_text()


@pytest.fixture
def calls(workspace: Workspace) -> Calls:
    calls = Calls(workspace)
    assert not calls.is_known() and calls.is_known()
    return calls


def test_a_dry_run_is_repeated_when_the_command_line_or_path_changes(calls: Calls, tmp_path: Path) -> None:
    """nvcc prints PATH in its dry run, for the tools."""
    path = f"{tmp_path}/first:{calls.workspace.environ['PATH']}"
    for line in ((*LINE[:1], "-DSTEP=4", *LINE[2:]), ("-lineinfo", *LINE)):
        assert not calls.is_known(*line)
    for variables in ({"PATH": path}, {"NVCC_APPEND_FLAGS": "-lineinfo"}, {"HOME": "/nowhere"}):
        assert not calls.is_known(**variables)
    assert not calls.is_known(NVCCACHE_RECACHE="1")
    assert calls.is_known() and calls.is_known(PATH=path)
    (tmp_path / "first").mkdir()
    (tmp_path / "first/gcc").symlink_to(str(shutil.which("gcc")))
    assert not calls.is_known(PATH=path), "a host compiler that is found first now"


def test_a_dry_run_is_not_reused_in_another_directory(calls: Calls) -> None:
    """Below one checkout, with all files that nvcc looks up at the same paths."""
    line = [word.replace("a.cu", "../a.cu") for word in LINE]
    for name in ("one", "two"):
        (calls.workspace.directory / name).mkdir()
        assert not calls.is_known(*line, cwd=calls.workspace.directory / name)


def test_a_kept_dry_run_is_not_used_from_a_cache_writable_by_others(calls: Calls) -> None:
    """Its commands are run."""
    cache = calls.workspace.cache
    cache.chmod(0o777)
    assert not calls.is_known()
    cache.chmod(0o755)
    assert calls.is_known()
