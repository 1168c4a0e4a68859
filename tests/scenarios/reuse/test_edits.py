"""Early cut-off: an edit reruns only the stages whose inputs change in meaning.

There is none where line numbers reach a result: by an option, or since the text uses its own line.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scenarios.support.both_ways import rebuild
from scenarios.support.edits import BACK, COMMENT, FRONT, Files, check_edit, compile_once, moved, put
from scenarios.support.toolkits import HOST_OPTIONS, cuda_release
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
GENCODES = {number: ("-gencode", f"arch=compute_{number},code=sm_{number}") for number in (75, 80, 86, 90)}


def edit(old: str, new: str, **others: str | None) -> Files:
    assert old in SOURCE
    return {"a.cu": SOURCE.replace(old, new), **others}


EDITS: dict[str, tuple[Files, set[str]]] = {
    "a comment above": ({"a.cu": COMMENT + SOURCE}, set()),
    "a comment on a line of its own": (edit("  return sum;", "  // a comment\n  return sum;"), set()),
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
    argv = ("-c", "a.cu")
    workspace.forget_calls()
    _, counters = workspace.since(lambda: workspace.cached(*argv, "-o", "a.o"))
    assert counters.compiled() == {}


@pytest.mark.by_default("-Xptxas -O1-")
@pytest.mark.parametrize(
    ("options", "ran"),
    [
        (("-DUNUSED=1",), set()),
        (("-Xptxas", "-O1"), BACK),
        (("-Xcompiler", "-fPIC"), {"host_compile"}),
        (("-Xcompiler", "-Wall,-Wextra"), {"host_compile"}),
        (("-Xfatbin", "-compress-all"), {"fatbinary", "host_compile"}),
        (("-I.",), {"host_compile"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_another_option_and_a_comment_make_the_stages_of_the_option_run(
    workspace: Workspace, options: tuple[str, ...], ran: set[str]
) -> None:
    after: Files = {"a.cu": COMMENT + SOURCE}
    assert set(check_edit(workspace, (BEFORE, after), then=options).compiled()) == ran


def architectures(*numbers: int) -> list[str]:
    return [word for number in numbers for word in GENCODES[number]]


@pytest.mark.full
def test_architectures_that_are_dropped_or_added(workspace: Workspace) -> None:
    put(workspace, BEFORE)
    compile_once(workspace, "-c", "a.cu", *architectures(75, 80, 86))
    put(workspace, {"a.cu": COMMENT + SOURCE})
    made = rebuild(workspace, "-c", "a.cu", *architectures(75, 80, 86, 90))
    assert made.compiled() == {"cicc": 1, "ptxas": 1, "fatbinary": 1, "host_compile": 1}
    made = rebuild(workspace, "-c", "a.cu", *architectures(75))
    assert set(made.compiled()) == {"fatbinary", "host_compile"}


@pytest.mark.by_default("-cubin")
@pytest.mark.parametrize("mode", ["-ptx", "-cubin", "-fatbin", "-dc"])
def test_the_other_modes(workspace: Workspace, mode: str) -> None:
    put(workspace, BEFORE)
    argv = (mode, "a.cu", *architectures(80, 90)[: 4 if mode in ("-fatbin", "-dc") else 2])
    compile_once(workspace, *argv, product="a.out")
    put(workspace, {"a.cu": COMMENT + SOURCE, "h.h": COMMENT + HEADER})
    made = rebuild(workspace, *argv, product="a.out")
    assert made.compiled() == {}
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


@pytest.mark.full
def test_lines_are_ignored_after_a_compile_of_the_same_text_with_line_information(
    workspace: Workspace,
) -> None:
    """The facts about a pass are shared by both calls."""
    put(workspace, BEFORE)
    compile_once(workspace, "-c", "a.cu")
    put(workspace, moved(SOURCE)[1])
    compile_once(workspace, "-c", "a.cu", "-lineinfo")
    made = rebuild(workspace, "-c", "a.cu")
    assert made.compiled() == {}


DIVIDING = """#include <cstdio>
__device__ __noinline__ int part(int x) { return x / 3; }
__global__ void kernel(int *x) {
  if (*x > 3) {
    *x = part(*x);
    printf("%d\\n", *x);
  }
}
int host(int a) { return a << 3; }
"""
# The stages that run again at least, and the first release with the option.
OPTIONS = {
    "-g": (FRONT, (11, 0)),
    "-G": (FRONT | {"ptxas"}, (11, 0)),
    "-lineinfo": (FRONT | {"ptxas"}, (11, 0)),
    "-rdc=true -dlto -arch=sm_80": (FRONT, (11, 2)),
    "-Xcompiler -g": (FRONT, (11, 0)),
    "-Xcompiler -finstrument-functions": (FRONT, (11, 0)),
}


@pytest.mark.by_default("-lineinfo")
@pytest.mark.parametrize("options", OPTIONS)
def test_an_option_by_which_lines_may_be_seen(
    workspace: Workspace, options: str, reference_directory: Path
) -> None:
    ran, since = OPTIONS[options]
    if cuda_release(workspace) < since:
        pytest.skip("no such option")
    counters = check_edit(workspace, moved(DIVIDING), options.split(), keep=reference_directory)
    assert ran <= counters.compiled().keys()


@pytest.mark.by_default("-fsanitize=undefined")
@pytest.mark.parametrize("option", ["-fsanitize=undefined", "-flto"])
def test_an_option_by_which_objects_name_the_intermediate_directory(
    workspace: Workspace, option: str
) -> None:
    """Such objects differ on each run of plain nvcc, and are not stored."""
    before, after = moved(DIVIDING)
    put(workspace, before)
    argv = ("-c", "a.cu", "-Xcompiler", option)
    first = _without_directory(compile_once(workspace, *argv))
    put(workspace, after)
    result, counters = workspace.since(lambda: workspace.cached(*argv, *HOST_OPTIONS, "-o", "a.o"))
    assert result.status == 0
    assert counters.compiled().keys() >= FRONT
    if option != "-flto":
        found = _without_directory((workspace.directory / "a.o").read_bytes())
        workspace.environ["NVCCACHE_DIR"] += "-fresh"
        assert found == _without_directory(compile_once(workspace, *argv)) != first


def _without_directory(content: bytes) -> bytes:
    return re.sub(rb"nvccache-\d+/[0-9a-f]{16}", b"", content)


def test_lines_that_do_not_matter_stay_so(workspace: Workspace) -> None:
    """This shows that the tests above can fail."""
    argv = ("-Xcompiler", "-O3,-fPIC", "-O2", "-ftemplate-backtrace-limit=0", "-ftemplate-depth=2000")
    assert check_edit(workspace, moved(DIVIDING), argv).compiled() == {}


KERNEL = "__global__ void kernel(int *x) {{ {device} }}\nint launch() {{ {host} }}\n"
READERS = {
    "__LINE__": ("*x = __LINE__;", "return __LINE__;"),
    "__builtin_LINE of a device": ("*x = __builtin_LINE();", "return 1;"),
    "a default argument": ("", "return where();"),
    "assert": ("assert(*x);", "assert(sizeof(int) == 4); return 1;"),
}


@pytest.mark.by_default("__builtin_LINE of a device")
@pytest.mark.parametrize("name", READERS)
def test_text_that_reads_its_line(workspace: Workspace, name: str) -> None:
    device, host = READERS[name]
    text = "#include <cassert>\nint where(int line = __builtin_LINE());\n"
    if "__builtin" not in host and name != "a default argument":
        text = "#include <cassert>\n"
    text += KERNEL.format(device=device, host=host)
    assert check_edit(workspace, moved(text)).compiled()


@pytest.mark.full
def test_a_source_location(workspace: Workspace) -> None:
    returned = "return std::source_location::current().line();"
    text = "#include <source_location>\n" + KERNEL.format(device="", host=returned)
    if workspace.plain("-std=c++20", "-c", workspace.write("a.cu", text), "-o", "a.o").status != 0:
        pytest.skip("this compiler has none")
    assert "host_compile" in check_edit(workspace, moved(text), ("-std=c++20",)).compiled()


# A header in whose text lines could be asked for, and a use of it in the source.
POSITION_READERS = {
    "a default argument": ("HD inline int named(int line = __builtin_LINE()) { return line; }", "named()"),
    "a use that no name shows": (
        "struct fault { int at; HD fault(int, int l = __builtin_LINE()) : at(l) {} };\n"
        "HD inline int taking(fault f) { return f.at; }",
        "taking(1)",
    ),
    "none": ("HD inline int unused(int line = __builtin_LINE()) { return line; }", "1"),
}


@pytest.mark.by_default("a use that no name shows--isystem")
@pytest.mark.parametrize("flag", ["-isystem", "-I"])
@pytest.mark.parametrize("name", POSITION_READERS)
def test_text_that_can_ask_for_its_line_is_keyed_with_lines(
    workspace: Workspace, name: str, flag: str
) -> None:
    """Wherever it does, and whether or not the answer is used."""
    declaration, use = POSITION_READERS[name]
    put(workspace, {"inc/declared.h": f"#define HD __host__ __device__\n{declaration}\n"})
    text = "#include <declared.h>\n" + KERNEL.format(device=f"*x = {use};", host=f"return {use};")
    counters = check_edit(workspace, moved(text), ("-std=c++17", flag, "inc"))
    assert counters.compiled().keys() >= FRONT


@pytest.mark.full
@pytest.mark.parametrize("reader", ["__FILE__", "__builtin_FILE()"])
def test_text_that_reads_its_file(workspace: Workspace, reader: str) -> None:
    """The header has another name; the text is otherwise the same."""
    header = f"inline const char *where() {{ return {reader}; }}\n"
    text = '#include "one.h"\n' + KERNEL.format(device="", host="return where()[0];")
    before = {"a.cu": text, "one.h": header}
    after = {"a.cu": text.replace("one", "two"), "two.h": header, "one.h": None}
    assert "host_compile" in check_edit(workspace, (before, after)).compiled()


@pytest.mark.by_default('host-R"(a\\n{0}b)"-\\n')
@pytest.mark.parametrize(
    ("side", "literal", "inserted"),
    [
        ("host", 'R"(a\n{0}b)"', "\n"),
        ("device", 'R"(a\n{0}b)"', '# 1 "h.h" 3\n'),
        ("host", '"x" R"y(\n)"\n{0})y"', "\n"),
        ("device", 'u8R"(a{0})"', "\n"),
    ],
)
def test_a_line_more_in_a_raw_string(workspace: Workspace, side: str, literal: str, inserted: str) -> None:
    parts = {"host": "return 1;", "device": ""}
    for where, code in (("host", "return LITERAL[2];"), ("device", "*x = LITERAL[*x];")):
        parts[where] = code if where == side else parts[where]
    one, other = (
        KERNEL.format(**parts).replace("LITERAL", literal.format(lines)) for lines in ("", inserted)
    )
    counters = check_edit(workspace, ({"a.cu": one}, {"a.cu": other}))
    assert counters.compiled().keys() >= FRONT
