"""Scripts called nvcc of the kinds that sites have: as much is found behind them as behind nvcc itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvccache.store import store
from scenarios.support.both_ways import both_ways
from scenarios.support.cases import KERNEL, bench, light
from scenarios.support.observed_wrappers import script
from workspaces import Counters, Workspace

__all__ = ["bench", "light"]

SOURCE = "#define VALUE 1\n" + KERNEL
PASSES = {"host_preprocess": 1, "device_preprocess": 1}
# As Kokkos's and Trilinos's wrappers do, it sorts words for nvcc and for the host compiler, and waits.
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
PYTHON = 'import os, sys\nos.execv("{nvcc}", ["{nvcc}", "-DPYTHON", *sys.argv[1:]])'
KINDS = {
    "one exec": ('exec "{nvcc}" "$@"', "#!/bin/sh"),
    "a site's module": (MODULE, "#!/bin/sh"),
    "one that sorts words": (SORTS, "#!/bin/bash"),
    "Python": (PYTHON, "#!{python}"),
}


def put(bench: Workspace, kind: str) -> str:
    """Have a script be nvcc; the real one."""
    text, first = KINDS[kind]
    real = bench.nvcc
    bench.write("etc/site.sh", "SITE_FLAGS=-DSITE\n")
    script(text.replace("{nvcc}", real), "bin/nvcc", first)(bench)
    bench.nvcc = str(bench.directory / "bin/nvcc")
    return real


def compiled(bench: Workspace, source: Path, cwd: Path, output: str = "a.o") -> Counters:
    """What was counted of a compile that made what the script makes by itself."""
    cwd.mkdir(parents=True, exist_ok=True)
    line = ("-arch=sm_75", "-O2", "-c", source, "-o", output)
    return both_ways(bench, *line, cwd=cwd, PWD=str(cwd))[2]


@pytest.mark.by_default("one that sorts words")
@pytest.mark.parametrize("kind", KINDS)
def test_as_much_is_found_as_behind_nvcc(bench: Workspace, kind: str) -> None:
    bench.environ["NVCCACHE_BASE_DIR"] = str(bench.directory / "base")
    put(bench, kind)
    first, second = (bench.directory / "base" / name for name in ("one", "two"))
    for checkout in (first, second):
        checkout.mkdir(parents=True)
        (checkout / "a.cu").write_text("// one\n" + SOURCE)
    assert compiled(bench, first / "a.cu", first / "build").outcome == "miss"
    assert compiled(bench, first / "a.cu", first / "build").outcome == "direct_hit"
    assert compiled(bench, first / "a.cu", first / "other").outcome == "direct_hit", "a second directory"
    assert compiled(bench, first / "a.cu", first / "other", "b.o").outcome == "direct_hit", "another name"
    assert compiled(bench, second / "a.cu", second / "build").outcome == "direct_hit", "another checkout"
    (first / "a.cu").write_text("// one\n// two\n" + SOURCE)
    assert compiled(bench, first / "a.cu", first / "build").ran() == PASSES, "a line of comment"


def test_what_a_script_becomes_is_found_behind_nvcc_and_the_other_way_round(bench: Workspace) -> None:
    real = put(bench, "one exec")
    source = bench.write("a.cu", SOURCE)
    compiled(bench, source, bench.directory)
    typed, bench.nvcc = bench.nvcc, real
    assert compiled(bench, source, bench.directory).outcome == "direct_hit"
    bench.write("a.cu", SOURCE + "int more;\n")
    compiled(bench, source, bench.directory)
    bench.nvcc = typed
    assert compiled(bench, source, bench.directory).outcome == "direct_hit"


def test_the_launcher_answers_a_script_again(bench: Workspace) -> None:
    """As long as nothing has changed that the script has read."""
    put(bench, "a site's module")
    source = bench.write("a.cu", SOURCE)
    for directory in ("one", "two", "one", "two"):
        compiled(bench, source, bench.directory / directory)
    assert len([*(bench.cache / store.REPLAY).glob("*/*")]) == 2, "of a direct hit, too"
    bench.write("etc/site.sh", "SITE_FLAGS=-DVALUE2\n")
    assert compiled(bench, source, bench.directory / "one").ran() == PASSES
