"""Typical scripts named nvcc: they get as many hits as nvcc itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvccache.store import store
from scenarios.support.both_ways import both_ways
from scenarios.support.cases import KERNEL
from scenarios.support.observed_wrappers import script
from workspaces import Counters, Workspace

pytestmark = pytest.mark.light

SOURCE = "#define VALUE 1\n" + KERNEL
PASSES = {"host_preprocess": 1, "device_preprocess": 1}
# As Kokkos's and Trilinos's wrappers do, it sorts arguments for nvcc and the host compiler, and waits.
SORTS = """
for_nvcc=() for_host= level= show=0
while (( $# )); do
  case $1 in
    --show) show=1 ;;
    -O*) [[ $level ]] || for_nvcc+=("$1"); level=$1 ;;
    -std=*) for_nvcc+=("$1") ;;
    -fPIC|-W*|-pthread) for_host+="${for_host:+,}$1" ;;
    -o|-I|-MF|-MT) for_nvcc+=("$1" "$2"); shift ;;
    *) for_nvcc+=("$1") ;;
  esac
  shift
done
if [[ $for_host ]]; then for_nvcc+=(-Xcompiler "$for_host"); fi
if (( show )); then echo "{nvcc}" "${for_nvcc[@]}"; exit; fi
"{nvcc}" "${for_nvcc[@]}"
exit $?
"""
MODULE = """
. "{work}/etc/site.sh"
for word; do case $word in -ccbin*) has_host=1 ;; esac; done
[ -n "$has_host" ] || set -- -ccbin g++ "$@"
export PATH="{work}/tools:$PATH" SITE_NVCC=1
exec "{nvcc}" $SITE_FLAGS "$@"
"""
KINDS = {
    "one exec": ('exec "{nvcc}" "$@"', "#!/bin/sh"),
    "a site's module": (MODULE, "#!/bin/sh"),
    "one that sorts words": (SORTS, "#!/bin/bash"),
}


def put(workspace: Workspace, kind: str) -> str:
    """Make a script nvcc; returns the real one."""
    text, first = KINDS[kind]
    real = workspace.nvcc
    workspace.write("etc/site.sh", "SITE_FLAGS=-DSITE\n")
    script(text.replace("{nvcc}", real), "bin/nvcc", first)(workspace)
    workspace.nvcc = str(workspace.directory / "bin/nvcc")
    return real


def compiled(workspace: Workspace, source: Path, cwd: Path, output: str = "a.o") -> Counters:
    """The counters of a compile whose object equals the script's own."""
    cwd.mkdir(parents=True, exist_ok=True)
    line = ("-arch=sm_75", "-O2", "-c", source, "-o", output)
    return both_ways(workspace, *line, cwd=cwd, PWD=str(cwd)).counters


@pytest.mark.by_default("one that sorts words")
@pytest.mark.parametrize("kind", KINDS)
def test_as_much_is_found_as_behind_nvcc(workspace: Workspace, kind: str) -> None:
    workspace.environ["NVCCACHE_BASE_DIR"] = str(workspace.directory / "base")
    put(workspace, kind)
    first, second = (workspace.directory / "base" / name for name in ("one", "two"))
    for checkout in (first, second):
        checkout.mkdir(parents=True)
        (checkout / "a.cu").write_text("// one\n" + SOURCE)
    assert compiled(workspace, first / "a.cu", first / "build").outcome == "miss"
    assert compiled(workspace, first / "a.cu", first / "build").outcome == "direct_hit"
    assert compiled(workspace, first / "a.cu", first / "other").outcome == "direct_hit", "a second directory"
    assert compiled(workspace, first / "a.cu", first / "other", "b.o").outcome == "direct_hit", "another name"
    assert compiled(workspace, second / "a.cu", second / "build").outcome == "direct_hit", "another checkout"
    (first / "a.cu").write_text("// one\n// two\n" + SOURCE)
    assert compiled(workspace, first / "a.cu", first / "build").ran() == PASSES, "a line of comment"


def test_what_a_script_becomes_is_found_behind_nvcc_and_the_other_way_round(workspace: Workspace) -> None:
    real = put(workspace, "one exec")
    source = workspace.write("a.cu", SOURCE)
    compiled(workspace, source, workspace.directory)
    typed, workspace.nvcc = workspace.nvcc, real
    assert compiled(workspace, source, workspace.directory).outcome == "direct_hit"
    workspace.write("a.cu", SOURCE + "int more;\n")
    compiled(workspace, source, workspace.directory)
    workspace.nvcc = typed
    assert compiled(workspace, source, workspace.directory).outcome == "direct_hit"


def test_the_launcher_answers_a_script_again(workspace: Workspace) -> None:
    """While nothing that the script read has changed."""
    put(workspace, "a site's module")
    source = workspace.write("a.cu", SOURCE)
    for directory in ("one", "two", "one", "two"):
        compiled(workspace, source, workspace.directory / directory)
    assert len([*(workspace.cache / store.REPLAY).glob("*/*")]) == 2, "of a direct hit, too"
    workspace.write("etc/site.sh", "SITE_FLAGS=-DVALUE2\n")
    assert compiled(workspace, source, workspace.directory / "one").ran() == PASSES
