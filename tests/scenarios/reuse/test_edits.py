"""Early cut-off: an edit reruns only the stages whose inputs change in meaning.

Uses of line numbers are in test_edited_lines.py, diagnostics for moved text in
test_edited_diagnostics.py, and module ids in test_module_ids.py.
"""

from __future__ import annotations

import pytest

from scenarios.support.both_ways import by_cache, rebuild
from scenarios.support.edits import BACK, COMMENT, FRONT, Files, check_edit, compile_once, put
from scenarios.support.toolkits import architectures
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

SOURCE = """#include "h.h"
#pragma nv_diag_suppress 550
__device__ int twice(int x) {
#ifdef __CUDA_ARCH__
  int sum = x + x;
#else
  int sum = x;
#endif
  return sum;
}
__global__ void kernel(int *x) { *x = twice(*x) + STEP; }
#ifndef __CUDA_ARCH__
int host() { return 1; }
#endif
int launch(int *x) { kernel<<<1, 32>>>(x); return STEP; }
"""
HEADER = "#define STEP 3\ninline int of_header(int x) { return x; }\n"
BEFORE: Files = {"a.cu": SOURCE, "h.h": HEADER}


def edit(old: str, new: str, **others: str | None) -> Files:
    assert old in SOURCE
    return {"a.cu": SOURCE.replace(old, new), **others}


EDITS: dict[str, tuple[Files, set[str]]] = {
    "a comment above": ({"a.cu": COMMENT + SOURCE}, set()),
    "a header that says nothing": (edit("__dev", '#include "n.h"\n__dev', **{"n.h": "#define N 1\n"}), set()),
    "a header of another name": (edit("h.h", "g.h", **{"h.h": None, "g.h": HEADER}), set()),
    "another name for the source": (
        edit("__device__", '#line 2 "other.cu"\n__device__'),
        {*FRONT, "host_compile"},
    ),
    "a part for the host alone": (edit("return 1;", "return 2;"), {"cudafe", "host_compile"}),
    "what leaves the host code as it is": (edit("suppress 550", "suppress 552"), FRONT),
    "what leaves the PTX as it is": (edit("int sum = x + x", "int sum = 2 * x"), {"cicc"}),
    "a part for the device alone": (edit("int sum = x + x", "int sum = x * x"), {"cicc", *BACK}),
}


@pytest.mark.by_default("a comment above", "a header that says nothing", "what leaves the PTX as it is")
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_reruns_the_stages_whose_inputs_change_in_meaning(workspace: Workspace, name: str) -> None:
    """And none when it is undone."""
    # A row is the files that are other ones after the edit, and the stages that then have to run. That of
    # "what leaves the PTX as it is" says: cicc reads other text, makes the same PTX, and all behind it hit.
    after, ran = EDITS[name]
    # Compiles, edits, compiles again and compares with plain nvcc's object; the call as such is forgotten.
    counters = check_edit(workspace, (BEFORE, after))
    # Exactly these: a stage too few may be stale, a stage too many is time that the user pays.
    assert set(counters.compiled()) == ran
    put(workspace, {**dict.fromkeys(after), **BEFORE})
    workspace.forget_calls()
    assert by_cache(workspace, "-c", "a.cu", "-o", "a.o").compiled() == {}


@pytest.mark.by_default("-Xptxas -O1-")
@pytest.mark.parametrize(
    ("options", "ran"),
    [
        (("-DUNUSED=1",), set()),
        (("-Xptxas", "-O1"), BACK),
        (("-Xcompiler", "-fPIC"), {"host_compile"}),
        (("-I.",), {"host_compile"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_new_option_and_a_comment_rerun_only_the_stages_that_get_the_option(
    workspace: Workspace, options: tuple[str, ...], ran: set[str]
) -> None:
    after: Files = {"a.cu": COMMENT + SOURCE}
    assert set(check_edit(workspace, (BEFORE, after), then=options).compiled()) == ran


@pytest.mark.by_default("-cubin")
@pytest.mark.parametrize("mode", ["-ptx", "-cubin", "-fatbin", "-dc"])
def test_each_output_mode_reruns_cicc_only_after_a_change_in_meaning(workspace: Workspace, mode: str) -> None:
    put(workspace, BEFORE)
    argv = (mode, "a.cu", *architectures(*((80, 90) if mode in ("-fatbin", "-dc") else (80,))))
    compile_once(workspace, *argv, product="a.out")
    put(workspace, {"a.cu": COMMENT + SOURCE, "h.h": COMMENT + HEADER})
    assert rebuild(workspace, *argv, product="a.out").compiled() == {}
    put(workspace, edit("x + x", "x * x"))
    made = rebuild(workspace, *argv, product="a.out")
    assert "cicc" in made.compiled()


def test_the_dependency_file_is_that_of_the_edited_source(workspace: Workspace) -> None:
    put(workspace, BEFORE)
    argv = ("-c", "a.cu", "-MD", "-MF", "a.d")
    compile_once(workspace, *argv)
    put(workspace, {"a.cu": '#include "n.h"\n' + SOURCE, "n.h": COMMENT})
    made = rebuild(workspace, *argv)
    assert b"n.h" in made["a.d"]
    workspace.forget_calls()
    again = rebuild(workspace, *argv)
    assert (again, again.compiled()) == (made, {})
