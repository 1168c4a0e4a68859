"""A file that was read has changed: its content counts, however it changed and however it is spelled."""

from __future__ import annotations

import os
import time

import pytest

from scenarios.support.cases import (
    DEFAULT,
    EITHER,
    KERNEL,
    OLD_ENOUGH,
    TWO_IF_LAST,
    Call,
    Case,
    Link,
    behind,
    call,
    check,
    compile_to_object,
    each,
    made_by_cache,
    made_by_plain,
    make_directory,
    remove,
    rewrite,
    set_up,
    touch,
    uses,
    value,
    write,
)
from workspaces import Workspace

HEADER = {"inc/h.h": value(1)}
SEARCHED = Call("-Iinc")
TWO_ARCHITECTURES = Call(
    "-Iinc -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90",
    line="-fatbin a.cu -o a.fatbin",
    makes=("a.fatbin",),
)
CHANGED = "because `inc/h.h` changed"
ONE_PASS = '#if __CUDA_ARCH__ >= 900\n#include "h.h"\n#else\n#define VALUE 0\n#endif\n' + KERNEL
CASES = {
    "a header that only one device pass sees": Case(
        write("inc/h.h", value(2)), CHANGED, {**HEADER, "a.cu": ONE_PASS}, TWO_ARCHITECTURES
    ),
    "the same size and date": Case(rewrite("inc/h.h", value(2)), CHANGED, HEADER, SEARCHED),
    # Read: compiled twice, the second time by the record, with a.cu (which includes "h.h") and these files;
    # then the change is made, and `explain` must give this cause; SEARCHED is the command line, with -Iinc.
    # By default a case also says that plain nvcc now makes something else, and that no direct hit is allowed.
    "what a link leads to": Case(
        change=write("one.h", value(2)),
        cause=CHANGED,
        files={"one.h": value(1), "inc/h.h": Link("../one.h")},
        call=SEARCHED,
    ),
    "a name that proc only renames": Case(
        write("inc/h.h", value(2)), (), {"a.cu": uses("<h.h>"), **HEADER}, call("-I /proc/self/cwd/inc")
    ),
    "a directory in the place of a header that was passed over": Case(
        each(remove("sub/h.h"), make_directory("sub/h.h")),
        (),
        {
            "a.cu": behind('#include "sub/h.h"\n#include "sub/outer.h"'),
            "sub/h.h": "#pragma once\n" + value(1),
            "sub/outer.h": '#include "h.h"\n',
            "late/sub/h.h": value(3),
        },
        call("-Ilate"),
    ),
    "a name that only the last compile asks for": Case(
        write("maybe.h", ""),
        (),
        {"a.cu": DEFAULT, "forced.h": TWO_IF_LAST.format('__has_include("maybe.h")')},
        compile_to_object("-Xcompiler -include,forced.h"),
    ),
    # It had been read already, so the second inclusion leaves no trace in the preprocessed text.
    "a header that appears where one was passed over": Case(
        write("sub/h.h", "#undef VALUE\n#define VALUE 2\n"),
        (),
        {
            "a.cu": behind('#include <h.h>\n#include "sub/outer.h"'),
            "inc/h.h": f"#pragma once\n{value(1)}",
            "sub/outer.h": '#define H "h.h"\n#include H\n',
        },
        SEARCHED,
    ),
    # Up to 13.2 ptxas writes down the date and size of the files that line information names.
    "a date that the cubin holds": Case(
        touch("a.cu", -1e7),
        (),
        {
            "inc/h.h": "__device__ inline int twice(int i) { return i * 2; }\n",
            "a.cu": '#include "h.h"\n__global__ void k(int *x) { *x = twice(*x); }\n',
        },
        Call("-Iinc -lineinfo", line="-cubin a.cu -o a.cubin", makes=("a.cubin",)),
        outcome=EITHER,
        changes_product=None,
    ),
}


@pytest.mark.by_default(
    *(rule for rule in CASES if rule != "a name that proc only renames"),
    smoke={"the same size and date": "changed input"},
)
@pytest.mark.parametrize("rule", CASES)
def test_changed_content_of_a_file_that_was_read_is_noticed(workspace: Workspace, rule: str) -> None:
    check(workspace, CASES[rule])


def test_file_dates_that_decide_pragma_once_are_inputs(workspace: Workspace) -> None:
    """The host compiler treats two files as one if size, date and content are the same."""
    counted = "".join(f"#elif VALUE == {at}\n#undef VALUE\n#define VALUE {at + 1}\n" for at in (1, 2))
    counted = f"#pragma once\n#ifndef VALUE\n#define VALUE 1\n{counted}#endif\n"
    names = ("x/h.h", "y/h.h", "z/h.h")
    source = "".join(f'#include "{name}"\n' for name in names) + KERNEL
    case = Case(files={"a.cu": source, **dict.fromkeys(names, counted)})
    set_up(workspace, case)
    for dates in ((1e9, 1e9, 2e9), (1e9, 2e9, 3e9)):
        for name, date in zip(names, dates, strict=True):
            os.utime(workspace.directory / name, (date, date))
        assert made_by_cache(workspace, case.call) == made_by_plain(workspace, case.call)


def test_switching_back_to_an_earlier_header_is_a_direct_hit(workspace: Workspace) -> None:
    set_up(workspace, Case(files=HEADER))
    made = {}
    for number in (1, 2, 1, 2):
        workspace.write("inc/h.h", value(number))
        time.sleep(OLD_ENOUGH)
        now = made_by_cache(workspace, SEARCHED)
        assert (now.outcome == "direct_hit") == (number in made)
        assert made.setdefault(number, now) == now
    assert made[1] != made[2]
    assert made[2] == made_by_plain(workspace, SEARCHED)
