"""Checkouts of the same sources under NVCCACHE_BASE_DIR: records of one may answer the other.

Sources and directories are named by absolute paths, as build systems do. Nothing that the second
checkout gets may name the first.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from scenarios.support.both_ways import Made, both_ways
from scenarios.support.cases import (
    DIRECT_HIT,
    EITHER,
    NO_DIRECT_HIT,
    OLD_ENOUGH,
    USER,
    Call,
    check_again,
    check_outcome,
    made_by_cache,
    made_by_plain,
    value,
    with_empty_cache,
)
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default
SOURCES = {"src/a.cu": USER, "inc/h.h": value(1)}
NAMED = "extern const char *const name;\nconst char *const name = {};\n"
INTERNAL = """
namespace { __device__ int counter = 3; __global__ void hidden(int *x) { *x = counter; } }
static void launch(int *x) { hidden<<<1, 32>>>(x); }
static void (*const keep)(int *) __attribute__((used)) = launch;
"""


@dataclasses.dataclass(frozen=True)
class Checkouts:
    """`sources` are in both. `{here}` is the checkout's path."""

    outcome: str
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict)
    options: str = ""
    names: tuple[str, str] = ("one", "two")
    names_itself: bool = False  # in the object that plain nvcc makes
    is_reproducible: bool = True


CASES = {
    "a unit that names no path": Checkouts(DIRECT_HIT),
    "__FILE__ in a header": Checkouts(
        NO_DIRECT_HIT,
        {"src/a.cu": '#include "h.h"\n', "inc/h.h": NAMED.format("__FILE__")},
        names_itself=True,
    ),
    "__FILE__ by its length only": Checkouts(
        NO_DIRECT_HIT,
        {"src/a.cu": "__global__ void kernel(int *x) { *x = sizeof(__FILE__); }\n"},
        names=("one", "three"),
    ),
    "__builtin_FILE": Checkouts(
        NO_DIRECT_HIT, {"src/a.cu": NAMED.format("__builtin_FILE()")}, names_itself=True
    ),
    "a path in a macro": Checkouts(
        NO_DIRECT_HIT, {"src/a.cu": NAMED.format("ROOT")}, options='-DROOT="{here}"', names_itself=True
    ),
    "a unit without external definition": Checkouts(EITHER, {"src/a.cu": INTERNAL}, is_reproducible=False),
}
DEBUG = Checkouts(NO_DIRECT_HIT, options="-g", names_itself=True)


def call_in(checkouts: Checkouts, name: str) -> Call:
    here = "{work}/b/" + name
    line = f"-c {here}/src/a.cu {checkouts.options} -I{here}/inc -MD -MF a.d -o a.o".replace("{here}", here)
    return Call(line=line, directory=f"b/{name}", variables={"NVCCACHE_BASE_DIR": "{work}/b"})


def check_out(workspace: Workspace, checkouts: Checkouts) -> tuple[Call, Call]:
    one, two = checkouts.names
    for name in (one, two):
        for path, text in {**SOURCES, **checkouts.sources}.items():
            workspace.write(f"b/{name}/{path}", text)
    time.sleep(OLD_ENOUGH)
    return call_in(checkouts, one), call_in(checkouts, two)


def check_names(workspace: Workspace, made: Made, checkouts: Checkouts) -> None:
    """The second checkout's paths and none of the first's."""
    one, two = (str(workspace.directory / "b" / name).encode() + b"/" for name in checkouts.names)
    outputs = [made.stderr, *(content for _, content in made.files.values())]
    assert not [text for text in outputs if one in text]
    assert two in made["a.d"]


def check_checkouts(workspace: Workspace, checkouts: Checkouts, keep: Path | None = None) -> None:
    """Compile in one, then in the other, then in each again."""
    first, second = check_out(workspace, checkouts)
    before = made_by_cache(workspace, first)
    time.sleep(OLD_ENOUGH)
    made = made_by_cache(workspace, second)
    check_outcome(made.outcome, checkouts.outcome, made)
    check_names(workspace, made, checkouts)
    if checkouts.is_reproducible:
        assert made == made_by_plain(workspace, second, keep)
        here = str(workspace.directory / "b" / checkouts.names[1]).encode()
        assert (re.search(re.escape(here) + rb"\b", made["a.o"]) is not None) == checkouts.names_itself
    else:
        assert made == made_by_cache(with_empty_cache(workspace), second)
    time.sleep(OLD_ENOUGH)
    check_again(workspace, first, before, is_recorded=True)


@pytest.mark.by_default("a unit that names no path", "__FILE__ in a header", "a path in a macro")
@pytest.mark.parametrize("rule", CASES)
def test_two_checkouts(workspace: Workspace, rule: str) -> None:
    check_checkouts(workspace, CASES[rule])


def test_two_checkouts_with_debug_information(workspace: Workspace, reference_directory: Path) -> None:
    check_checkouts(workspace, DEBUG, reference_directory)


def test_a_header_outside_the_base_directory_is_the_same_for_both(workspace: Workspace) -> None:
    workspace.write("outside/h.h", value(1))
    checkouts = Checkouts(NO_DIRECT_HIT, options="-I{work}/outside")
    first, second = check_out(workspace, checkouts)
    for name in ("one", "two"):
        (workspace.directory / "b" / name / "inc/h.h").unlink()
    made_by_cache(workspace, first)
    time.sleep(OLD_ENOUGH)
    check_again(workspace, second, made_by_plain(workspace, second), is_recorded=True)
    workspace.write("outside/h.h", value(2))
    for call in (first, second):
        made = made_by_cache(workspace, call)
        assert made == made_by_plain(workspace, call)


@pytest.mark.by_default("variable")
@pytest.mark.parametrize("led_by", ["variable", "include"])
def test_what_leads_both_into_one_checkout(workspace: Workspace, led_by: str) -> None:
    """Both read the file of the first checkout, so its edit counts for both."""
    include = "<led.h>" if led_by == "variable" else f'"{workspace.directory}/b/one/led/led.h"'
    text = f"#include {include}\n{USER}extern const int y;\nconst int y = LED;\n"
    checkouts = Checkouts(NO_DIRECT_HIT, {"src/a.cu": text, "led/led.h": "#define LED 1\n"})
    first, second = check_out(workspace, checkouts)
    if led_by == "variable":
        workspace.environ["CPATH"] = f"{workspace.directory}/b/one/led"
    made_by_cache(workspace, first)
    workspace.write("b/one/led/led.h", "#define LED 2\n")
    time.sleep(OLD_ENOUGH)
    assert made_by_cache(workspace, second) == made_by_plain(workspace, second)


def test_a_directory_that_the_assembler_writes_down(workspace: Workspace) -> None:
    """Compressed debug sections hide the checkout's path, which nothing else shows: not recorded."""
    workspace.environ["NVCCACHE_BASE_DIR"] = str(workspace.directory / "b")
    text = 'extern "C" void f() { asm volatile(".file 1 \\"x.c\\"\\n.loc 1 1\\nnop"); }\n'
    for name in ("one", "two", "two"):
        workspace.write(f"b/{name}/src/a.cu", text)
        here = workspace.directory / "b" / name / "build"
        here.mkdir(exist_ok=True)
        time.sleep(OLD_ENOUGH)
        line = ("-c", "../src/a.cu", "-o", "a.o", "-Xcompiler=-Wa\\,--compress-debug-sections")
        assert both_ways(workspace, *line, cwd=here).outcome != "direct_hit"


@pytest.mark.full
def test_a_wrapper_that_calls_the_checkouts_something_else(workspace: Workspace) -> None:
    base = workspace.directory / "b"
    workspace.environ["NVCCACHE_BASE_DIR"] = str(base)
    text = f'#!/bin/sh\nexec g++ -ffile-prefix-map={base}=checkouts "$@"\n'
    workspace.write("bin/g++", text).chmod(0o755)
    for name in ("one", "two"):
        source = workspace.write(f"b/{name}/a.cu", NAMED.format("__FILE__"))
        time.sleep(OLD_ENOUGH)
        argv = ("-ccbin", workspace.directory / "bin/g++", "-c", source, "-o", "a.o")
        made = both_ways(workspace, *argv, cwd=source.parent)
        assert f"checkouts/{name}/a.cu".encode() in made[f"b/{name}/a.o"]
