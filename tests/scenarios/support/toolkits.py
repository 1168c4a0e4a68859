"""Toolkits whose parts can be replaced, and those with the real tools and few headers.

With few headers a compile costs a tenth of a second. Tools can be replaced by scripts that wait for
something, fail or hang, and then become the real one.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from nvccache.store import directory, store
from workspaces import OLD_ENOUGH, REMEMBERED, Workspace

CCBIN = os.environ.get("NVCCACHE_TEST_CCBIN", "")
HOST_COMPILER = CCBIN or shutil.which("g++") or "g++"
HOST_OPTIONS = ("-ccbin", CCBIN) if CCBIN else ()

SOURCE = """
#ifndef STEP
#define STEP 1
#endif
__global__ void kernel(float *values) { values[threadIdx.x] = values[threadIdx.x] * 2.5f / 3.5f + STEP; }
int launch(float *values) { kernel<<<1, 32>>>(values); return STEP; }
"""
# What a stub needs of cuda_runtime.h. The macro keeps the internal headers from warning.
_RUNTIME = """#pragma once
#define __CUDA_INCLUDE_COMPILER_INTERNAL_HEADERS__
#include "crt/host_config.h"
#include "builtin_types.h"
#include "crt/host_defines.h"
#include "device_launch_parameters.h"
#include <stddef.h>
#include <stdlib.h>
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define cudaLaunchKernel cudaLaunchKernel_ptsz
#endif
extern "C" unsigned __cudaPushCallConfiguration(dim3, dim3, size_t = 0, cudaStream_t = 0);
extern "C" cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);
extern "C" cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
#if __CUDACC_VER_MAJOR__ >= 12
extern "C" cudaError_t __cudaGetKernel(cudaKernel_t *, const void *);
extern "C" cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void **, size_t, cudaStream_t);
static inline cudaError_t __cudaLaunchKernel_helper(cudaKernel_t kernel, dim3 grid, dim3 block,
                                                    void **arguments, size_t bytes, cudaStream_t stream) {
  return __cudaLaunchKernel(kernel, grid, block, arguments, bytes, stream);
}
#endif
"""
BIN = {
    "cicc": "nvvm/bin/cicc",
    "cudafe++": "bin/cudafe++",
    "ptxas": "bin/ptxas",
    "fatbinary": "bin/fatbinary",
}
_SUFFICES: dict[str, bool] = {}  # nvcc -> whether it compiles with these headers, which one test finds out


def toolkit_of(workspace: Workspace) -> Path:
    """The directory of the toolkit, as nvcc itself says it: what is found on PATH may be a script."""
    transcript = workspace.plain("--dryrun", "-c", "x.cu", *HOST_OPTIONS).stderr.decode()
    found = re.search(r"^#\$ _HERE_=(.+)$", transcript, re.MULTILINE)
    assert found, transcript
    return Path(found[1]).resolve().parent


def cuda_release(workspace: Workspace) -> tuple[int, int]:
    found = re.search(rb"release (\d+)\.(\d+)", workspace.plain("--version").stdout)
    assert found
    return int(found[1]), int(found[2])


def copy_toolkit(workspace: Workspace, destination: Path) -> Path:
    """A toolkit of links, whose parts can be replaced; makes the workspace use it."""
    original = toolkit_of(workspace)
    for folder in ("bin", "nvvm/bin", "include", "include/crt"):
        (destination / folder).mkdir(parents=True)
        for child in (original / folder).iterdir():
            if not (destination / folder / child.name).exists() and child.name != "crt":
                (destination / folder / child.name).symlink_to(child.resolve())
    workspace.nvcc = str(destination / "bin" / "nvcc")
    return destination


def replace(path: Path, content: str, mode: int = 0o755) -> None:
    """Put another file in the place of one, which may be a link into a real toolkit."""
    path.unlink(missing_ok=True)
    path.write_text(content)
    path.chmod(mode)


def edit(path: Path, added: str) -> None:
    """Add to a file that may be a link into a real toolkit."""
    replace(path, path.read_text() + added, 0o644)


def wrap(
    path: Path, real: str | Path, before: str = "", after: str = "", options: Sequence[str] = ()
) -> None:
    """Put a script in the place of a tool, with shell commands around the real one."""
    argv = " ".join(options)
    replace(path, f'#!/bin/sh\n{before}\n"{real}" "$@" {argv} || exit\n{after}\n')


def light_toolkit(workspace: Workspace, destination: Path) -> Path:
    """Make the workspace use such a toolkit; the whole one where the reduced headers do not suffice."""
    whole = workspace.nvcc
    toolkit = copy_toolkit(workspace, destination)
    replace(toolkit / "include/cuda_runtime.h", _RUNTIME, 0o644)
    replace(toolkit / "include/crt/common_functions.h", "", 0o644)
    if whole not in _SUFFICES:
        _SUFFICES[whole] = _compiles(workspace)
    if not _SUFFICES[whole]:
        workspace.nvcc = whole
        toolkit = copy_toolkit(workspace, destination.with_name(f"{destination.name}-whole"))
    return toolkit


def remember_digests(workspace: Workspace, toolkit: Path) -> None:
    """Compile once, and keep for other workspaces what was read of the tools and headers of a toolkit.

    Not in a full run: there each test reads all of it, as the first compile of a user does.
    """
    workspace.write("first.cu", SOURCE)
    time.sleep(2 * OLD_ENOUGH)
    done = workspace.cached("-c", "first.cu", "-o", "first.o", *HOST_OPTIONS)
    assert done.status == 0, done.stderr
    shutil.copytree(workspace.cache / store.MEMO, toolkit.with_name(REMEMBERED) / store.MEMO)
    shutil.copy(workspace.cache / directory.TAG_NAME, toolkit.with_name(REMEMBERED))


def share_digests(toolkit: Path, other: Path) -> None:
    """Let workspaces begin with what is kept of a toolkit when they use another that links to its tools."""
    kept = toolkit.with_name(REMEMBERED)
    if kept.is_dir():
        other.with_name(REMEMBERED).symlink_to(kept)


def _compiles(workspace: Workspace) -> bool:
    probe = workspace.write("probe.cu", SOURCE)
    done = workspace.plain("-c", probe.name, "-o", "probe.o", *HOST_OPTIONS)
    for name in ("probe.cu", "probe.o"):
        (workspace.directory / name).unlink(missing_ok=True)
    return done.status == 0


def light_toolkit_on_path(workspace: Workspace, destination: Path) -> Path:
    """Make it the one that a shell finds, too, with all that a link needs."""
    original = toolkit_of(workspace)
    made = light_toolkit(workspace, destination)
    for folder in (".", "bin", "nvvm"):
        for child in (original / folder).iterdir():
            if child.name != "targets" and not (made / folder / child.name).exists():
                (made / folder / child.name).symlink_to(child.resolve())
    for target in (original / "targets").glob("*"):  # where some installations have their headers
        (made / "targets" / target.name).mkdir(parents=True)
        for child in target.iterdir():
            real = "../../include" if child.name == "include" else child.resolve()  # in copies, too
            (made / "targets" / target.name / child.name).symlink_to(real)
    workspace.environ["PATH"] = f"{made / 'bin'}:{workspace.environ['PATH']}"
    return made


def precede(toolkit: Path, tool: str, commands: str) -> None:
    """Have a tool run shell commands first; it then becomes the real one, as the same process."""
    path = toolkit / BIN[tool]
    real = path.resolve()
    replace(path, f'#!/bin/sh\n{commands}\nexec "{real}" "$@"\n')


def barrier(directory: Path, count: int) -> str:
    """Shell commands that wait until `count` processes have come this far, or time out with status 97."""
    directory.mkdir()
    return (
        f': > "{directory}/$$"; n=0\n'
        f'until [ "$(ls "{directory}" | wc -l)" -ge {count} ]; do\n'
        "  sleep 0.05; n=$((n + 1)); [ $n -lt 600 ] || { echo timed out >&2; exit 97; }\n"
        "done"
    )


def architectures(*numbers: int) -> list[str]:
    """The options for these real architectures."""
    return [f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers]


def with_real_headers(workspace: Workspace, real_nvcc: str) -> Workspace:
    """The workspace of a test that needs the real headers."""
    path = f"{Path(real_nvcc).parent}:{workspace.environ['PATH']}"
    return dataclasses.replace(workspace, nvcc=real_nvcc, environ={**workspace.environ, "PATH": path})
