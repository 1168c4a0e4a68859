"""A dry run is repeated only if something differs that affects its output."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nvccache.store import store
from scenarios.support.both_ways import both_ways
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

SOURCE = (
    "__global__ void kernel(int *x) { *x = STEP; }\nint launch() { kernel<<<1, 1>>>(nullptr); return 1; }\n"
)
LINE = ("-arch=sm_80", "-DSTEP=3", "-c", "a.cu", "-o", "a.o")
REPLAYED = "the dry run is replayed"


class Calls:
    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.count = workspace, 0

    def is_known(self, *argv: str, **variables: str) -> bool:
        """Whether the dry run of a call was replayed; its object is compared with nvcc's."""
        self.count += 1
        workspace, log = self.workspace, self.workspace.directory.parent / "log"
        workspace.write("a.cu", f"// Remark {self.count}.\n{SOURCE}")
        log.unlink(missing_ok=True)
        argv = argv or LINE
        assert both_ways(workspace, *argv, NVCCACHE_LOG=str(log), **variables).status == 0
        return REPLAYED in log.read_text()


@pytest.fixture
def calls(workspace: Workspace) -> Calls:
    calls = Calls(workspace)
    assert not calls.is_known()
    return calls


def test_a_dry_run_is_repeated_for_what_its_output_depends_on(calls, tmp_path):
    """nvcc prints PATH in its dry run, for the tools."""
    assert calls.is_known(), "an edited source"
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


def test_another_directory_needs_one(calls):
    """Below one checkout, with all files that nvcc looks up at the same paths."""
    line = [word.replace("a.cu", "../a.cu") for word in LINE]
    for name in ("one", "two"):
        here, log = calls.workspace.directory / name, calls.workspace.directory.parent / f"{name}.log"
        here.mkdir()
        assert calls.workspace.cached(*line, cwd=here, NVCCACHE_LOG=str(log)).status == 0
        assert REPLAYED not in log.read_text()


def test_what_cannot_be_read_is_asked_again(calls):
    for path in Path(calls.workspace.cache).glob(f"{store.PRIVATE}/*/*"):
        path.write_bytes(path.read_bytes()[:-1])
    assert not calls.is_known()
    assert calls.is_known()


def test_it_is_not_taken_from_a_cache_that_others_may_write_into(calls):
    """Its commands are run."""
    cache = Path(calls.workspace.cache)
    cache.chmod(0o777)
    assert not calls.is_known()
    cache.chmod(0o755)
    assert calls.is_known()
