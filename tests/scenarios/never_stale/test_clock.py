"""Values that change: the time, the day, dates of files, process ids, random numbers."""

from __future__ import annotations

import re
import time

import pytest

from scenarios.support.both_ways import Made
from scenarios.support.cases import (
    KERNEL,
    Call,
    Case,
    call,
    check,
    check_cause,
    made_by_cache,
    set_up,
    touch,
    value,
    write,
)
from scenarios.support.toolkits import HOST_COMPILER, replace
from workspaces import Workspace

pytestmark = pytest.mark.light
STAMP = "extern const char stamp[];\nconst char stamp[] = {};\n"
PASTE = "#define J(a, b) a##b\n"
FORCED = "-Xcompiler -include,forced.h"
IN_HEADER = '#include "t.h"\n'
ASKS = "because no direct record is kept: `cc1plus` asks for the time (`t.h` has `{}`)"
_TIME = re.compile(rb"\d\d:\d\d:\d\d")
# The files, the options, and whether `explain` can name the header that uses the time.
TIMES = {
    "by a macro of a header": (
        {"a.cu": IN_HEADER + STAMP.format("NOW"), "t.h": "#define NOW __TIME__\n"},
        "",
        True,
    ),
    "pasted": ({"a.cu": PASTE + STAMP.format("J(__TI, ME__)")}, "", False),
    # Only the last run of the host compiler reads the stamp.
    "for the last compile, pasted": (
        {
            "a.cu": KERNEL.replace("VALUE", "1"),
            "forced.h": "#ifndef __CUDACC__\n" + PASTE + STAMP.format("J(__TI, ME__)") + "#endif\n",
        },
        FORCED,
        False,
    ),
}


@pytest.mark.by_default("by a macro of a header", "for the last compile, pasted")
@pytest.mark.parametrize("way", TIMES)
def test_the_time_is_that_of_now(workspace: Workspace, way: str) -> None:
    files, options, is_named = TIMES[way]
    set_up(workspace, Case(files=files))
    first = _compile(workspace, call(options))
    time.sleep(1.1)
    begun = _clock()
    again = _compile(workspace, call(options))
    assert first != again
    if is_named:
        check_cause(workspace, call(), ASKS.format("__TIME__"))
    times = _TIME.findall(again["a.o"])
    assert times
    assert all(begun <= moment <= _clock() for moment in times if begun <= _clock())  # but at midnight


def test_the_day_is_not_recorded(workspace: Workspace) -> None:
    set_up(workspace, Case(files={"a.cu": IN_HEADER, "t.h": STAMP.format("__DATE__")}))
    objects = {_compile(workspace, call()).files["a.o"] for _ in range(2)}
    assert len(objects) == 1
    check_cause(workspace, call(), ASKS.format("__DATE__"))


CASES = {
    "the date of a header": Case(
        touch("t.h", -1e7),
        ASKS.format("__TIMESTAMP__"),
        {"a.cu": IN_HEADER, "t.h": STAMP.format("__TIMESTAMP__")},
        is_recorded=False,
    ),
    "the date of a header for the last compile": Case(
        touch("forced.h", -1e7),
        (),
        {
            "a.cu": KERNEL.replace("VALUE", "1"),
            "forced.h": "#ifndef __CUDACC__\n" + STAMP.format("__TIMESTAMP__") + "#endif\n",
        },
        call(FORCED),
        is_recorded=None,
    ),
    # The host compiler compares the dates of two files and reports which is older.
    "which of two files is older": Case(
        touch("grammar", 1e7),
        (),
        {
            "a.cu": "#define DO(x) _Pragma(#x)\n#define TWICE(x) DO(x)\n#define D dependency\n"
            'TWICE(GCC D "grammar")\n' + KERNEL.replace("VALUE", "1"),
            "grammar": "",
        },
        prepare=touch("grammar", -1e7),
        is_recorded=False,
    ),
    "a mention of the time, which is no use of it": Case(
        write("h.h", "#define MY__TIME__ 1\n" + value(2)),
        "`h.h` changed",
        {"h.h": "#define MY__TIME__ 1\n" + value(1)},
    ),
}


@pytest.mark.by_default("the date of a header for the last compile", "which of two files is older")
@pytest.mark.parametrize("what", CASES)
def test_dates_of_files_count(workspace: Workspace, what: str) -> None:
    check(workspace, CASES[what])


def test_what_a_wrapper_queries_on_each_run(workspace: Workspace) -> None:
    set_up(workspace, Case(files={"a.cu": KERNEL}))
    text = f'#!/bin/bash\nexec "{HOST_COMPILER}" "-DVALUE=$(date +%s)" "$@"\n'
    replace(workspace.directory / "wrapper", text)
    line = call("-ccbin {work}/wrapper")
    first = _compile(workspace, line)
    time.sleep(1.1)
    assert _compile(workspace, line).files["a.o"] != first.files["a.o"]


def _compile(workspace: Workspace, which: Call) -> Made:
    made = made_by_cache(workspace, which)
    assert (made.status, made.outcome not in ("direct_hit", "bypass")) == (0, True), made
    return made


def _clock() -> bytes:
    return time.strftime("%H:%M:%S").encode()
