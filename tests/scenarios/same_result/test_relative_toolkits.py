"""An nvcc that is found by a relative path names its headers by relative paths, and so do we.

nvcc knows its toolkit by the name that it is called by: as typed, or made of an entry of PATH. That name
comes back in dependency files, in `__FILE__`, in line tables and in diagnostics.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
from pathlib import Path

import pytest

from scenarios.support.both_ways import both_ways
from scenarios.support.toolkits import HOST_OPTIONS, replace
from workspaces import Workspace

# A header of the toolkit with a warning, whose name gets into code and line tables.
_HEADER = """\
#warning "the toolkit said"
static const char *const where = __FILE__;
inline const char *whence() { return where; }
__device__ inline float halved(float x) { return x / 2.5f; }
"""
_SOURCE = """\
#include <where.h>
__global__ void kernel(float *x) { *x = halved(*x); }
const char *name() { kernel<<<1, 1>>>(nullptr); return whence(); }
"""


@dataclasses.dataclass(frozen=True)
class Spelling:
    """How nvcc is found from the working directory: the word typed, and what PATH begins with."""

    typed: str
    path: str = ""


# `bin` in the working directory is a link, `here` is the directory of nvcc itself.
SPELLINGS = {
    "typed": Spelling("../toolkit/bin/nvcc"),
    "typed through a link": Spelling("bin/nvcc"),
    "an entry of PATH": Spelling("nvcc", "../toolkit/bin"),
    "an entry that is a link": Spelling("nvcc", "./bin"),
    "an absolute entry with a slash behind it": Spelling("nvcc", "{toolkit}/bin/"),
}


@pytest.fixture
def toolkit(workspace: Workspace, toolkit: Path) -> Path:
    replace(toolkit / "include/where.h", _HEADER, 0o644)
    workspace.write("a.cu", _SOURCE)
    (workspace.directory / "bin").symlink_to(toolkit / "bin")
    return toolkit


def _call(workspace: Workspace, toolkit: Path, spelling: Spelling) -> None:
    """Have the workspace call nvcc so."""
    workspace.nvcc = spelling.typed
    entry = spelling.path.format(toolkit=toolkit, work=workspace.directory)
    if entry:
        workspace.environ["PATH"] = f"{entry}:{workspace.environ['PATH']}"


@pytest.mark.by_default("an entry of PATH")
@pytest.mark.parametrize("rule", SPELLINGS)
def test_a_toolkit_with_a_relative_path_gives_the_files_and_messages_of_nvcc(
    workspace: Workspace, toolkit: Path, rule: str
) -> None:
    """Cold; answered by the record; and by the stages alone."""
    _call(workspace, toolkit, SPELLINGS[rule])
    argv = ("-c", "a.cu", "-o", "a.o", "-MD", "-MF", "a.d", "-MP", "-MT", "goal")
    outcomes = []
    for _ in range(2):
        made = both_ways(workspace, *argv)
        outcomes.append(made.outcome)
    workspace.forget_calls()
    again = both_ways(workspace, *argv)
    assert [*outcomes, again.outcome] == ["miss", "direct_hit", "stage_hit"]
    assert made == again
    is_absolute = SPELLINGS[rule].path.startswith("{")
    assert (b" /" in made["a.d"].replace(b" /usr/", b"")) == is_absolute


def test_below_a_base_directory_the_toolkits_of_two_checkouts_are_distinguished(
    workspace: Workspace, toolkit: Path, tmp_path: Path
) -> None:
    """Each brings its own, found by the same words."""
    workspace.nvcc = "../toolkit/bin/nvcc"
    base = {"NVCCACHE_BASE_DIR": str(workspace.directory)}
    for name, number in (("one", "2.5f"), ("two", "4.5f"), ("three", "2.5f")):
        shutil.copytree(toolkit, workspace.directory / name / "toolkit", symlinks=True)
        header = workspace.directory / name / "toolkit/include/where.h"
        replace(header, _HEADER.replace("2.5f", number), 0o644)
        workspace.write(f"{name}/build/a.cu", _SOURCE)
    outcomes = []
    for name in ("one", "two", "three", "two"):
        argv = ("-c", "a.cu", "-o", "a.o", "-MD")
        here = workspace.directory / name / "build"
        outcomes.append(both_ways(workspace, *argv, cwd=here, **base).outcome)
    assert outcomes[1] != "direct_hit"
    assert outcomes[3] == "direct_hit"


def test_a_relative_nvccache_nvcc_gives_the_dependency_file_of_its_absolute_path(
    workspace: Workspace, toolkit: Path
) -> None:
    """A setting holds for calls from many directories."""
    argv = ("-c", "a.cu", "-o", "a.o", "-MD", *HOST_OPTIONS)
    shim = workspace.directory.parent / "shims"
    assert workspace.run([sys.executable, "-m", "nvccache", "install", shim]).status == 0
    assert workspace.run([shim / "nvcc", *argv], NVCCACHE_NVCC="../toolkit/bin/nvcc").status == 0
    ours = (workspace.directory / "a.d").read_bytes()
    workspace.nvcc = str(toolkit / "bin/nvcc")
    assert workspace.plain(*argv).status == 0
    assert (workspace.directory / "a.d").read_bytes() == ours
