"""What is other each time, or was another a moment ago: time, day, date of a file, process, chance."""

from __future__ import annotations

import re
import time

import pytest

from scenarios.support.both_ways import Made
from scenarios.support.cases import (
    COMMAND,
    KERNEL,
    Call,
    Case,
    call,
    check_both,
    made_by_cache,
    set_up,
    touch,
)
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
    """The stamp is in what only the last compile of the host compiler reads."""
    text = "#ifndef __CUDACC__\n" + before + STAMP.format(expression) + "#endif\n"
    return {"a.cu": KERNEL.replace("VALUE", "1"), "forced.h": text}


FORCED = "-Xcompiler -include,forced.h"
TIMES = {
    "stringized": (stamp("S(__TIME__)", STRING), ""),
    "pasted": (stamp("J(__TI, ME__)", PASTE), ""),
    "pasted and stringized": (stamp("S(J(__TI, ME__))", STRING + PASTE), ""),
    "as a part of a string": (stamp('"built " S(at __TIME__)', STRING), ""),
    "over two lines": (stamp("__TI\\\nME__"), ""),
    "by a macro of the command line": (stamp("NOW"), "-DNOW=__TIME__"),
    "pasted with a macro of the command line": (
        stamp("J(__TI, END)", "#define J_(a, b) a##b\n#define J(a, b) J_(a, b)\n"),
        "-DEND=ME__",
    ),
    "for the last compile": (forced("__TIME__"), FORCED),
    "for the last compile, pasted": (forced("J(__TI, ME__)", PASTE), FORCED),
    "for the last compile, stringized": (forced("S(__TIME__)", STRING), FORCED),
    "in a message": ({"a.cu": STRING + "#pragma message(S(__TIME__))\n" + KERNEL.replace("VALUE", "1")}, ""),
}
DAYS = {
    "stringized": stamp("S(__DATE__)", STRING),
    "pasted": stamp("J(__DA, TE__)", PASTE),
    "of a word": stamp("S(on __DATE__)", STRING),
}
FILES = {
    "stringized": (stamp("S(__TIMESTAMP__)", STRING), ""),
    "pasted": (stamp("J(__TIME, STAMP__)", PASTE), ""),
    "for the last compile": (forced("__TIMESTAMP__"), FORCED),
}
# What a wrapper, a script of bash, puts into VALUE.
ASKED = {
    "the time": "$(date +%s)",
    "the time, by the shell": "$EPOCHSECONDS",
    "chance, by the shell": "$RANDOM",
    "its process": "$$",
    "chance": "$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')",
    "how long the machine is up": "$(cut -d. -f1 /proc/uptime)",
}


@pytest.mark.by_default("pasted and stringized")
@pytest.mark.parametrize("way", TIMES)
def test_the_time_is_that_of_now(workspace: Workspace, way: str) -> None:
    files, options = TIMES[way]
    set_up(workspace, Case(files=files, call=COMMAND))
    first = _compile(workspace, call(options))
    time.sleep(1.1)
    begun = _clock()
    again = _compile(workspace, call(options))
    assert first != again
    told = _TIME.findall(again.stderr + again["a.o"])
    assert told
    assert all(begun <= moment <= _clock() for moment in told if begun <= _clock())  # but at midnight


@pytest.mark.by_default("pasted")
@pytest.mark.parametrize("way", DAYS)
def test_the_day_is_not_recorded(workspace: Workspace, way: str) -> None:
    set_up(workspace, Case(files=DAYS[way], call=COMMAND))
    for _ in range(2):
        _compile(workspace, call())


@pytest.mark.by_default("for the last compile")
@pytest.mark.parametrize("way", FILES)
def test_the_date_of_a_file_is_that_of_now(workspace: Workspace, way: str) -> None:
    files, options = FILES[way]
    name = "forced.h" if "forced.h" in files else "a.cu"
    check_both(workspace, Case(change=touch(name, -1e7), files=files, call=call(options), is_recorded=None))


# The host compiler compares the dates of two files and says which is older.
COMPARED = {
    "by a pragma": '#pragma GCC dependency "grammar"\n',
    "by a pragma with a comment in it": '#pragma GCC /**/ dependency "grammar"\n',
    "by a pragma of digraphs and pieces": '%:pragma GCC depen\\\ndency "grammar"\n',
    "by a pragma of macros": (
        '#define DO(x) _Pragma(#x)\n#define TWICE(x) DO(x)\n#define D dependency\nTWICE(GCC D "grammar")\n'
    ),
    "by an operator": '_Pragma("GCC dependency \\"grammar\\"")\n',
    "by a pragma in a header": '#include "h.h"\n',
}


@pytest.mark.by_default("by a pragma of macros")
@pytest.mark.parametrize("way", COMPARED)
def test_a_date_that_is_compared_is_that_of_now(workspace: Workspace, way: str) -> None:
    files = {
        "a.cu": COMPARED[way] + KERNEL.replace("VALUE", "1"),
        "h.h": COMPARED["by an operator"],
        "grammar": "",
    }

    def prepare(workspace: Workspace) -> None:
        touch("grammar", -1e7)(workspace)

    check_both(
        workspace,
        Case(change=touch("grammar", 1e7), files=files, prepare=prepare, is_recorded=None, call=COMMAND),
    )


@pytest.mark.by_default("the time")
@pytest.mark.parametrize("what", ASKED)
def test_what_a_wrapper_is_told_anew_each_time(workspace: Workspace, what: str) -> None:
    set_up(workspace, Case(files={"a.cu": KERNEL}, call=COMMAND))
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
