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


def test_lines_that_do_not_matter_stay_so(workspace: Workspace) -> None:
    """This shows that the tests above can fail."""
    argv = ("-Xcompiler", "-O3,-fPIC", "-O2", "-ftemplate-backtrace-limit=0", "-ftemplate-depth=2000")
    assert check_edit(workspace, moved(SOURCE), argv).compiled() == {}


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
