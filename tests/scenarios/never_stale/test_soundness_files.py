"""A file that was read has changed: its content counts, however it changed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from scenarios.support.cases import (
    DIRECT_HIT,
    EITHER,
    KERNEL,
    OLD_ENOUGH,
    Call,
    Case,
    Change,
    Link,
    check,
    each,
    link,
    made_by_cache,
    made_by_plain,
    move,
    remove,
    rewrite,
    set_up,
    swap,
    touch,
    uses,
    value,
    write,
)
from scenarios.support.toolkits import cuda_release
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

HEADER = {"inc/h.h": value(1)}
SEARCHED = Call("-Iinc")
BOTH = Call("-Iinc -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90")
CHANGED = "because `inc/h.h` changed"
NOTED = "#pragma once\n#ifdef VALUE\n#undef VALUE\n#define VALUE 2\n#else\n#define VALUE 1\n#endif\n"
ONCE = {"a.cu": '#include "x/h.h"\n#include "y/h.h"\n' + KERNEL, "x/h.h": NOTED, "y/h.h": Link("../x/h.h")}


def seen_if(condition: str) -> str:
    """A source that includes the header in some passes only."""
    return f'#if {condition}\n#include "h.h"\n#else\n#define VALUE 0\n#endif\n' + KERNEL


def second(name: str, files: dict[str, str | Link | None] = HEADER, call: Call = SEARCHED) -> Case:
    """A header gets another value."""
    return Case(write(name, value(2)), f"because `{name}` changed", files, call)


CASES = {
    "a header": Case(write("inc/h.h", value(2)), CHANGED, HEADER, SEARCHED, undo=write("inc/h.h", value(1))),
    "the source": Case(
        write("a.cu", KERNEL.replace("VALUE", "2")), "`a.cu` changed", {"a.cu": KERNEL.replace("VALUE", "1")}
    ),
    "a header that only the host pass sees": second(
        "inc/h.h", {**HEADER, "a.cu": seen_if("!defined(__CUDA_ARCH__)")}
    ),
    "a header that only one device pass sees": second(
        "inc/h.h", {**HEADER, "a.cu": seen_if("__CUDA_ARCH__ >= 900")}, BOTH
    ),
    "a header that an option includes": second(
        "inc/h.h", {**HEADER, "a.cu": KERNEL}, Call("-include inc/h.h")
    ),
    "a header that an option for the host compiler includes": second(
        "inc/h.h", {**HEADER, "a.cu": KERNEL}, Call("-Xcompiler -include,inc/h.h")
    ),
    "a header through CPATH": second("inc/h.h", call=Call(variables={"CPATH": "inc"})),
    "a header behind include_next": second(
        "two/h.h",
        {"one/h.h": "#include_next <h.h>\n", "two/h.h": value(1)},
        Call("-Ione -Itwo"),
    ),
    "a header with letters beyond ASCII": second(
        "inc/größe_λ.h", {"a.cu": uses('"größe_λ.h"'), "inc/größe_λ.h": value(1)}
    ),
    "a header with a hash and a colon": second(
        "inc/#h:1.h", {"a.cu": uses('"#h:1.h"'), "inc/#h:1.h": value(1)}
    ),
    "a header for PTX": second(
        "inc/h.h", call=Call("-Iinc", line="-ptx a.cu -MD -MF a.d -o a.ptx", makes=("a.ptx", "a.d"))
    ),
    "the same size and date": Case(rewrite("inc/h.h", value(2)), CHANGED, HEADER, SEARCHED),
    "another file of the same size and date": Case(swap("inc/h.h", value(2)), CHANGED, HEADER, SEARCHED),
    "a comment": Case(
        write("inc/h.h", "// one\n" + value(1)), CHANGED, HEADER, SEARCHED, changes_product=False
    ),
    "a link that leads elsewhere": Case(
        link("inc/h.h", "../two.h"),
        CHANGED,
        {"one.h": value(1), "two.h": value(2), "inc/h.h": Link("../one.h")},
        SEARCHED,
    ),
    # Read: compiled twice, the second time by the record, with a.cu (which includes "h.h") and these files;
    # then the change is made, and `explain` must give this cause; SEARCHED is the command line, with -Iinc.
    # By default a case also says that plain nvcc now makes something else, and that no direct hit is allowed.
    "what a link leads to": Case(
        change=write("one.h", value(2)),
        cause=CHANGED,
        files={"one.h": value(1), "inc/h.h": Link("../one.h")},
        call=SEARCHED,
    ),
    "a linked directory that leads elsewhere": Case(
        link("inc", "two"),
        CHANGED,
        {"one/h.h": value(1), "two/h.h": value(2), "inc": Link("one")},
        SEARCHED,
    ),
    "a source that is a link": Case(
        link("a.cu", "two.cu"),
        "`a.cu` changed",
        {"a.cu": Link("one.cu"), "one.cu": "int one() { return 1; }\n", "two.cu": "int two();\n"},
    ),
    "a directory in the place of another": Case(
        each(move("inc", "old"), move("new", "inc")), CHANGED, {**HEADER, "new/h.h": value(2)}, SEARCHED
    ),
    "a link to what is included once": Case(
        each(remove("y/h.h"), write("y/h.h", NOTED + "// other\n")), "`y/h.h` changed", ONCE
    ),
}
HARMLESS: dict[str, Change] = {
    "a header is touched": touch("inc/h.h", 0),
    "a header gets a date in the past": touch("inc/h.h", -1e8),
    "a header is replaced by the same": swap("inc/h.h", value(1)),
    "a file that is not read is written": write("inc/other.h", value(2)),
}
DEBUG = {
    "a header under -g": second("inc/h.h", call=Call("-Iinc -g")),
    "a touched header under -g": Case(
        touch("inc/h.h", 0), (), HEADER, Call("-Iinc -g"), outcome=EITHER, changes_product=False
    ),
}


@pytest.mark.by_default(
    "a header that only one device pass sees",
    "a header with a hash and a colon",
    "the same size and date",
    "what a link leads to",
    smoke={"the same size and date": "changed input"},
)
@pytest.mark.parametrize("rule", CASES)
def test_other_content_is_seen(workspace: Workspace, rule: str) -> None:
    check(workspace, CASES[rule])


@pytest.mark.by_default("a header is touched", "a header is replaced by the same")
@pytest.mark.parametrize("rule", HARMLESS)
def test_the_same_content_is_a_direct_hit(workspace: Workspace, rule: str) -> None:
    case = Case(HARMLESS[rule], (), HEADER, SEARCHED, outcome=DIRECT_HIT, changes_product=False)
    check(workspace, case)


@pytest.mark.by_default("a touched header under -g")
@pytest.mark.parametrize("rule", DEBUG)
def test_debug_information_names_the_right_files(
    workspace: Workspace, rule: str, reference_directory: Path
) -> None:
    check(workspace, DEBUG[rule], reference_directory)


@pytest.mark.by_default("inc/h.h")
@pytest.mark.parametrize("name", ["a.cu", "inc/h.h"])
def test_a_date_that_the_cubin_holds_is_the_one_of_the_source(workspace: Workspace, name: str) -> None:
    """Up to 13.2 ptxas writes down the date and size of the files that line information names."""
    code = "__device__ inline int twice(int i) { return i * 2; }\n"
    files = {"inc/h.h": code, "a.cu": '#include "h.h"\n__global__ void k(int *x) { *x = twice(*x); }\n'}
    changes = None if cuda_release(workspace) > (13, 2) or name != "a.cu" else True
    change = touch(name, -1e7)
    check(
        workspace, Case(change, (), files, Call("-Iinc -lineinfo"), outcome=EITHER, changes_product=changes)
    )


def test_the_date_decides_what_is_included_once(workspace: Workspace) -> None:
    """The host compiler treats two files as one if size, date and content are the same."""
    counted = "".join(f"#elif VALUE == {at}\n#undef VALUE\n#define VALUE {at + 1}\n" for at in (1, 2))
    counted = f"#pragma once\n#ifndef VALUE\n#define VALUE 1\n{counted}#endif\n"
    names = ("x/h.h", "y/h.h", "z/h.h")
    source = "".join(f'#include "{name}"\n' for name in names) + KERNEL
    case = Case(files={"a.cu": source, **dict.fromkeys(names, counted)})
    set_up(workspace, case)
    for dates in ((1e9, 1e9, 2e9), (1e9, 2e9, 3e9), (1e9, 3e9, 3e9)):
        for name, date in zip(names, dates, strict=True):
            os.utime(workspace.directory / name, (date, date))
        for _ in ("changed", "unchanged"):
            made = made_by_cache(workspace, case.call)
            assert made == made_by_plain(workspace, case.call)


def test_a_checkout_there_and_back_is_a_direct_hit(workspace: Workspace) -> None:
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
