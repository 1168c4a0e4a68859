"""How a compile is called: command line, option files, environment and working directory."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from scenarios.support.cases import (
    DIRECT_HIT,
    KERNEL,
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
# `explain` knows no values of macros, which may be secrets.
ANOTHER_VALUE = "the value of `-DX` changed"
CASES = {
    "directories change places": Case(
        cause="because the command line was reordered",
        files=TWO,
        call=Call("-Ione -Itwo"),
        then=Call("-Itwo -Ione"),
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
    "a variable that no tool knows": Case(
        files=HEADER, then=Call(variables={"UNRELATED": "1"}), outcome=DIRECT_HIT, changes_product=False
    ),
}


@pytest.mark.by_default(
    "directories change places",
    "an option file of an option file changes",
    "CPATH is set",
    "NVCC_PREPEND_FLAGS",
    "SOURCE_DATE_EPOCH",
    "the language of the messages",
    "a variable that no tool knows",
    smoke={"a variable that no tool knows": "direct hit"},
)
@pytest.mark.parametrize("rule", CASES)
def test_the_call_counts(workspace: Workspace, rule: str) -> None:
    check(workspace, CASES[rule])


@pytest.mark.by_default("-MF b.d -o out/a.o")
@pytest.mark.parametrize("names", ["-MF b.d -o out/a.o", "-MF a.d -MT target -o a.o"])
def test_where_the_products_go_changes_only_the_dependency_file(workspace: Workspace, names: str) -> None:
    """For a unit with an external definition, that is; see test_product_places.py for others."""
    words = names.split()
    first, then = Call(), Call(line=f"-c a.cu -MD {names}", makes=(words[-1], words[1]))
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
    check(workspace, Case(files={**TWO, "h.h": value(1)}, call=one, then=two), reference_directory)


def test_the_modes_of_the_products_are_those_of_now(workspace: Workspace) -> None:
    set_up(workspace, Case(files=HEADER))
    made = []
    before = os.umask(0o077)
    try:
        for number, mask in enumerate((0o077, 0o022)):
            os.umask(mask)
            expected = made_by_plain(workspace, Call())
            check_again(workspace, Call(), expected, is_recorded=number > 0)
            made.append(expected)
            time.sleep(OLD_ENOUGH)
    finally:
        os.umask(before)
    assert made[0] != made[1]
