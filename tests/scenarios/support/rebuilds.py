"""Compiling through nvccache and by plain nvcc side by side, and toolkits whose parts can be replaced."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from workspaces import Counters, Workspace

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


def rebuild(
    workspace: Workspace,
    *arguments: str | Path,
    product: str = "a.o",
    keep: Path | None = None,
    cwd: Path | None = None,
    **variables: str,
) -> Counters:
    """Compile through the cache, and make sure that the product is the one plain nvcc makes now.

    The reference is made with `-keep`, whose names for intermediates are the same on every run.
    """
    argv = [*arguments, *(HOST_OPTIONS if "-ccbin" not in arguments else ())]
    directory = cwd or workspace.directory
    result, counters = workspace.since(
        lambda: workspace.cached(*argv, "-o", product, cwd=directory, **variables)
    )
    found = (directory / product).read_bytes() if result.status == 0 else b""
    keep = keep or workspace.directory / "keep"
    keep.mkdir(exist_ok=True)
    (directory / product).unlink(missing_ok=True)
    plain = workspace.plain(*argv, "-o", product, "-keep", "-keep-dir", keep, cwd=directory, **variables)
    assert (result.status, result.stderr) == (plain.status, plain.stderr)
    assert result.status == 0, result.stderr
    assert found == (directory / product).read_bytes(), f"differs from plain nvcc for {arguments}"
    assert not counters.calls["bypass"] + counters.calls["fault"], counters.bypass_reasons
    return counters


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


def cccl_of(workspace: Workspace) -> None:
    """Skip the test where the toolkit comes without thrust."""
    toolkit = toolkit_of(workspace)
    if not any((toolkit / folder / "thrust").is_dir() for folder in ("include/cccl", "include")):
        pytest.skip(f"no thrust in {toolkit}")
