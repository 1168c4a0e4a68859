"""What compilers say comes in nvcc's order and words, whichever of them run and whichever are answered.

Each case compiles a source that makes some of them talk, and goes on to what reuses a part of the stages:
nothing changed, no record of the call, another architecture, another option of ptxas or of the host
compiler, an edit of host code. One of each kind runs by default, all with --every-case.
"""

from __future__ import annotations

import pytest

from scenarios.support.both_ways import both_ways
from scenarios.support.toolkits import architectures
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

ARCHITECTURE = "-arch=sm_80"
RECURSIVE = """#include <stdlib.h>
extern __device__ int elsewhere(int);
__device__ __noinline__ int deep(int i) { return i < 2 ? elsewhere(i) : deep(i - 1) + deep(i - 2); }
"""
PARTS = {
    "preprocessor": "#warning of the preprocessor\n",
    "device preprocessor": "#ifdef __CUDA_ARCH__\n#warning of the device\n#endif\n",
    "cudafe++": "#ifndef __CUDA_ARCH__\nint on_host() { return 'ab'; }\n#endif\n",
    "cicc": "#ifdef __CUDA_ARCH__\n__device__ int on_device() { return 'ab'; }\n#endif\n",
    "cudafe++ and cicc": "int anywhere() { int unused; return 'ab'; }\n",
    "host compiler": "int compared(unsigned u, int i) { return u < i; }\n",
    "header": '#include "h.h"\n',
    "ptxas": RECURSIVE,
}
HEADER = "#warning of the header\ninline int of_header(unsigned u, int i) { int unused; return u < i; }\n"
KERNEL = "__global__ void kernel(int *x) { x[0] = 1; }\n"
CALLER = "__global__ void kernel(int *x) { x[0] = deep(x[1]); }\n"
TALK = ("-rdc=true", "-Xcompiler", "-Wall,-Wextra", "-Xptxas", "--warn-on-local-memory-usage", "-Iinc")
LINE = ("-c", "a.cu", "-o", "a.o", *TALK)
SOURCES = {
    **{name: text + (CALLER if name == "ptxas" else KERNEL) for name, text in PARTS.items()},
    "all": "".join(PARTS.values()) + CALLER,
}
WORDS_OF_ALL = (b"of the preprocessor", b"of the device", b"of the header", b"multichar", b"ptxas", b"-Wsign")


@pytest.fixture
def light(workspace: Workspace) -> Workspace:
    workspace.write("inc/h.h", HEADER)
    return workspace


@pytest.mark.by_default("all")
@pytest.mark.parametrize("speaker", [*SOURCES])
def test_stored_diagnostics_are_printed_when_only_some_stages_run(light: Workspace, speaker: str) -> None:
    source = light.write("a.cu", SOURCES[speaker])
    made = both_ways(light, *LINE, ARCHITECTURE)
    assert made.stderr
    assert speaker != "all" or all(word in made.stderr for word in WORDS_OF_ALL)
    assert both_ways(light, *LINE, ARCHITECTURE).outcome == "direct_hit"
    light.forget_calls()
    assert both_ways(light, *LINE, ARCHITECTURE).outcome == "stage_hit"
    assert both_ways(light, *LINE, *architectures(80, 90)).outcome == "partial_hit"
    both_ways(light, *LINE, *architectures(80, 90), "-Xptxas", "-O1")
    source.write_text(SOURCES[speaker] + "int appended() { int alone; return 1; }\n")
    both_ways(light, *LINE, *architectures(80, 90))


def test_diagnostics_name_files_as_typed_in_this_call(light: Workspace) -> None:
    """Though what is compiled is the same."""
    light.write("sub/b.cu", "")
    light.write("a.cu", SOURCES["header"])
    own = light.directory
    sub = own / "sub"
    for name, include, cwd in (
        ("a.cu", "inc", own),
        ("a.cu", "./inc", own),
        (f"{own}/a.cu", "inc", own),
        ("../a.cu", "../inc", sub),
        ("a.cu", "inc", own),
    ):
        argv = ("-c", name, "-o", f"{own}/a.o", *TALK[:-1], f"-I{include}", ARCHITECTURE)
        made = both_ways(light, *argv, cwd=cwd)
        assert name.encode() in made.stderr


# Options that change the diagnostics, after a compile without them; and a word of the source it takes.
UNUSED = "int host() { int unused; return 'ab'; }\n"
CALL = "int only_host(int);\n__host__ __device__ int both() { return only_host(1); }\n"
ORDER = "struct Order { int a, b; Order() : b(1), a(2) {} };\nOrder order;\n"
DEPRECATED = '[[deprecated("no more")]] void old();\nvoid caller() { old(); }\n'
SWITCHES = {
    "-Werror all-warnings": UNUSED,
    "-Werror cross-execution-space-call": CALL,
    "-Wreorder": ORDER,
    "-diag-suppress=177,1835": UNUSED,
    "-Xcudafe --diag_error=177": UNUSED,
    "-w": UNUSED + DEPRECATED,
    "-Xcompiler -fdiagnostics-color=always,-Wextra": PARTS["host compiler"],
    "-Xcompiler -Wextra,-Werror": PARTS["host compiler"],
    "-Xcompiler -Wno-cpp": PARTS["preprocessor"],
    "-res-usage": UNUSED,
}


@pytest.mark.by_default("-Xcudafe --diag_error=177")
@pytest.mark.parametrize("switch", SWITCHES)
def test_changing_a_warning_option_changes_diagnostics_as_in_nvcc(light: Workspace, switch: str) -> None:
    """After a compile without it, again without it, and with a second architecture that is new."""
    option, line = switch.split(), ("-c", "a.cu", "-o", "a.o")
    light.write("a.cu", KERNEL + SWITCHES[switch])
    first = both_ways(light, *line, ARCHITECTURE)
    assert first.status == 0
    there = both_ways(light, *line, ARCHITECTURE, *option)
    again = both_ways(light, *line, ARCHITECTURE, *option)
    assert again.status == there.status
    assert there.status != 0 or again.outcome in ("direct_hit", "stage_hit")
    assert both_ways(light, *line, ARCHITECTURE) == first
    both_ways(light, *line, *architectures(80, 90), *option)


def test_a_repeated_output_option_gives_the_warning_of_nvcc(light: Workspace) -> None:
    """nvcc warns of the second name."""
    light.write("a.cu", KERNEL)
    for names in (("b.o",), ("a.o", "b.o"), ("b.o",)):
        given = [word for name in names for word in ("-o", name)]
        made = both_ways(light, "-c", "a.cu", *given, ARCHITECTURE)
        assert (b"incompatible redefinition" in made.stderr) == (len(names) == 2)


@pytest.mark.full
@pytest.mark.parametrize("line", ["-c b.cu a.cu", "-MD -c a.cu b.cu"])
def test_diagnostics_of_two_sources_come_in_command_line_order(light: Workspace, line: str) -> None:
    """In the order in which they were typed, whichever is new."""
    light.write("a.cu", SOURCES["cudafe++ and cicc"])
    light.write("b.cu", SOURCES["preprocessor"].replace("kernel", "other"))
    both_ways(light, *line.split(), ARCHITECTURE)
    both_ways(light, *line.split(), ARCHITECTURE)
    light.write("a.cu", SOURCES["cudafe++ and cicc"] + UNUSED)
    both_ways(light, *line.split(), ARCHITECTURE)
    light.write("b.cu", "error\n")
    both_ways(light, *line.split(), ARCHITECTURE)


@pytest.mark.full
def test_messages_of_nvlink_are_repeated_on_a_hit(workspace: Workspace) -> None:
    """Of a device link, cold and warm, and with another architecture."""
    recursive = RECURSIVE.replace("extern __device__ int elsewhere(int);", "")
    recursive = recursive.replace("elsewhere(i)", "i")
    workspace.write("a.cu", recursive + CALLER)
    objects = ("-arch=sm_80", "-dc", "a.cu", "-o", "a.o")
    assert both_ways(workspace, *objects).status == 0
    workspace.cached(*objects)
    for argv in ((), (), ("-Xnvlink", "-v"), ("-Xnvlink", "--suppress-stack-size-warning"), ()):
        both_ways(workspace, "-arch=sm_80", "-dlink", "a.o", "-o", "x.o", *argv)
        workspace.forget_calls()
    both_ways(workspace, "-arch=sm_80", "-dlink", "a.o", "-o", "x.o", "-Werror", "all-warnings")


def test_errors_are_printed_on_each_compile(light: Workspace) -> None:
    """And after a compile that went well, and before it."""
    good = KERNEL + UNUSED
    line = ("-c", "a.cu", "-o", "a.o", *architectures(80, 90))
    for text in (
        good,
        good + "int host() { return undeclared; }\n",
        good + "#if __CUDA_ARCH__ == 900\n__device__ int i = undeclared;\n#endif\n",
        good + '__global__ void bad() { asm volatile("no.such.instruction;"); }\n',
        good,
    ):
        light.write("a.cu", text)
        for _ in ("first", "second") if text != good else ("once",):
            both_ways(light, *line)
