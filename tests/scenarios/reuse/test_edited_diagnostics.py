"""Diagnostics for text whose lines have moved are those of a new run, or none."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from scenarios.support.both_ways import both_ways, rebuild
from scenarios.support.edits import COMMENT, Files, compile_once, moved, put
from scenarios.support.toolkits import HOST_OPTIONS
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
    "all": (
        "-Xcompiler -Wextra",
        f"{KERNEL}int more(unsigned u) {{ return u < -1; }}\n{ODD}\n",
        b"multichar",
    ),
    "ptxas": (
        "-rdc=true -Xptxas --warn-on-local-memory-usage",
        "extern __device__ int elsewhere(int);\n"
        + RECURSIVE
        + "__global__ void kernel(int *x) { x[0] = deep(x[1]); }\n",
        b"ptxas warning",
    ),
}


def compile_and_edit(workspace: Workspace, before: Files, after: Files, argv: Sequence[str]) -> bytes:
    """Compile, edit, and compile as plain nvcc does; the diagnostics of the second compile."""
    put(workspace, before)
    compile_once(workspace, "-c", "a.cu", *argv)
    put(workspace, after)
    result = rebuild(workspace, "-c", "a.cu", *argv)
    assert result.status == 0
    return result.stdout + result.stderr


def lines_in(diagnostics: bytes) -> set[bytes]:
    return set(re.findall(rb"a\.cu[(:](\d+)", diagnostics))


@pytest.mark.by_default("cicc")
@pytest.mark.parametrize("speaker", SPEAKERS)
def test_diagnostics_name_the_lines_of_this_text(workspace: Workspace, speaker: str) -> None:
    """After the edit, and when it is undone."""
    options, text, word = SPEAKERS[speaker]
    argv = ("-c", "a.cu", *options.split())
    put(workspace, {"a.cu": text})
    first = rebuild(workspace, *argv)
    assert word in first.stdout + first.stderr
    put(workspace, {"a.cu": COMMENT + text})
    workspace.forget_calls()
    result = rebuild(workspace, *argv)
    assert word in result.stdout + result.stderr
    if speaker != "ptxas":
        assert lines_in(result.stderr).isdisjoint(lines_in(first.stderr))
    put(workspace, {"a.cu": text})
    result, counters = workspace.since(lambda: workspace.cached(*argv, *HOST_OPTIONS, "-o", "a.o"))
    assert result == first.result
    assert counters.compiled() == {}


@pytest.mark.by_default("cudafe++ and cicc")
@pytest.mark.parametrize("speaker", ["preprocessor", "cudafe++ and cicc", "host compiler"])
def test_diagnostics_that_come_with_the_edit(workspace: Workspace, speaker: str) -> None:
    options, text, word = SPEAKERS[speaker]
    assert word in compile_and_edit(workspace, {"a.cu": KERNEL}, {"a.cu": COMMENT + text}, options.split())


@pytest.mark.by_default("host compiler")
@pytest.mark.parametrize("speaker", ["cudafe++", "cicc", "host compiler"])
def test_diagnostics_that_go_with_the_edit(workspace: Workspace, speaker: str) -> None:
    options, text, _ = SPEAKERS[speaker]
    assert compile_and_edit(workspace, {"a.cu": text}, {"a.cu": COMMENT + KERNEL}, options.split()) == b""


@pytest.mark.by_default("both")
@pytest.mark.parametrize(
    "error",
    [
        "int f() { return undeclared; }\n",
        DEVICE_ONLY.format('__global__ void g() { asm volatile("no.such.instruction;"); }'),
        "#error said\n",
    ],
    ids=["both", "ptxas", "preprocessor"],
)
def test_errors_after_an_edit(workspace: Workspace, error: str) -> None:
    """And then it compiles again."""
    put(workspace, {"a.cu": KERNEL})
    compile_once(workspace, "-c", "a.cu")
    put(workspace, {"a.cu": COMMENT + KERNEL + error})
    made = both_ways(workspace, "-c", "a.cu", "-o", "a.o")
    assert (made.status != 0, made.files) == (True, {})
    put(workspace, {"a.cu": COMMENT + KERNEL})
    made = rebuild(workspace, "-c", "a.cu")
    assert made.compiled() == {}


STANDING = "inline int of_header(unsigned u, int i) { int unused; return u < i; }\n"


@pytest.mark.full
@pytest.mark.parametrize(
    ("first", "second"),
    [("-isystem", "-I"), ("-I", "-isystem")],
)
def test_a_header_that_is_of_the_system_or_not(workspace: Workspace, first: str, second: str) -> None:
    """System headers get no warnings. In the text only the line markers differ."""
    put(workspace, {"inc/h.h": STANDING, "a.cu": "#include <h.h>\n" + KERNEL})
    argv = ("-c", "a.cu", "-Xcompiler", "-Wall,-Wextra")
    diagnostics = {}
    for option in (first, second, first):
        workspace.forget_calls()
        result = rebuild(workspace, *argv, option, "inc")
        diagnostics[option] = result.stderr
    assert diagnostics["-isystem"] == b""
    assert diagnostics["-I"].count(b"unused") >= 2


OWN = "static int unused() { return 1; }\n"
PLACES = {
    "as the header": f'#line 1 "h.h"\n{OWN}#line 9 "a.cu"\n{KERNEL}',
    "as the source by another path": f'#line 1 "./a.cu"\n{OWN}{KERNEL}',
    "in the source as included by itself": (
        f'#ifndef ONCE\n#define ONCE\n#include "./a.cu"\n{KERNEL}#else\n{OWN}#endif\n'
    ),
}


@pytest.mark.by_default("True-as the header")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_function_that_only_the_source_may_not_leave_unused(
    workspace: Workspace, place: str, is_first: bool
) -> None:
    """The front ends warn about the source, and not about headers, by their names."""
    header: Files = {"h.h": OWN, "a.cu": f'#include "h.h"\n{KERNEL}'}
    other: Files = {"a.cu": PLACES[place].replace("{directory}", str(workspace.directory))}
    states = (header, other) if is_first else (other, header)
    compile_and_edit(workspace, *states, argv=())


@pytest.mark.full
@pytest.mark.parametrize("host", [KERNEL, KERNEL + HOST_WARNING], ids=["silent", "talking"])
@pytest.mark.parametrize("option", ["-Wall,-Wextra", "-fPIC"])
def test_a_comment_and_another_option_of_the_host_compiler_at_once(
    workspace: Workspace, host: str, option: str
) -> None:
    """The host compile reads text with the old lines; if it prints diagnostics, cudafe++ runs again."""
    before, after = moved(host)
    put(workspace, before)
    compile_once(workspace, "-c", "a.cu")
    put(workspace, after)
    result = rebuild(workspace, "-c", "a.cu", "-Xcompiler", option)
    assert "host_compile" in result.compiled()
    is_silent = host == KERNEL or "-Wextra" not in option
    assert (result.stderr == b"") == is_silent or b"talk" in result.stderr
    assert ("cudafe" in result.compiled()) == bool(result.stderr)


def test_errors_of_the_host_compiler_in_moved_text(workspace: Workspace) -> None:
    before, after = moved(KERNEL + HOST_WARNING)
    put(workspace, before)
    compile_once(workspace, "-c", "a.cu")
    put(workspace, after)
    result = both_ways(workspace, "-c", "a.cu", "-o", "a.o", "-Xcompiler", "-Wextra,-Werror")
    assert result.status != 0
    assert lines_in(result.stderr) == {b"7"}
