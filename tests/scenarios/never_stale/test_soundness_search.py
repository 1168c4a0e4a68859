"""Names that a compile looked up without success, or found and are gone: the search itself counts."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from scenarios.support.cases import (
    EITHER,
    KERNEL,
    OLD_ENOUGH,
    Call,
    Case,
    Link,
    check,
    check_again,
    each,
    link,
    made_by_plain,
    make_directory,
    move,
    remove,
    remove_directory,
    set_up,
    uses,
    value,
    write,
)
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

SEARCHED = Call("-Iearly -Ilate")
LATE = {"late/h.h": value(1)}
BOTH = {"early/h.h": value(2), **LATE}
APPEARED = "because `early/h.h` has appeared"
GONE = "because `early/h.h` is gone"
MAYBE = "#if {}\n#define VALUE 2\n#else\n#define VALUE 1\n#endif\n"


def asks(condition: str, before: str = "") -> str:
    """A source whose value is 2 where the condition holds."""
    return before + MAYBE.format(condition) + KERNEL


def appears(
    name: str, files: dict[str, str | Link | None], call: Call = SEARCHED, text: str = "", cause: str = ""
) -> Case:
    """A file appears, and disappears again."""
    parents = [str(parent) for parent in Path(name).parents if str(parent) != "."]
    made = [parent for parent in parents if not any(f"{path}/".startswith(f"{parent}/") for path in files)]
    undo = each(remove(name), *map(remove_directory, made))
    cause = cause or f"because `{name}` has appeared"
    return Case(write(name, text or value(2)), cause, files, call, undo=undo)


# A name that appears earlier on the search path than the file that was read.
EARLIER = {
    "in a directory that was empty": appears("early/h.h", {**LATE, "early": None}),
    "in a directory that was not there": appears("early/h.h", LATE),
    "beside the source": appears("h.h", LATE),
    "beside the header that includes it": appears(
        "inc/inner.h",
        {"a.cu": uses("<h.h>"), "inc/h.h": '#include "inner.h"\n', "late/inner.h": value(1)},
        Call("-Iinc -Ilate"),
    ),
    "in a directory for quoted names": appears("quoted/h.h", LATE, Call("-Ilate -Xcompiler -iquote,quoted")),
    "in a directory of CPATH": appears("early/h.h", LATE, Call(variables={"CPATH": "early:late"})),
    "behind include_next": appears(
        "middle/h.h",
        {"early/h.h": "#include_next <h.h>\n", **LATE},
        Call("-Iearly -Imiddle -Ilate"),
    ),
    "for an option that includes it": appears(
        "h.h", {**LATE, "a.cu": KERNEL}, Call("-include h.h -Iearly -Ilate")
    ),
    "in place of a system's header": appears(
        "early/climits",
        {"a.cu": "#include <climits>\n#ifndef VALUE\n#define VALUE 1\n#endif\n" + KERNEL, "early": None},
        text="#include_next <climits>\n#define VALUE 2\n",
    ),
}
DIRECTORIES = {
    "a directory behind one that was not there": Case(
        make_directory("gate"),
        "`gate` has appeared",
        BOTH,
        Call("-Igate/../early -Ilate"),
        undo=lambda workspace: (workspace.directory / "gate").rmdir(),
    ),
    "a directory in the place of a file": Case(
        each(remove("early"), write("early/h.h", value(2))),
        (APPEARED, "`early` changed"),
        {**LATE, "early": "a file"},
        SEARCHED,
    ),
    "what a dangling link leads to": Case(
        write("h", value(2)), APPEARED, {**LATE, "early/h.h": Link("../h")}, SEARCHED, undo=remove("h")
    ),
    "a directory that is moved there": Case(
        move("new", "early"), APPEARED, {**LATE, "new/h.h": value(2)}, SEARCHED, undo=move("early", "new")
    ),
    "a header that is removed": Case(
        remove("early/h.h"), GONE, BOTH, SEARCHED, undo=write("early/h.h", value(2))
    ),
    "a directory in the place of a header": Case(
        each(remove("early/h.h"), make_directory("early/h.h")),
        (GONE, "`early/h.h` changed"),
        BOTH,
        SEARCHED,
    ),
    "a dangling link in the place of a header": Case(
        link("early/h.h", "nowhere"), (GONE, "`early/h.h` changed"), BOTH, SEARCHED
    ),
    "the only header, removed": Case(
        remove("late/h.h"), (), LATE, SEARCHED, undo=write("late/h.h", value(1))
    ),
    "the source, moved away": Case(move("a.cu", "b.cu"), (), LATE, SEARCHED, undo=move("b.cu", "a.cu")),
}
# gcc gives the headers of system directories the shorter name that remains when links are resolved.
LINKED = "a_long_name_for_a_link_to_a_version"
VERSIONS = {"1/h.h": value(1), "2/h.h": value(2)}
SYSTEM = {
    "a directory": Case(
        link(LINKED, "2"),
        f"`{{work}}/{LINKED}` leads to another file",
        {"a.cu": uses("<h.h>"), **VERSIONS, LINKED: Link("1")},
        Call(f"-isystem {{work}}/{LINKED}"),
        undo=link(LINKED, "1"),
    ),
    "a folder that a system header names": Case(
        link(f"inc/{LINKED}", "../2"),
        (),
        {
            "a.cu": uses("<outer.h>"),
            "inc/outer.h": f"#include <{LINKED}/h.h>\n",
            **VERSIONS,
            f"inc/{LINKED}": Link("../1"),
        },
        Call("-isystem {work}/inc"),
    ),
    "a header": Case(
        link(f"inc/{LINKED}.h", "../2/h.h"),
        f"`{{work}}/inc/{LINKED}.h` leads to another file",
        {"a.cu": uses(f"<{LINKED}.h>"), **VERSIONS, f"inc/{LINKED}.h": Link("../1/h.h")},
        Call("-isystem {work}/inc"),
    ),
}
# Names that are only looked up.
ASKED = {
    "a quoted name": appears("maybe.h", {"a.cu": asks('__has_include("maybe.h")')}, Call()),
    "a bracketed name": appears(
        "inc/maybe.h", {"a.cu": asks("__has_include(<maybe.h>)"), "inc": None}, Call("-Iinc")
    ),
    "a name of a header's own folder": appears(
        "inc/maybe.h", {"inc/h.h": MAYBE.format('__has_include("maybe.h")')}, Call("-Iinc")
    ),
    "by the device only": appears(
        "maybe.h", {"a.cu": asks('defined(__CUDA_ARCH__) && __has_include("maybe.h")')}, Call()
    ),
    "a name that is there": Case(
        remove("maybe.h"),
        "because `maybe.h` is gone",
        {"a.cu": asks('__has_include("maybe.h")'), "maybe.h": ""},
        undo=write("maybe.h", ""),
    ),
    "a name behind a directory": appears(
        "late/h.h", {"a.cu": uses("<h.h>"), "early/h.h": MAYBE.format("__has_include_next(<h.h>)")}
    ),
    "a name by a macro of the command line": appears(
        "maybe.h",
        {"a.cu": uses('"t.h"'), "t.h": MAYBE.format("__has_include(NAME)")},
        Call("-DNAME=<maybe.h> -I."),
    ),
}


@pytest.mark.by_default("beside the header that includes it", "for an option that includes it")
@pytest.mark.parametrize("rule", EARLIER)
def test_a_header_that_appears_earlier_is_seen(workspace: Workspace, rule: str) -> None:
    check(workspace, EARLIER[rule])


@pytest.mark.by_default("a directory that is moved there", "a directory in the place of a header")
@pytest.mark.parametrize("rule", DIRECTORIES)
def test_a_place_that_changes_is_seen(workspace: Workspace, rule: str) -> None:
    check(workspace, DIRECTORIES[rule])


@pytest.mark.by_default("a folder that a system header names")
@pytest.mark.parametrize("rule", SYSTEM)
def test_a_link_on_the_systems_search_path_that_leads_elsewhere_is_seen(
    workspace: Workspace, rule: str
) -> None:
    check(workspace, SYSTEM[rule])


@pytest.mark.by_default("a bracketed name", "a name by a macro of the command line")
@pytest.mark.parametrize("rule", ASKED)
def test_a_file_that_was_asked_for_is_seen(workspace: Workspace, rule: str) -> None:
    check(workspace, ASKED[rule])


def test_a_header_that_appears_later_on_the_path_does_not_matter(workspace: Workspace) -> None:
    files = {"early/h.h": value(2)}
    case = Case(write("late/h.h", value(1)), (), files, SEARCHED, outcome=EITHER, changes_product=False)
    check(workspace, case)


def test_a_failing_compile_is_not_answered_from_a_record(workspace: Workspace) -> None:
    set_up(workspace, Case())
    for number in (None, 1, None, 2):
        if number:
            workspace.write("late/h.h", value(number))
        else:
            shutil.rmtree(workspace.directory / "late", ignore_errors=True)
        expected = made_by_plain(workspace, SEARCHED)
        assert (expected.status == 0) == bool(number)
        for is_recorded in (False, bool(number)):
            check_again(workspace, SEARCHED, expected, is_recorded)
            time.sleep(OLD_ENOUGH)
