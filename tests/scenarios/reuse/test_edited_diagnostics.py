"""Diagnostics for text whose lines have moved are those of a new run, or none."""

from __future__ import annotations

import re

import pytest

from scenarios.support.both_ways import both_ways, rebuild
from scenarios.support.edits import COMMENT, Files, check_edit, compile_once, put
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

KERNEL = "__global__ void kernel(int *x) { *x = 1; }\n"
DEVICE_ONLY = "#ifdef __CUDA_ARCH__\n{}\n#endif\n"
HOST_ONLY = "#ifndef __CUDA_ARCH__\n{}\n#endif\n"
ODD = "int talk() { return 'ab'; }"
HOST_WARNING = "int talk(unsigned u, int i) { return u < i; }\n"
RECURSIVE = (
    "__device__ __noinline__ int deep(int i) { return i < 2 ? elsewhere(i) : deep(i - 1) + deep(i - 2); }\n"
)
# Tool -> the options and text for which it prints diagnostics, and a word of them.
SPEAKERS = {
    "preprocessor": ("", "#warning said\n" + KERNEL, b"said"),
    "cudafe++": ("", KERNEL + HOST_ONLY.format(ODD), b"multichar"),
    "cicc": ("", KERNEL + DEVICE_ONLY.format(f"__device__ {ODD}"), b"multichar"),
    "cudafe++ and cicc": ("", f"{KERNEL}{ODD}\n", b"multichar"),
    "host compiler": ("-Xcompiler -Wall,-Wextra", KERNEL + HOST_WARNING, b"Wsign-compare"),
    "ptxas": (
        "-rdc=true -Xptxas --warn-on-local-memory-usage",
        "extern __device__ int elsewhere(int);\n"
        + RECURSIVE
        + "__global__ void kernel(int *x) { x[0] = deep(x[1]); }\n",
        b"ptxas warning",
    ),
}


def lines_in(diagnostics: bytes) -> set[bytes]:
    return set(re.findall(rb"a\.cu[(:](\d+)", diagnostics))


@pytest.mark.by_default("cicc")
@pytest.mark.parametrize("speaker", SPEAKERS)
def test_diagnostics_follow_edits_of_the_source(workspace: Workspace, speaker: str) -> None:
    """And are those of the text before when the edits are undone."""
    options, text, word = SPEAKERS[speaker]
    argv = ("-c", "a.cu", *options.split())
    made = {}
    for state in (text, COMMENT + text, COMMENT + KERNEL, text):
        put(workspace, {"a.cu": state})
        workspace.forget_calls()
        result = rebuild(workspace, *argv)
        assert (word in result.stdout + result.stderr) == (text in state)
        assert made.setdefault(state, result) == result
    assert result.compiled() == {}
    if speaker != "ptxas":
        assert lines_in(made[text].stderr).isdisjoint(lines_in(made[COMMENT + text].stderr))


@pytest.mark.by_default("both")
@pytest.mark.parametrize(
    ("error", "options"),
    [
        ("int f() { return undeclared; }\n", ()),
        (DEVICE_ONLY.format('__global__ void g() { asm volatile("no.such.instruction;"); }'), ()),
        (HOST_WARNING, ("-Xcompiler", "-Wextra,-Werror")),
    ],
    ids=["both", "ptxas", "host compiler"],
)
def test_errors_after_an_edit_are_reported_as_by_nvcc(
    workspace: Workspace, error: str, options: tuple[str, ...]
) -> None:
    """And then it compiles again."""
    put(workspace, {"a.cu": KERNEL})
    compile_once(workspace, "-c", "a.cu", *options)
    put(workspace, {"a.cu": COMMENT + KERNEL + error})
    made = both_ways(workspace, "-c", "a.cu", "-o", "a.o", *options)
    assert (made.status != 0, made.files) == (True, {})
    put(workspace, {"a.cu": COMMENT + KERNEL})
    assert rebuild(workspace, "-c", "a.cu", *options).compiled() == {}


OWN = "static int unused() { return 1; }\n"
PLACES = {
    "as the header": f'#line 1 "h.h"\n{OWN}#line 9 "a.cu"\n{KERNEL}',
    "as the source by another path": f'#line 1 "./a.cu"\n{OWN}{KERNEL}',
}


@pytest.mark.by_default("is first-as the header")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("is_first", [True, False])
def test_unused_function_warnings_follow_the_function_between_source_and_header(
    workspace: Workspace, place: str, is_first: bool
) -> None:
    """The front ends warn about the source, and not about headers, by their names."""
    header: Files = {"h.h": OWN, "a.cu": f'#include "h.h"\n{KERNEL}'}
    other: Files = {"a.cu": PLACES[place]}
    check_edit(workspace, (header, other) if is_first else (other, header))
