"""A second build directory of the same sources: cicc does not run again, and no stage is wasted.

First seen with CMake and Ninja on many cores: which stage ended first decided what was stored.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from installations import launcher_of_tree
from scenarios.support.both_ways import rebuild
from scenarios.support.toolkits import (
    HOST_COMPILER,
    HOST_OPTIONS,
    SOURCE,
    architectures,
    precede,
)
from workspaces import OLD_ENOUGH, Counters, Workspace

_INCLUDES = '#include "config.h"\n' + SOURCE
_CONFIG = "#define CONFIGURED 1\n"  # what CMake's configure_file writes into each build directory
# Each pass begins with another external definition, so that the ids that the stages make up differ.
_SURE = "#include <assert.h>\n" + _INCLUDES + "int sure(int x) { assert(x); return x; }\n"
_UNLIKE = """
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ int young() { return 9; }
#elif !defined(__CUDA_ARCH__)
int host() { return 8; }
#endif
namespace { __device__ int counter = 3; __global__ void hidden(int *x) { *x = counter; } }
int launch(int *x) { hidden<<<1, 32>>>(x); return 0; }
"""
BOTH = architectures(80, 90)
# Reports the end of cudafe++ a moment after its thread has stored the result.
_LATE = """
import json
import sys
from nvccache import shim
from nvccache.compile import jobs
from nvccache.execution import run_stage
kinds, held, run, wait = {}, [], run_stage.run, jobs.Jobs.wait

def named(call, stage, handle=None):
    kinds[id(handle)] = stage.kind
    return run(call, stage, handle)

def late(self, seconds):
    found = [*held, *wait(self, seconds)]
    late_ones = [job for job in found if kinds.get(id(job.handle)) == "cudafe" and job not in held]
    held[:] = late_ones
    return [job for job in found if job not in late_ones]

run_stage.run, jobs.Jobs.wait = named, late
jobs.Jobs.are_running = property(lambda self: bool(held or self._running))
sys.exit(shim.main())
"""


def build_in(
    workspace: Workspace, directory: str, options: Sequence[str | Path], program: Sequence[str] = ()
) -> Counters:
    """Compile the source in a build directory as CMake does; the object is plain nvcc's."""
    here = workspace.write(f"{directory}/config.h", _CONFIG).parent
    argv = ["-c", workspace.directory / "a.cu", *options, "-o", "a.o"]
    run = [*program, workspace.nvcc] if program else [str(launcher_of_tree()), workspace.nvcc]
    as_set_by_a_shell = {"PWD": str(here), "NVCCACHE_JOBS": "8"}
    result, counters = workspace.since(lambda: workspace.run([*run, *argv], cwd=here, **as_set_by_a_shell))
    assert (result.status, result.stderr) == (0, b"")
    made = (here / "a.o").read_bytes()
    keep = workspace.directory.parent / "keep"
    keep.mkdir(exist_ok=True)
    assert workspace.plain(*argv, "-keep", "-keep-dir", keep, cwd=here).status == 0
    assert made == (here / "a.o").read_bytes()
    return counters


def script(workspace: Workspace, *options: str, before: str = ":") -> Path:
    """A script as host compiler, which may do anything."""
    argv = " ".join((HOST_COMPILER, *options))
    path = workspace.write("hostcxx", f'#!/bin/sh\n: "$WRAPPED"\n{before}\nexec {argv} "$@"\n')
    path.chmod(0o755)
    return path


def starts_of(workspace: Workspace, toolkit: Path, tool: str, commands: str = "") -> Path:
    """Make a tool log each of its starts."""
    noted = workspace.directory.parent / f"starts-{tool}"
    noted.write_text("")
    precede(toolkit, tool, f'echo "$*" >> "{noted}"\n{commands}')
    return noted


@pytest.mark.parametrize("is_known", [True, False])
def test_behind_an_unknown_wrapper_all_goes_by_the_bytes_of_the_text(
    workspace: Workspace, toolkit: Path, is_known: bool
) -> None:
    """The path of a header is in line markers; a script could have the host compiler show it.

    One that writes to a file before it starts the compiler is not rehearsed.
    """
    workspace.write("a.cu", _INCLUDES)
    noted = workspace.write("noted", "")
    options = (*BOTH, "-ccbin", script(workspace, before=":" if is_known else f"echo >> {noted}"))
    first, second = (f"-I{workspace.directory}/{name}" for name in ("one", "deep/two"))
    build_in(workspace, "one", (*options, first))
    ran = build_in(workspace, "deep/two", (*options, second)).ran()
    by_bytes = {} if is_known else {"cudafe": 1, "cicc": 2}
    assert ran == {"host_preprocess": 1, "device_preprocess": 2, "host_compile": 1, **by_bytes}
    assert len(noted.read_text()) == (0 if is_known else 4 * 5), "once for each command of four calls"


def test_a_product_that_names_a_header_of_the_build_directory(workspace: Workspace, toolkit: Path) -> None:
    """PTX with line information names each file that contributes code."""
    source = workspace.write("src/a.cu", _SURE)
    for name in ("one", "two"):
        here = workspace.write(f"{name}/config.h", "__global__ void more(int *x) { *x *= 3; }\n").parent
        time.sleep(OLD_ENOUGH)
        argv = ["-ptx", "-lineinfo", "-arch=sm_80", f"-I{here}", source, "-o", "a.ptx"]
        assert workspace.cached(*argv, *HOST_OPTIONS, cwd=here, PWD=str(here)).status == 0
        assert f'"{here}/config.h"' in (here / "a.ptx").read_text()


def test_a_header_of_another_build_directory_that_the_source_names(
    workspace: Workspace, toolkit: Path
) -> None:
    """It is not the one at the same path in this build directory."""
    first, second = (workspace.write(f"{name}/more.h", "#define MORE 1\n").parent for name in ("one", "two"))
    sure = "int sure(int x) { assert(x); return MORE; }\n"
    text = f'#include <assert.h>\n#include "{first}/more.h"\n{SOURCE}{sure}'
    workspace.write("src/a.cu", text)
    time.sleep(OLD_ENOUGH)
    argv = ["-c", workspace.directory / "src/a.cu", *BOTH]
    rebuild(workspace, *argv, cwd=first, PWD=str(first))
    workspace.write("one/more.h", "#define MORE 2\n")
    time.sleep(OLD_ENOUGH)
    rebuild(workspace, *argv, cwd=second, PWD=str(second))


def test_what_a_thread_has_just_made_is_not_made_twice(workspace: Workspace, toolkit: Path) -> None:
    """It is checked once its stage has ended and was stored, not while another stage is checked."""
    workspace.write("a.cu", _UNLIKE)
    noted = starts_of(workspace, toolkit, "cudafe++", "sleep 1")
    options = (*BOTH, *HOST_OPTIONS)
    late = workspace.write("late.py", _LATE)
    build_in(workspace, "one", options, (sys.executable, str(late)))
    ours = [line for line in noted.read_text().splitlines() if "/nvccache-" in line]
    assert len(ours) == 1
