"""No cut-off where line numbers reach a result: by an option, or since the text uses its own line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scenarios.support.both_ways import by_cache
from scenarios.support.edits import FRONT, check_edit, compile_once, moved, put
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default
SOURCE = """__device__ __noinline__ int part(int x) { return x / 3; }
__global__ void kernel(int *x) {
  if (*x > 3) {
    *x = part(*x);
  }
}
int host(int a) { return a << 3; }
"""
# The stages that run again at least.
OPTIONS = {
    "-g": FRONT,
    "-G": FRONT | {"ptxas"},
    "-lineinfo": FRONT | {"ptxas"},
    "-rdc=true -dlto -arch=sm_80": FRONT,
    "-Xcompiler -finstrument-functions": FRONT,
}


@pytest.mark.by_default("-lineinfo")
@pytest.mark.parametrize("options", OPTIONS)
def test_options_that_expose_line_numbers_rerun_stages_when_lines_move(
    workspace: Workspace, options: str, reference_directory: Path
) -> None:
    made = check_edit(workspace, moved(SOURCE), options.split(), keep=reference_directory)
    assert made.compiled().keys() >= OPTIONS[options]


def test_objects_that_name_the_temporary_directory_are_not_stored(workspace: Workspace) -> None:
    """Such objects differ on each run of plain nvcc, and are not stored."""
    argv = ("-c", "a.cu", "-Xcompiler", "-fsanitize=undefined")
    before, after = moved(SOURCE)
    put(workspace, before)
    first = _without_directory(compile_once(workspace, *argv))
    put(workspace, after)
    made = by_cache(workspace, *argv, "-o", "a.o")
    assert made.status == 0 and made.compiled().keys() >= FRONT
    workspace.environ["NVCCACHE_DIR"] += "-fresh"
    assert _without_directory(made["a.o"]) == _without_directory(compile_once(workspace, *argv)) != first


def _without_directory(content: bytes) -> bytes:
    return re.sub(rb"nvccache-\d+/[0-9a-f]{16}", b"", content)


KERNEL = "__global__ void kernel(int *x) {{ {device} }}\nint launch() {{ {host} }}\n"
HD = "#define HD __host__ __device__\n"
# A header, and the code of a kernel and of a function, where the text can ask for its line.
READERS = {
    "__LINE__": ("", "*x = __LINE__;", "return __LINE__;"),
    "__builtin_LINE of a device": ("", "*x = __builtin_LINE();", "return 1;"),
    "assert": ("#include <cassert>\n", "assert(*x);", "assert(sizeof(int) == 4); return 1;"),
    "a source location": (
        "#include <source_location>\n",
        "",
        "return std::source_location::current().line();",
    ),
    "a use that no name shows": (
        f"{HD}struct fault {{ int at; HD fault(int, int l = __builtin_LINE()) : at(l) {{}} }};\n"
        "HD inline int taking(fault f) { return f.at; }\n",
        "*x = taking(1);",
        "return taking(1);",
    ),
    "none, but of a header": (f"{HD}HD inline int line(int l = __builtin_LINE()) {{ return l; }}\n", "", ""),
}


@pytest.mark.by_default("__builtin_LINE of a device", "a use that no name shows")
@pytest.mark.parametrize("name", READERS)
def test_code_that_can_query_its_line_number_is_compiled_again_when_lines_move(
    workspace: Workspace, name: str
) -> None:
    """Wherever it does, and whether or not the answer is used."""
    header, device, host = READERS[name]
    put(workspace, {"inc/declared.h": header})
    text = "#include <declared.h>\n" + KERNEL.format(device=device, host=host or "return 1;")
    made = check_edit(workspace, moved(text), ("-std=c++20", "-isystem", "inc"))
    assert made.compiled().keys() >= ({"host_compile"} if "location" in name else FRONT)


def test_a_line_inserted_in_a_raw_string_reruns_the_front_end(workspace: Workspace) -> None:
    """Also one that looks like a line marker."""
    texts = []
    for lines in ("", '# 1 "h.h" 3\n'):
        literal = f'R"(a\n{lines}b)"'
        texts.append(KERNEL.format(device=f"*x = {literal}[*x];", host=f"return {literal}[2];"))
    edit = {"a.cu": texts[0]}, {"a.cu": texts[1]}
    assert check_edit(workspace, edit).compiled().keys() >= FRONT
