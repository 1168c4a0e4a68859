"""How a compile is called: command line, option files, environment and working directory."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.support.cases import (
    DIRECT_HIT,
    EITHER,
    KERNEL,
    NO_DIRECT_HIT,
    OLD_ENOUGH,
    UNCHANGED,
    Call,
    Case,
    check,
    check_again,
    check_cause,
    made_by_cache,
    made_by_plain,
    remove,
    set_up,
    touch,
    value,
    write,
)
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default
HEADER = {"h.h": "#ifndef X\n#define X 0\n#endif\n#define VALUE X\n"}
TWO = {"one/h.h": value(1), "two/h.h": value(2)}
WARNING = {
    "a.cu": "#include <cstdio>\n#warning said\n#define VALUE 1\n"
    + KERNEL
    + 'int host() { int unused; return std::printf("%s", 5); }\n'
}
FLOATS = {
    "a.cu": "__global__ void kernel(float *x) { x[0] = x[1] * 2.5f / x[2]; x[3] = x[0] + x[4]; }\n",
}


def added(option: str) -> str:
    return f"because `{option}` was added to the command line"


def removed(option: str) -> str:
    return f"because `{option}` was removed from the command line"


# `explain` knows no values of macros, which may be secrets.
ANOTHER_VALUE = "the value of `-DX` changed"
COMMAND_LINES = {
    "a definition is added": Case(cause=added("-DX=…"), files=HEADER, then=Call("-DX=1")),
    "directories change places": Case(
        cause="because the command line was reordered",
        files=TWO,
        call=Call("-Ione -Itwo"),
        then=Call("-Itwo -Ione"),
    ),
    "an option for the host compiler is added": Case(
        cause=added("-Xcompiler -fno-ident"), files=HEADER, then=Call("-Xcompiler -fno-ident")
    ),
    "another kind of product": Case(
        files=HEADER, then=Call(line="-ptx a.cu -MD -MF a.d -o a.o"), is_recorded_after=True
    ),
    "system headers are left out of the dependency file": Case(
        files=HEADER, then=Call(line="-c a.cu -MMD -MF a.d -o a.o"), outcome=EITHER
    ),
    "an option file of an option file changes": Case(
        write("more.txt", "-DX=2\n"),
        ("`more.txt` changed", ANOTHER_VALUE),
        {**HEADER, "opts.txt": "-O2\n-optf more.txt\n", "more.txt": "-DX=1\n"},
        Call("-optf opts.txt"),
    ),
    "an option file is gone": Case(
        remove("opts.txt"),
        (),
        {**HEADER, "opts.txt": "-DX=1\n"},
        Call("-optf opts.txt"),
        undo=write("opts.txt", "-DX=1\n"),
    ),
}
ENVIRONMENT = {
    "CPATH": Case(
        cause="the environment variable `CPATH` changed",
        files=TWO,
        call=Call(variables={"CPATH": "one"}),
        then=Call(variables={"CPATH": "two"}),
    ),
    "CPATH is set": Case(
        cause="the environment variable `CPATH` was set",
        files=TWO,
        call=Call("-isystem two"),
        then=Call("-isystem two", {"CPATH": "one"}),
    ),
    "NVCC_PREPEND_FLAGS": Case(
        cause=ANOTHER_VALUE,
        files=HEADER,
        call=Call(variables={"NVCC_PREPEND_FLAGS": "-DX=1"}),
        then=Call(variables={"NVCC_PREPEND_FLAGS": "-DX=2"}),
    ),
    "SOURCE_DATE_EPOCH": Case(
        files={"a.cu": "extern const char date[];\nconst char date[] = __DATE__;\n"},
        call=Call(variables={"SOURCE_DATE_EPOCH": "1000000000"}),
        then=Call(variables={"SOURCE_DATE_EPOCH": "1100000000"}),
        is_recorded=None,
    ),
    "the language of the messages": Case(
        cause="the environment variable `LC_ALL` changed",
        files=WARNING,
        call=Call("-Xcompiler -Wall"),
        then=Call("-Xcompiler -Wall", {"LC_ALL": "C.UTF-8"}),
    ),
}
HARMLESS = {
    "a variable that no tool knows": Case(then=Call(variables={"UNRELATED": "1"})),
    "an option file is touched": Case(
        touch("opts.txt", 0), files={"opts.txt": "-DX=1\n"}, call=Call("-optf opts.txt")
    ),
}


@contextlib.contextmanager
def creating_with(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.by_default(
    "a definition is added", "directories change places", "an option file of an option file changes"
)
@pytest.mark.parametrize("rule", COMMAND_LINES)
def test_the_command_line_counts(workspace: Workspace, rule: str) -> None:
    check(workspace, COMMAND_LINES[rule])


@pytest.mark.by_default(
    "CPATH is set", "NVCC_PREPEND_FLAGS", "SOURCE_DATE_EPOCH", "the language of the messages"
)
@pytest.mark.parametrize("rule", ENVIRONMENT)
def test_the_environment_counts(workspace: Workspace, rule: str) -> None:
    check(workspace, ENVIRONMENT[rule])


@pytest.mark.by_default(
    "a variable that no tool knows", smoke={"a variable that no tool knows": "direct hit"}
)
@pytest.mark.parametrize("rule", HARMLESS)
def test_what_has_no_effect_is_a_direct_hit(workspace: Workspace, rule: str) -> None:
    case = dataclasses.replace(HARMLESS[rule], outcome=DIRECT_HIT, changes_product=False)
    check(workspace, dataclasses.replace(case, files={**HEADER, **case.files}))


@pytest.mark.by_default("-c a.cu -MD -MF b.d -o out/a.o-makes2")
@pytest.mark.parametrize(
    ("line", "makes"),
    [
        ("-c a.cu -MD -MF a.d -o b.o", ("b.o", "a.d")),
        ("-c a.cu -MD -MF b.d -o a.o", ("a.o", "b.d")),
        ("-c a.cu -MD -MF b.d -o out/a.o", ("out/a.o", "b.d")),
        ("-c a.cu -MD -MF a.d -MT target -o a.o", ("a.o", "a.d")),
    ],
)
def test_where_the_products_go_changes_only_the_dependency_file(
    workspace: Workspace, line: str, makes: tuple[str, ...]
) -> None:
    """For a unit with an external definition, that is; see test_product_places.py for others."""
    first, then = Call(), Call(line=line, makes=makes)
    if "-MT" in line:
        first = Call(line=line.replace("target", "other"))
    set_up(workspace, Case(files={**HEADER, "out": None}))
    made_by_cache(workspace, first)
    expected = made_by_plain(workspace, then)
    assert expected.status == 0
    check_again(workspace, then, expected, is_recorded=True)
    check_cause(workspace, then, UNCHANGED)


def test_the_working_directory_counts_where_names_are_relative(workspace: Workspace) -> None:
    line = "-c ../a.cu -MD -MF ../a.d -o ../a.o -I."
    makes = ("../a.o", "../a.d")
    one, two = (Call(line=line, makes=makes, directory=name) for name in ("one", "two"))
    cause = ("the working directory changed", "`./h.h` changed", "`h.h` changed")
    check(workspace, Case(cause=cause, files=TWO, call=one, then=two))
    check_again(workspace, one, made_by_plain(workspace, one), is_recorded=True)


def test_the_working_directory_of_debug_information_counts(
    workspace: Workspace, reference_directory: Path
) -> None:
    line = "-g -c {work}/a.cu -MD -MF {work}/a.d -o {work}/a.o"
    one, two = (Call(line=line, makes=("../a.o", "../a.d"), directory=name) for name in ("one", "two"))
    case = Case(files={**TWO, "h.h": value(1)}, call=one, then=two, outcome=NO_DIRECT_HIT)
    check(workspace, case, reference_directory)


@pytest.mark.full
def test_two_sources_in_one_call(workspace: Workspace) -> None:
    makes = ("a.o", "b.o", "a.d", "b.d")
    call = Call(line="-c a.cu b.cu -MD", makes=makes)
    files = {"b.cu": KERNEL.replace("VALUE", "1").replace("launch", "other"), "h.h": value(1)}
    check(workspace, Case(write("h.h", value(2)), (), files, call, is_recorded=None))


@pytest.mark.by_default("masks0")
@pytest.mark.parametrize("masks", [(0o077, 0o022), (0o022, 0o077)])
def test_the_modes_of_the_products_are_those_of_now(workspace: Workspace, masks: tuple[int, int]) -> None:
    set_up(workspace, Case(files=HEADER))
    made = []
    for number, mask in enumerate(masks):
        with creating_with(mask):
            expected = made_by_plain(workspace, Call())
            check_again(workspace, Call(), expected, is_recorded=number > 0)
        made.append(expected)
        time.sleep(OLD_ENOUGH)
    assert made[0] != made[1]
