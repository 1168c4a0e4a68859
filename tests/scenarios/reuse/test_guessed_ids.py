"""Module ids guessed before nvcc's is known: which stages are wasted, and that they are counted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from scenarios.reuse.test_second_build_directories import starts_of
from scenarios.support.both_ways import rebuild
from scenarios.support.toolkits import HOST_OPTIONS, architectures, cuda_release, precede
from workspaces import Workspace

# Only the host's pass begins with `host`, and the id is in the names of the device code.
_TEXT = """
#ifndef __CUDA_ARCH__
int host() { return 8; }
#endif
namespace { __device__ int counter = 3; __global__ void hidden(int *x) { *x = counter; } }
int launch(int *x) { hidden<<<1, 32>>>(x); return 0; }
"""
# Before cudafe++: waits until two stages have guessed ids, in files next to the one that it will write.
_AFTER_GUESSES = """
for word; do
  [ "$before" != --module_id_file_name ] || id=$word
  before=$word
done
n=0
while [ -e "{flag}" ] && case "$id" in */nvccache-*) ;; *) false;; esac; do
  made=0
  for one in "$id".*; do [ ! -s "$one" ] || made=$((made + 1)); done
  [ $made -lt 2 ] || break
  sleep 0.05; n=$((n + 1)); [ $n -lt 1200 ] || exit 97
done
"""
_OPTIONS = (*architectures(80, 90), *HOST_OPTIONS)


def compile_with(workspace: Workspace, noted: Path, jobs: int) -> int:
    """How many cicc run for a compile with this many slots; the object is plain nvcc's."""
    noted.write_text("")
    argv = ("-c", "a.cu", *_OPTIONS)
    rebuild(workspace, *argv, NVCCACHE_JOBS=str(jobs))
    return sum("/nvccache-" in line for line in noted.read_text().splitlines())


def wasted(workspace: Workspace) -> int:
    """How many wasted runs `stats` counts for the last compile."""
    stats = [sys.executable, "-m", "nvccache", "stats", "--json"]
    runs: int = json.loads(workspace.run(stats).stdout)["in_vain"]["runs"]
    return runs


def test_no_stage_is_wasted_without_an_idle_core(workspace: Workspace, toolkit: Path) -> None:
    workspace.write("a.cu", _TEXT)
    noted = starts_of(workspace, toolkit, "cicc")
    assert compile_with(workspace, noted, 1) == 2
    assert wasted(workspace) == 0


def test_wasted_stages_are_counted_and_not_wasted_again(workspace: Workspace, toolkit: Path) -> None:
    """The second time the source has changed, and cores are still idle."""
    if cuda_release(workspace) < (12, 0):
        pytest.skip("cicc makes the id, which cudafe++ reads")
    flag = workspace.write("flag", "")
    precede(toolkit, "cudafe++", _AFTER_GUESSES.format(flag=flag))
    noted = starts_of(workspace, toolkit, "cicc")
    workspace.write("a.cu", _TEXT)
    assert compile_with(workspace, noted, 64) == 4
    assert wasted(workspace) == 2
    flag.unlink()
    workspace.write("a.cu", _TEXT.replace("counter = 3", "counter = 4"))
    assert compile_with(workspace, noted, 64) == 2
    assert wasted(workspace) == 0
