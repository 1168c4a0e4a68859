"""Why each stage ran, by `nvccache explain` with the real nvcc: the component that differed."""

from __future__ import annotations

import json
import re
import sys

import pytest

import kept_records
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

KERNEL = "__global__ void k(int *p) { *p = NUMBER; }\n"
LINE = ("-c", "a.cu", "-arch=sm_80", "-o", "a.o")
TWO = (
    "-c",
    "a.cu",
    "-o",
    "a.o",
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode=arch=compute_90,code=sm_90",
)
FIRST = "first compile of this stage"
OF_CICC = "cicc's output changed"


def why(workspace: Workspace) -> dict[str, str]:
    """The stages that ran in the last compile of `a.o`, each with why; the tree of stages says the same."""
    argv = [sys.executable, "-m", "nvccache", "explain", "a.o"]
    done = workspace.run([*argv, "--json"])
    assert done.status == 0, done.stderr.decode()
    document = json.loads(done.stdout)
    found = {reason["stage"]: reason["why"] for reason in document["stage_reasons"]}
    ran = [stage["why"] for stage in document["stages"] if stage["result"] in ("ran", "failed")]
    assert ran == list(found.values())
    lines = workspace.run(argv).stdout.decode().splitlines()
    shown = [line.partition(" s  ")[2] for line in lines if re.search(r"  (ran|failed) +\d", line)]
    firsts = [line.removesuffix(" (and more: see `--json`)") for line in shown]
    assert all(whole.startswith(first) for whole, first in zip(ran, firsts, strict=True))
    return found


@pytest.fixture
def compiled(workspace: Workspace) -> Workspace:
    """A unit of two files that has been compiled once."""
    workspace.write("a.h", "#pragma once\n#define NUMBER 1\n")
    workspace.write("a.cu", f'#include "a.h"\n{KERNEL}int host() {{ return 1; }}\n')
    assert workspace.cached(*LINE).status == 0
    return workspace


def test_a_first_compile_is_one_of_each_stage(compiled):
    found = why(compiled)
    assert set(found.values()) == {FIRST}
    assert {"cudafe++", "cicc for compute_80", "ptxas for sm_80", "fatbinary", "host compile"} <= found.keys()


def test_an_option_of_one_tool_is_named_at_stages_that_get_it(compiled):
    assert compiled.cached(*LINE, "-Xptxas", "-O1").status == 0
    found = why(compiled)
    assert found["ptxas for sm_80"] == "`-O1` was added to its command line"
    assert not found.keys() & {"cudafe++", "preprocessing for compute_80"}


def test_a_changed_header_explains_all_stages_that_ran(compiled):
    # In `compiled` a.cu has been compiled once. One thing changes, and it is compiled again.
    compiled.write("a.h", "#pragma once\n#define NUMBER 2\n")
    assert compiled.cached(*LINE).status == 0
    # Stage -> the sentence of `explain` for it; `why` checks that JSON, the tree and the text agree.
    found = why(compiled)
    # Every stage that ran is here. Those that read the header name it; others name the tool before them.
    assert found.pop("fatbinary").startswith("ptxas's output for sm_80 changed")
    assert found == {
        "preprocessing for the host": "`a.h` changed",
        "preprocessing for compute_80": "`a.h` changed",
        "cudafe++": "`a.h` changed",
        "cicc for compute_80": "`a.h` changed",
        "ptxas for sm_80": OF_CICC,
        "host compile": "cudafe++'s output changed; fatbinary's output changed",
    }


def test_another_architecture_runs_stages_of_its_own(compiled):
    assert compiled.cached(*TWO).status == 0
    found = why(compiled)
    assert {name for name, clause in found.items() if clause == FIRST} == {
        "preprocessing for compute_90",
        "cicc for compute_90",
        "ptxas for sm_90",
    }
    lists = "`-D__CUDA_ARCH_LIST__=800,900` replaced `-D__CUDA_ARCH_LIST__=800`"
    assert found["preprocessing for compute_80"] == lists
    assert not found.keys() & {"cicc for compute_80", "ptxas for sm_80"}
    assert "it now reads ptxas's output for sm_90" in found["fatbinary"]


def test_a_compile_that_failed_in_between_makes_no_first_compile(compiled):
    compiled.write("a.h", "#pragma once\n#define NUMBER no\n")
    assert compiled.cached(*LINE).status != 0
    assert why(compiled)["preprocessing for the host"] == "`a.h` changed"
    compiled.write("a.h", "#pragma once\n#define NUMBER 3\n")
    assert compiled.cached(*LINE, "-Xptxas", "-O1").status == 0
    assert why(compiled)["ptxas for sm_80"] == f"`-O1` was added to its command line; {OF_CICC}"


def test_an_evicted_result_is_reported_as_lost(compiled):
    compiled.forget_calls()
    for path in kept_records.paths_of(compiled.cache):
        path.unlink()
    assert compiled.cached(*LINE).status == 0
    assert set(why(compiled).values()) == {"its result is no longer in the cache"}


def test_values_of_macros_are_shown_for_no_stage(compiled):
    for secret in ("s3cret", "s4cret"):
        assert compiled.cached(*LINE, f"-DKEY={secret}", "-Xcompiler", f"-DTOKEN={secret}").status == 0
        done = compiled.run([sys.executable, "-m", "nvccache", "explain", "a.o"])
        assert b"cret" not in done.stdout
    for path in compiled.cache.glob("object-v*/*/*"):
        assert b"cret" not in path.read_bytes()


def test_another_base_directory_is_the_cause_and_no_lost_result(compiled):
    base = str(compiled.directory.parent)
    assert compiled.cached(*LINE, NVCCACHE_BASE_DIR=base).status == 0
    done = compiled.run([sys.executable, "-m", "nvccache", "explain", "a.o"])
    assert done.stdout.decode().splitlines()[0].endswith(", because `NVCCACHE_BASE_DIR` was set")
