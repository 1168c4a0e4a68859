"""The same command line in two checkouts or directories: nothing that one gets may be of the other.

Below NVCCACHE_BASE_DIR records of one checkout may answer the other. Sources and directories are named by
absolute paths, as build systems do; nvcc gets relative ones.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping

import pytest

from scenarios.support.both_ways import Made, both_ways
from scenarios.support.cases import (
    DIRECT_HIT,
    NO_DIRECT_HIT,
    OLD_ENOUGH,
    USER,
    Call,
    check_again,
    check_outcome,
    made_by_cache,
    made_by_plain,
    uses,
    value,
)
from workspaces import Workspace

SOURCES = {"src/a.cu": USER, "inc/h.h": value(1)}
NAMED = "extern const char *const name;\nconst char *const name = {};\n"


@dataclasses.dataclass(frozen=True)
class Checkouts:
    """`sources` are in both. `{here}` is the checkout's path."""

    outcome: str
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict)
    options: str = ""
    mode: str = "-ptx"
    names_itself: bool = False  # in the object that plain nvcc makes


CASES = {
    "__FILE__ in a header": Checkouts(
        DIRECT_HIT, {"src/a.cu": '#include "h.h"\n', "inc/h.h": NAMED.format("__FILE__")}, mode="-c"
    ),
    "a generated header that names the checkout": Checkouts(
        NO_DIRECT_HIT,
        {"src/a.cu": '#include "h.h"\n', "inc/h.h": NAMED.format('"{here}"')},
        mode="-c",
        names_itself=True,
    ),
    "a path in a macro": Checkouts(
        NO_DIRECT_HIT,
        {"src/a.cu": NAMED.format("ROOT")},
        options='-DROOT="{here}"',
        mode="-c",
        names_itself=True,
    ),
}
NAMES = ("one", "two")


def call_in(checkouts: Checkouts, name: str, *, is_relative: bool = False) -> Call:
    """The call in a checkout; with relative paths it is the one that nvcc gets."""
    here = "{work}/b/" + name
    options = checkouts.options.replace("{here}", here)
    prefix = "" if is_relative else f"{here}/"
    line = f"{checkouts.mode} {prefix}src/a.cu {options} -I{prefix}inc -MD -MF a.d -o a.o"
    base = {"NVCCACHE_BASE_DIR": "{work}/b"}
    return Call(line=line, makes=("a.o", "a.d"), directory=f"b/{name}", variables=base)


def check_out(workspace: Workspace, checkouts: Checkouts) -> tuple[Call, Call]:
    for name in NAMES:
        for path, text in {**SOURCES, **checkouts.sources}.items():
            here = str(workspace.directory / "b" / name)
            workspace.write(f"b/{name}/{path}", text.replace("{here}", here))
    time.sleep(OLD_ENOUGH)
    one, two = (call_in(checkouts, name) for name in NAMES)
    return one, two


def made_by_plain_in_second(workspace: Workspace, checkouts: Checkouts) -> Made:
    """What nvcc makes of the relative paths that it gets, with the depfile that it writes for those typed."""
    made = made_by_plain(workspace, call_in(checkouts, "two", is_relative=True))
    typed = made_by_plain(workspace, call_in(checkouts, "two"))
    return dataclasses.replace(made, files={**made.files, "a.d": typed.files["a.d"]})


@pytest.mark.parametrize("rule", CASES)
def test_a_second_checkout_gets_the_object_that_nvcc_makes_there(workspace: Workspace, rule: str) -> None:
    """Compile in one, then in the other, then in the first again."""
    checkouts = CASES[rule]
    first, second = check_out(workspace, checkouts)
    before = made_by_cache(workspace, first)
    time.sleep(OLD_ENOUGH)
    made = made_by_cache(workspace, second)
    check_outcome(made.outcome, checkouts.outcome, made)
    assert made == made_by_plain_in_second(workspace, checkouts)
    assert (os.fsencode(workspace.directory / "b/two") in made["a.o"]) == checkouts.names_itself
    time.sleep(OLD_ENOUGH)
    check_again(workspace, first, before, is_recorded=True)


@pytest.mark.parametrize("options", ["-MD -MP", "-MMD", "-MD -odir ."])
def test_depfiles_below_a_base_directory_contain_the_typed_names(workspace: Workspace, options: str) -> None:
    """Ninja takes a relative and an absolute name of one header for two files."""
    names = (
        "inc/sub/one.h src/two.h inc/three.h other/four.h forced/five.h forced/six.h sys/seven.h own/eight.h"
    )
    for name in NAMES:
        here = workspace.directory / "b" / name
        for path in names.split():
            workspace.write(f"b/{name}/{path}", "")
        workspace.write(f"b/{name}/inc/sub/one.h", '#include "../three.h"\n')
        workspace.write(f"b/{name}/forced/five.h", '#include "six.h"\n')
        included = ("<sub/one.h>", '"two.h"', "<four.h>", '"../src/two.h"', "<seven.h>", "<eight.h>")
        workspace.write(
            f"b/{name}/src/a.cu",
            "".join(f"#include {each}\n" for each in included) + "__global__ void k() {}\n",
        )
        (here / "build").mkdir()
        workspace.write(f"b/{name}/build/own/eight.h", "")
        time.sleep(OLD_ENOUGH)
        line = f"-ptx {here}/src/a.cu -I{here}/inc/ -I../other -I{here}/other -I{here}/build/own"
        more = f"-isystem {here}/sys -include {here}/forced/five.h -MF a.d -o a.ptx {options}"
        argv = [*line.split(), *more.split()]
        made = both_ways(workspace, *argv, cwd=here / "build", NVCCACHE_BASE_DIR=f"{workspace.directory}/b")
    assert made.outcome == "direct_hit"


def test_two_checkouts_share_a_compile_whose_header_is_outside_the_base_directory(
    workspace: Workspace,
) -> None:
    workspace.write("outside/h.h", value(1))
    checkouts = Checkouts(NO_DIRECT_HIT, options="-I{work}/outside")
    first, second = check_out(workspace, checkouts)
    for name in ("one", "two"):
        (workspace.directory / "b" / name / "inc/h.h").unlink()
    made_by_cache(workspace, first)
    time.sleep(OLD_ENOUGH)
    check_again(workspace, second, made_by_plain_in_second(workspace, checkouts), is_recorded=True)
    workspace.write("outside/h.h", value(2))
    assert made_by_cache(workspace, second) == made_by_plain_in_second(workspace, checkouts)


@pytest.mark.parametrize("is_on_path", [False, True])
def test_a_header_of_one_checkout_is_an_input_of_both_checkouts_if_both_read_it(
    workspace: Workspace, is_on_path: bool
) -> None:
    """Both read the file of the first checkout, so its edit counts for both, with their own PATH too."""
    name = f'"{workspace.directory}/b/one/led/led.h"' if is_on_path else "<led.h>"
    text = f"#include {name}\n{USER.replace('VALUE', 'VALUE + LED')}"
    checkouts = Checkouts(NO_DIRECT_HIT, {"src/a.cu": text, "led/led.h": "#define LED 1\n"})
    calls = check_out(workspace, checkouts)
    if not is_on_path:
        workspace.environ["CPATH"] = f"{workspace.directory}/b/one/led"
    path = workspace.environ["PATH"]
    for name, call in zip(NAMES, calls, strict=True):
        if is_on_path:
            workspace.environ["PATH"] = f"{path}:{workspace.directory}/b/{name}/led"
        made = made_by_cache(workspace, call)
        workspace.write("b/one/led/led.h", "#define LED 2\n")
        time.sleep(OLD_ENOUGH)
    assert made == made_by_plain_in_second(workspace, checkouts)


def test_a_relative_include_path_out_of_a_checkout_finds_its_own_header(workspace: Workspace) -> None:
    """gcc opens a system header by its real path where that is shorter, which names the first checkout."""
    deep = "/".join(["d"] * (len(str(workspace.directory)) // 3 + 10))
    for number, name in enumerate(NAMES):
        workspace.write(f"{name}/sys/h.h", value(number))
        workspace.write(f"{name}/{deep}/a.cu", uses("<h.h>"))
    time.sleep(OLD_ENOUGH)
    for name in NAMES:
        here = workspace.directory / name / deep
        up = os.path.relpath(workspace.directory / name / "sys", here)
        line = ("-ptx", "a.cu", "-isystem", up, "-o", "a.ptx")
        both_ways(
            workspace, *line, cwd=here, NVCCACHE_BASE_DIR=str(workspace.directory / name), PWD=str(here)
        )


def test_an_object_with_the_checkout_in_compressed_debug_sections_is_not_shared(workspace: Workspace) -> None:
    """Compressed debug sections hide the checkout's path, which nothing else shows: not recorded."""
    workspace.environ["NVCCACHE_BASE_DIR"] = str(workspace.directory / "b")
    text = 'extern "C" void f() { asm volatile(".file 1 \\"x.c\\"\\n.loc 1 1\\nnop"); }\n'
    for name in NAMES:
        workspace.write(f"b/{name}/src/a.cu", text)
        here = workspace.directory / "b" / name / "build"
        here.mkdir(exist_ok=True)
        time.sleep(OLD_ENOUGH)
        line = ("-c", "../src/a.cu", "-o", "a.o", "-Xcompiler=-Wa\\,--compress-debug-sections")
        assert both_ways(workspace, *line, cwd=here).outcome != "direct_hit"


def test_each_checkout_gets_its_own_system_header_though_relative_paths_are_equal(
    workspace: Workspace,
) -> None:
    """gcc opens them by their real path where that is shorter than the one typed, which is relative."""
    levels = len(str(workspace.directory)) // 3 + 10  # the way up is longer than the path of the checkout
    below, up = "/".join(["d"] * levels), "/".join([".."] * levels)
    for number, name in enumerate(NAMES):
        folder = workspace.write(f"{name}/{below}/a.cu", uses("<h.h>")).parent
        workspace.write(f"{name}/sys/h.h", value(number))
        time.sleep(OLD_ENOUGH)
        line = ("-ptx", "a.cu", "-MD", "-MF", "a.d", "-o", "a.ptx", "-isystem", f"{up}/sys")
        made = both_ways(workspace, *line, cwd=folder, PWD=str(folder))
        assert f"{workspace.directory}/{name}/sys/h.h".encode() in made[f"{name}/{below}/a.d"]
