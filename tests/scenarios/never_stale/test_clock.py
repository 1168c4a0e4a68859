"""The time of day and dates of files: what a compile writes of them is of now."""

from __future__ import annotations

import re
import time

import pytest

from scenarios.support.both_ways import Made
from scenarios.support.cases import KERNEL, Call, Case, check, compile_to_object, made_by_cache, set_up, touch
from workspaces import Workspace

STAMP = "extern const char stamp[];\nconst char stamp[] = {};\n"
PASTE = "#define J(a, b) a##b\n"
FORCED = "-Xcompiler -include,forced.h"
_TIME = re.compile(rb"\d\d:\d\d:\d\d")
# The files and the options.
TIMES = {
    "by a macro of a header": (
        {"a.cu": '#include "t.h"\n' + STAMP.format("NOW"), "t.h": "#define NOW __TIME__\n"},
        "",
    ),
    # Only the last run of the host compiler reads the stamp.
    "for the last compile, pasted": (
        {
            "a.cu": KERNEL.replace("VALUE", "1"),
            "forced.h": "#ifndef __CUDACC__\n" + PASTE + STAMP.format("J(__TI, ME__)") + "#endif\n",
        },
        FORCED,
    ),
}


@pytest.mark.parametrize("way", TIMES)
def test_objects_that_hold_the_time_of_the_compile_are_never_reused(workspace: Workspace, way: str) -> None:
    files, options = TIMES[way]
    set_up(workspace, Case(files=files))
    first = _compile(workspace, compile_to_object(options))
    time.sleep(1.1)
    begun = _clock()
    again = _compile(workspace, compile_to_object(options))
    assert first != again
    times = _TIME.findall(again["a.o"])
    assert times
    assert all(begun <= moment <= _clock() for moment in times if begun <= _clock())  # but at midnight


CASES = {
    "the date of a header for the last compile": Case(
        touch("forced.h", -1e7),
        (),
        {
            "a.cu": KERNEL.replace("VALUE", "1"),
            "forced.h": "#ifndef __CUDACC__\n" + STAMP.format("__TIMESTAMP__") + "#endif\n",
        },
        compile_to_object(FORCED),
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
}


@pytest.mark.parametrize("what", CASES)
def test_a_compile_that_depends_on_file_dates_notices_another_date(workspace: Workspace, what: str) -> None:
    check(workspace, CASES[what])


def _compile(workspace: Workspace, which: Call) -> Made:
    made = made_by_cache(workspace, which)
    assert (made.status, made.outcome not in ("direct_hit", "bypass")) == (0, True), made
    return made


def _clock() -> bytes:
    return time.strftime("%H:%M:%S").encode()
