"""Values that change: the time, the day, dates of files, process ids, random numbers."""

from __future__ import annotations

import dataclasses
import re
import time

import pytest

from scenarios.support.both_ways import Made
from scenarios.support.cases import KERNEL, Call, Case, call, check, check_cause, made_by_cache, set_up, touch
from scenarios.support.toolkits import HOST_COMPILER, replace
from workspaces import Workspace

pytestmark = pytest.mark.light
STAMP = "extern const char stamp[];\nconst char stamp[] = {};\n"
STRING = "#define S_(x) #x\n#define S(x) S_(x)\n"
PASTE = "#define J(a, b) a##b\n"
_TIME = re.compile(rb"\d\d:\d\d:\d\d")


def stamp(expression: str, before: str = "") -> dict[str, str]:
    return {"a.cu": before + STAMP.format(expression)}


def forced(expression: str, before: str = "") -> dict[str, str]:
    """Only the last run of the host compiler reads the stamp."""
    text = "#ifndef __CUDACC__\n" + before + STAMP.format(expression) + "#endif\n"
    return {"a.cu": KERNEL.replace("VALUE", "1"), "forced.h": text}


FORCED = "-Xcompiler -include,forced.h"
IN_HEADER = '#include "t.h"\n'
# The files, the options, and the file and line that `explain` names as using the time.
TIMES = {
    "in the source": (stamp("__TIME__"), "", "a.cu"),
    "in a header": ({"a.cu": IN_HEADER, "t.h": STAMP.format("__TIME__")}, "", "t.h"),
    "by a macro": ({"a.cu": IN_HEADER + STAMP.format("NOW"), "t.h": "#define NOW __TIME__\n"}, "", "t.h"),
    "pasted and stringized": (stamp("S(J(__TI, ME__))", STRING + PASTE), ""),
    "by a macro of the command line": (stamp("NOW"), "-DNOW=__TIME__"),
    "for the last compile, pasted": (forced("J(__TI, ME__)", PASTE), FORCED),
    "in a message": ({"a.cu": STRING + "#pragma message(S(__TIME__))\n" + KERNEL.replace("VALUE", "1")}, ""),
}
DAYS = {
    "in a header": {"a.cu": IN_HEADER, "t.h": STAMP.format("__DATE__")},
    "pasted": stamp("J(__DA, TE__)", PASTE),
}
FILES = {
    "in a header": ({"a.cu": IN_HEADER, "t.h": STAMP.format("__TIMESTAMP__")}, ""),
    "for the last compile": (forced("__TIMESTAMP__"), FORCED),
}
# The bash expressions that a wrapper puts into VALUE.
ASKED = {
    "the time": "$(date +%s)",
    "chance, by the shell": "$RANDOM",
    "its process": "$$",
}


def check_asks(workspace: Workspace, name: str, macro: str) -> None:
    cause = f"because no direct record is kept: `cc1plus` asks for the time (`{name}` has `{macro}`)"
    check_cause(workspace, call(), cause)


@pytest.mark.by_default("pasted and stringized", "by a macro")
@pytest.mark.parametrize("way", TIMES)
def test_the_time_is_that_of_now(workspace: Workspace, way: str) -> None:
    files, options, *asking = TIMES[way]
    set_up(workspace, Case(files=files))
    first = _compile(workspace, call(options))
    time.sleep(1.1)
    begun = _clock()
    again = _compile(workspace, call(options))
    assert first != again
    for name in asking:
        check_asks(workspace, name, "__TIME__")
    times = _TIME.findall(again.stderr + again["a.o"])
    assert times
    assert all(begun <= moment <= _clock() for moment in times if begun <= _clock())  # but at midnight


@pytest.mark.by_default("pasted")
@pytest.mark.parametrize("way", DAYS)
def test_the_day_is_not_recorded(workspace: Workspace, way: str) -> None:
    set_up(workspace, Case(files=DAYS[way]))
    objects = {_compile(workspace, call()).files["a.o"] for _ in range(2)}
    assert len(objects) == 1
    if "t.h" in DAYS[way]:
        check_asks(workspace, "t.h", "__DATE__")


@pytest.mark.by_default("for the last compile")
@pytest.mark.parametrize("way", FILES)
def test_the_date_of_a_file_is_that_of_now(workspace: Workspace, way: str) -> None:
    files, options = FILES[way]
    name = next(name for name, text in files.items() if "STAMP" in text)
    case = Case(touch(name, -1e7), (), files, call(options), is_recorded=None)
    if way.startswith("in "):
        cause = (
            f"because no direct record is kept: `cc1plus` asks for the time (`{name}` has `__TIMESTAMP__`)"
        )
        case = dataclasses.replace(case, cause=cause, is_recorded=False)
    check(workspace, case)


# The host compiler compares the dates of two files and reports which is older.
COMPARED = {
    "by a pragma of macros": (
        '#define DO(x) _Pragma(#x)\n#define TWICE(x) DO(x)\n#define D dependency\nTWICE(GCC D "grammar")\n'
    ),
    "by an operator": '_Pragma("GCC dependency \\"grammar\\"")\n',
    "by a pragma in a header": '#include "h.h"\n',
}


@pytest.mark.by_default("by a pragma of macros")
@pytest.mark.parametrize("way", COMPARED)
def test_a_call_that_compares_dates_has_no_record(workspace: Workspace, way: str) -> None:
    files = {
        "a.cu": COMPARED[way] + KERNEL.replace("VALUE", "1"),
        "h.h": COMPARED["by an operator"],
        "grammar": "",
    }

    def prepare(workspace: Workspace) -> None:
        touch("grammar", -1e7)(workspace)

    check(
        workspace,
        Case(
            change=touch("grammar", 1e7),
            files=files,
            prepare=prepare,
            is_recorded=False,
        ),
    )


@pytest.mark.by_default("the time")
@pytest.mark.parametrize("what", ASKED)
def test_what_a_wrapper_queries_on_each_run(workspace: Workspace, what: str) -> None:
    set_up(workspace, Case(files={"a.cu": KERNEL}))
    text = f'#!/bin/bash\nexec "{HOST_COMPILER}" "-DVALUE={ASKED[what]}" "$@"\n'
    replace(workspace.directory / "wrapper", text)
    line = call("-ccbin {work}/wrapper")
    first = _compile(workspace, line)
    time.sleep(1.1)
    assert _compile(workspace, line).files["a.o"] != first.files["a.o"]


def _compile(workspace: Workspace, which: Call) -> Made:
    made = made_by_cache(workspace, which)
    assert (made.status, made.outcome not in ("direct_hit", "bypass")) == (0, True), (
        made.outcome,
        made.stderr,
    )
    return made


def _clock() -> bytes:
    return time.strftime("%H:%M:%S").encode()
