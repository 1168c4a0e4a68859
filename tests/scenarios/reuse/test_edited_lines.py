"""No cut-off where line numbers reach a result: by an option, or since the text uses its own line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scenarios.support.edits import FRONT, check_edit, compile_once, moved, put
from scenarios.support.toolkits import HOST_OPTIONS, cuda_release
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
    counters = check_edit(workspace, moved(SOURCE), options.split(), keep=reference_directory)
    assert ran <= counters.compiled().keys()


@pytest.mark.by_default("-fsanitize=undefined")
@pytest.mark.parametrize("option", ["-fsanitize=undefined", "-flto"])
def test_an_option_by_which_objects_name_the_intermediate_directory(
    workspace: Workspace, option: str
) -> None:
    """Such objects differ on each run of plain nvcc, and are not stored."""
    before, after = moved(SOURCE)
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
    "a default argument": ("int where(int line = __builtin_LINE());\n", "", "return where();"),
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
def test_text_that_can_ask_for_its_line_is_keyed_with_lines(workspace: Workspace, name: str) -> None:
    """Wherever it does, and whether or not the answer is used."""
    header, device, host = READERS[name]
    put(workspace, {"inc/declared.h": header})
    text = "#include <declared.h>\n" + KERNEL.format(device=device, host=host or "return 1;")
    made = check_edit(workspace, moved(text), ("-std=c++20", "-isystem", "inc"))
    assert made.compiled().keys() >= ({"host_compile"} if "location" in name else FRONT)


@pytest.mark.full
def test_text_that_reads_its_file(workspace: Workspace) -> None:
    """The header has another name; the text is otherwise the same."""
    header = "inline const char *where() { return __FILE__; }\n"
    text = '#include "one.h"\n' + KERNEL.format(device="", host="return where()[0];")
    before = {"a.cu": text, "one.h": header}
    after = {"a.cu": text.replace("one", "two"), "two.h": header, "one.h": None}
    assert "host_compile" in check_edit(workspace, (before, after)).compiled()


@pytest.mark.by_default("host")
@pytest.mark.parametrize("side", ["host", "device"])
def test_a_line_more_in_a_raw_string(workspace: Workspace, side: str) -> None:
    texts = []
    for lines in ("", "\n", '# 1 "h.h" 3\n'):
        literal = f'R"(a\n{lines}b)"'
        parts = {"host": f"return {literal}[2];", "device": ""}
        if side == "device":
            parts = {"host": "return 1;", "device": f"*x = {literal}[*x];"}
        texts.append(KERNEL.format(**parts))
    for text in texts[1:]:
        edit = {"a.cu": texts[0]}, {"a.cu": text}
        assert check_edit(workspace, edit).compiled().keys() >= FRONT
