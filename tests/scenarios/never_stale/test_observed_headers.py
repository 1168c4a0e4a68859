"""Files that sources and headers make the preprocessor read and look up, in every spelling."""

from __future__ import annotations

import os

import pytest

from scenarios.support.cases import (
    DEFAULT,
    KERNEL,
    TWO_IF,
    TWO_IF_LAST,
    Case,
    behind,
    call,
    check,
    each,
    make_directory,
    remove,
    value,
    write,
)
from workspaces import Workspace

pytestmark = pytest.mark.light

ANOTHER = "#undef VALUE\n#define VALUE 2\n"
MAYBE = '__has_include("maybe.h")'


def asks(condition: str = MAYBE, before: str = "", options: str = "") -> Case:
    """A name that was looked up and absent, and then exists."""
    text = before + TWO_IF.format(condition) + KERNEL + "/* the end of a comment */\n"
    return Case(change=write("maybe.h", ""), files={"a.cu": text}, call=call(options))


# Each looks up a name by another syntax, or follows something that can be mistaken for a string or comment.
ASKED = {
    "by a word that is pasted": asks(
        'ASK("maybe.h")', "#define J(a, b) a##b\n#define ASK J(__has_, include)\n"
    ),
    "by a macro of the command line": asks('ASK("maybe.h")', options="-DASK=__has_include"),
    "for a bracketed name that is pasted": asks(
        "__has_include(NAME)", "#define J(a, b) a##b\n#define NAME <J(may,be).h>\n", "-I."
    ),
    "behind a raw string over some lines": asks(before='const char *raw = R"(\n"/*\n)";\n'),
}
FORCED = {
    "for the last compile": TWO_IF_LAST.format(MAYBE),
    "for the last compile, by a word that is pasted": "#define J(a, b) a##b\n"
    + TWO_IF_LAST.format('J(__has_, include)("maybe.h")'),
}
FORMS = {
    "plain": '#include "h.h"',
    "by a macro": '#define H "h.h"\n#include H',
}
TRIGRAPHS = "-Xcompiler -trigraphs"


@pytest.mark.by_default("by a word that is pasted")
@pytest.mark.parametrize("way", ASKED)
def test_a_name_that_is_asked_for(workspace: Workspace, way: str) -> None:
    check(workspace, ASKED[way])


@pytest.mark.by_default("for the last compile")
@pytest.mark.parametrize("way", FORCED)
def test_a_name_that_a_file_of_the_command_line_asks_for(workspace: Workspace, way: str) -> None:
    files = {"a.cu": DEFAULT, "forced.h": FORCED[way]}
    check(workspace, Case(write("maybe.h", ""), (), files, call("-Xcompiler -include,forced.h")))


@pytest.mark.by_default("by a macro")
@pytest.mark.parametrize("form", FORMS)
def test_a_header_that_appears_earlier(workspace: Workspace, form: str) -> None:
    files = {"a.cu": behind(FORMS[form]), "early": None, "late/h.h": value(1)}
    check(
        workspace,
        Case(change=write("early/h.h", value(2)), files=files, call=call(f"-Iearly -Ilate {TRIGRAPHS}")),
    )


@pytest.mark.by_default("plain")
@pytest.mark.parametrize("form", FORMS)
def test_a_header_that_appears_where_one_was_passed_over(workspace: Workspace, form: str) -> None:
    """It had been read already, so the second inclusion leaves no trace in the preprocessed text."""
    files = {
        "a.cu": behind('#include <h.h>\n#include "sub/outer.h"'),
        "inc/h.h": "#ifndef GUARD\n#define GUARD\n#define VALUE 1\n#endif\n",
        "sub/outer.h": FORMS[form] + "\n",
    }
    check(workspace, Case(change=write("sub/h.h", ANOTHER), files=files, call=call(f"-Iinc {TRIGRAPHS}")))


@pytest.mark.by_default('_Pragma("once")')
@pytest.mark.parametrize("once", ["#pragma once", '_Pragma("once")'])
def test_a_header_that_is_read_once(workspace: Workspace, once: str) -> None:
    """Nor does one with `#pragma once`."""
    files = {
        "a.cu": behind('#include <h.h>\n#include "sub/outer.h"'),
        "inc/h.h": f"{once}\n{value(1)}",
        "sub/outer.h": '#define H "h.h"\n#include H\n',
    }
    check(workspace, Case(change=write("sub/h.h", ANOTHER), files=files, call=call("-Iinc")))


@pytest.mark.full
@pytest.mark.parametrize("once", ["#pragma once", '_Pragma("once")'])
def test_a_copy_that_was_passed_over_and_is_edited(workspace: Workspace, once: str) -> None:
    """The host compiler treats files of the same size, date and content as one."""
    text = once + "\n#ifdef VALUE\n#undef VALUE\n#define VALUE 2\n#else\n#define VALUE 1\n#endif\n"

    def same_date(workspace: Workspace) -> None:
        for name in ("x/h.h", "y/h.h"):
            os.utime(workspace.directory / name, (1e9, 1e9))

    files = {"a.cu": behind('#include "x/h.h"\n#define H "y/h.h"\n#include H'), "x/h.h": text, "y/h.h": text}
    check(workspace, Case(change=write("y/h.h", text), files=files, prepare=same_date))


PLACES = {
    "a header whose name begins with <": Case(
        change=write("<h>.h", value(2)),
        files={"a.cu": behind('#include "<h>.h"'), "<h>.h": value(1)},
    ),
    "a header whose name is that of no file": Case(
        change=write("<built-in>", value(2)),
        files={"a.cu": behind('#include "<built-in>"'), "<built-in>": value(1)},
    ),
    "a directory in the place of what was asked for": Case(
        change=each(remove("maybe.h"), make_directory("maybe.h")),
        files={"a.cu": TWO_IF.format(MAYBE) + KERNEL, "maybe.h": ""},
    ),
    "a directory in the place of a header that was passed over": Case(
        change=each(remove("sub/h.h"), make_directory("sub/h.h")),
        files={
            "a.cu": behind('#include "sub/h.h"\n#include "sub/outer.h"'),
            "sub/h.h": "#pragma once\n" + value(1),
            "sub/outer.h": '#include "h.h"\n',
            "late/sub/h.h": value(3),
        },
        call=call("-Ilate"),
    ),
    "a file in the place of a directory of that name": Case(
        change=each(
            lambda workspace: (workspace.directory / "early/h.h").rmdir(), write("early/h.h", value(2))
        ),
        files={"a.cu": behind("#include <h.h>"), "early/h.h": None, "late/h.h": value(1)},
        call=call("-Iearly -Ilate"),
    ),
    "a header under the name of another": Case(
        change=write("h.h", '#line 1 "other.h"\n' + value(2)),
        files={"a.cu": behind('#include "h.h"'), "h.h": '#line 1 "other.h"\n' + value(1), "other.h": ""},
    ),
}


@pytest.mark.by_default("a directory in the place of a header that was passed over")
@pytest.mark.parametrize("place", PLACES)
def test_what_was_read(workspace: Workspace, place: str) -> None:
    check(workspace, PLACES[place])
