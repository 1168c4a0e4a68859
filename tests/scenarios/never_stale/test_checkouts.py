"""Checkouts of the same sources under NVCCACHE_BASE_DIR: records of one may answer the other.

Sources and directories are named by absolute paths, as build systems do. Nothing that the second
checkout gets may name the first.
"""

from __future__ import annotations

import dataclasses
import os
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
ROOT = "{work}/b/"
BASE = "{work}/b"
LEADING = ("variable", "search path", "include", "has include")
SOURCES = {"src/a.cu": USER, "inc/h.h": value(1)}
NAMED = "extern const char *const name;\nconst char *const name = {};\n"
INTERNAL = """
namespace { __device__ int counter = 3; __global__ void hidden(int *x) { *x = counter; } }
static void launch(int *x) { hidden<<<1, 32>>>(x); }
static void (*const keep)(int *) __attribute__((used)) = launch;
"""


@dataclasses.dataclass(frozen=True)
class Checkouts:
    """`sources` are in both; `others` replace some in the second. `{here}` is the checkout's path."""

    outcome: str
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict)
    others: Mapping[str, str] = dataclasses.field(default_factory=dict)
    options: str = ""
    names: tuple[str, str] = ("one", "two")
    names_itself: bool = False  # in the object that plain nvcc makes
    is_reproducible: bool = True


CASES = {
    "a unit that names no path": Checkouts(DIRECT_HIT),
    "a checkout whose name begins like the other's": Checkouts(DIRECT_HIT, names=("one", "one-more")),
    "another header": Checkouts(NO_DIRECT_HIT, others={"inc/h.h": value(2)}),
    "a header beside the source": Checkouts(NO_DIRECT_HIT, others={"src/h.h": value(2)}),
    "a file that is asked for": Checkouts(
        NO_DIRECT_HIT,
        {"inc/h.h": "#if __has_include(<maybe.h>)\n#define VALUE 2\n#else\n#define VALUE 1\n#endif\n"},
        {"inc/maybe.h": ""},
    ),
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
    "__BASE_FILE__": Checkouts(NO_DIRECT_HIT, {"src/a.cu": NAMED.format("__BASE_FILE__")}, names_itself=True),
    "__builtin_FILE": Checkouts(
        NO_DIRECT_HIT, {"src/a.cu": NAMED.format("__builtin_FILE()")}, names_itself=True
    ),
    "__builtin_FILE in a system header of the checkout": Checkouts(
        NO_DIRECT_HIT,
        {
            "src/a.cu": "#include <s.h>\nextern const int x;\nconst int x = length();\n",
            "sys/s.h": "constexpr int length() { return __builtin_strlen(__builtin_FILE()); }\n"
            + "".join(f"extern int padding_{n:0>90};\n" for n in range(30)),
        },
        names=("one", "three"),
        options="-isystem {here}/sys",
    ),
    "a word that can name files, which is not used": Checkouts(
        NO_DIRECT_HIT,
        {
            "src/a.cu": "#include <s.h>\n" + USER,
            "../../outside/s.h": "inline int unused_one(int line = __builtin_LINE()) { return line; }\n"
            + "".join(f"extern int padding_{n:0>90};\n" for n in range(30)),
        },
        options="-isystem {work}/outside",
    ),
    "assert": Checkouts(
        NO_DIRECT_HIT,
        {"src/a.cu": "#include <cassert>\nvoid host(int x) { assert(x); }\n"},
        names_itself=True,
    ),
    "a path in a macro": Checkouts(
        NO_DIRECT_HIT, {"src/a.cu": NAMED.format("ROOT")}, options='-DROOT="{here}"', names_itself=True
    ),
    # There `b` is replaced by `1`, as `linux` would be.
    "a path in a macro, of which a part is one": Checkouts(
        NO_DIRECT_HIT,
        {"src/a.cu": "#define b 1\n#define S(x) #x\n#define STRING(x) S(x)\n" + NAMED.format("STRING(ROOT)")},
        options="-DROOT={here}",
    ),
    "a path in a macro that nobody uses": Checkouts(DIRECT_HIT, options='-DROOT="{here}"'),
    "a unit without external definition": Checkouts(EITHER, {"src/a.cu": INTERNAL}, is_reproducible=False),
}
DEBUG = {
    "debug information": Checkouts(NO_DIRECT_HIT, options="-g", names_itself=True),
    "compressed debug information": Checkouts(NO_DIRECT_HIT, options="-g -Xcompiler -gz"),
}


def call_in(checkouts: Checkouts, name: str, base: str) -> Call:
    here = ROOT + name
    line = f"-c {here}/src/a.cu {checkouts.options} -I{here}/inc -MD -MF a.d -o a.o".replace("{here}", here)
    return Call(line=line, directory=f"b/{name}", variables={"NVCCACHE_BASE_DIR": base})


def check_out(workspace: Workspace, checkouts: Checkouts, base: str = BASE) -> tuple[Call, Call]:
    one, two = checkouts.names
    for name in (one, two):
        for path, text in {**SOURCES, **checkouts.sources}.items():
            workspace.write(f"b/{name}/{path}", text)
    for path, text in checkouts.others.items():
        workspace.write(f"b/{two}/{path}", text)
    time.sleep(OLD_ENOUGH)
    return call_in(checkouts, one, base), call_in(checkouts, two, base)


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
    check_again(workspace, second, made, is_recorded=True)


@pytest.mark.by_default("a unit that names no path", "__FILE__ in a header", "a path in a macro")
@pytest.mark.parametrize("rule", CASES)
def test_two_checkouts(workspace: Workspace, rule: str) -> None:
    check_checkouts(workspace, CASES[rule])


@pytest.mark.by_default("debug information")
@pytest.mark.parametrize("rule", DEBUG)
def test_two_checkouts_with_debug_information(
    workspace: Workspace, rule: str, reference_directory: Path
) -> None:
    check_checkouts(workspace, DEBUG[rule], reference_directory)


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


@pytest.mark.by_default("variable-below it", "include-below it", "include-none")
@pytest.mark.parametrize("base", [BASE, ""], ids=["below it", "none"])
@pytest.mark.parametrize("led_by", LEADING)
def test_what_leads_both_into_one_checkout(workspace: Workspace, led_by: str, base: str) -> None:
    """Both read the file of the first checkout, so its edit counts for both."""
    include = {
        "variable": "#include <led.h>",
        "search path": "",
        "include": f'#include "{workspace.directory}/b/one/led/led.h"',
        "has include": f'#if __has_include("{workspace.directory}/b/one/led/none.h")\n#define LED 2\n#endif',
    }[led_by]
    text = f"{include}\n#ifndef LED\n#define LED 0\n#endif\n{USER}extern const int y;\nconst int y = LED;\n"
    script = '#!/bin/sh\nexec /usr/bin/{} -DLED={} "$@"\n'
    led = {"led.h": "#define LED 1\n", **{name: script.format(name, 1) for name in ("gcc", "g++")}}
    checkouts = Checkouts(NO_DIRECT_HIT, {"src/a.cu": text, **{f"led/{name}": led[name] for name in led}})
    first, second = check_out(workspace, checkouts, base)
    for program in workspace.directory.glob("b/*/led/g*"):
        program.chmod(0o755)
    directory = f"{workspace.directory}/b/one/led"
    if led_by == "variable":
        workspace.environ["CPATH"] = directory
    elif led_by == "search path":
        workspace.environ["PATH"] = f"{directory}:{workspace.environ.get('PATH', os.environ['PATH'])}"
    made_by_cache(workspace, first)
    workspace.write("b/one/led/led.h", "#define LED 2\n")
    workspace.write("b/one/led/none.h", "")
    for name in ("gcc", "g++"):
        workspace.write(f"b/one/led/{name}", script.format(name, 2)).chmod(0o755)
    time.sleep(OLD_ENOUGH)
    made = made_by_cache(workspace, second)
    assert made == made_by_plain(workspace, second)


# The assembler writes its working directory into objects with line information.
ASSEMBLED = 'extern "C" void f() { asm volatile(".file 1 \\"x.c\\"\\n.loc 1 1\\nnop"); }\n'
COMPRESSED = "-Xcompiler=-Wa\\,--compress-debug-sections"


@pytest.mark.by_default("compressed")
@pytest.mark.parametrize("options", [(), (COMPRESSED,)], ids=["plain", "compressed"])
def test_a_directory_that_the_assembler_writes_down(workspace: Workspace, options: tuple[str, ...]) -> None:
    """Compressed debug sections hide the checkout's path, which nothing else shows: not recorded."""
    outcomes = []
    workspace.environ["NVCCACHE_BASE_DIR"] = str(workspace.directory / "b")
    for name in ("one", "two", "one", "two"):
        workspace.write(f"b/{name}/src/a.cu", ASSEMBLED)
        here = workspace.directory / "b" / name / "build"
        here.mkdir(exist_ok=True)
        time.sleep(OLD_ENOUGH)
        counters = both_ways(workspace, "-c", "../src/a.cu", "-o", "a.o", *options, cwd=here).counters
        outcomes.append(counters.outcome)
    assert ("direct_hit" in outcomes) == (not options)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["file", "macro"])
def test_a_wrapper_that_calls_the_checkouts_something_else(workspace: Workspace, kind: str) -> None:
    base = workspace.directory / "b"
    workspace.environ["NVCCACHE_BASE_DIR"] = str(base)
    workspace.write("bin/g++", f'#!/bin/sh\nexec g++ -f{kind}-prefix-map={base}=checkouts "$@"\n').chmod(
        0o755
    )
    for name in ("one", "two"):
        source = workspace.write(f"b/{name}/a.cu", NAMED.format("__FILE__"))
        time.sleep(OLD_ENOUGH)
        argv = ("-ccbin", workspace.directory / "bin/g++", "-c", source, "-o", "a.o")
        made = both_ways(workspace, *argv, cwd=source.parent)
        assert f"checkouts/{name}/a.cu".encode() in made[f"b/{name}/a.o"]
