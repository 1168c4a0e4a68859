"""Where headers are looked for: what appears, goes, or leads elsewhere on the search path counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.support.cases import (
    KERNEL,
    TWO_IF,
    Call,
    Case,
    Link,
    behind,
    both,
    call,
    check,
    each,
    link,
    move,
    remove,
    remove_directory,
    uses,
    value,
    write,
)
from workspaces import Workspace

SEARCHED = Call("-Iearly -Ilate")
LATE = {"late/h.h": value(1)}
INCLUDING = {"a.cu": behind("#include <h.h>")}
APPEARED = "because `early/h.h` has appeared"
LINKED = "a_long_name_for_a_link_to_a_version"
VERSIONS = {"1/h.h": value(1), "2/h.h": value(2)}


def appears(name: str, files: dict[str, str | Link | None], call: Call = SEARCHED) -> Case:
    """A file appears, and disappears again."""
    parents = [str(parent) for parent in Path(name).parents if str(parent) != "."]
    made = [parent for parent in parents if not any(f"{path}/".startswith(f"{parent}/") for path in files)]
    undo = each(remove(name), *map(remove_directory, made))
    return Case(write(name, value(2)), f"because `{name}` has appeared", files, call, undo=undo)


CASES = {
    "a header beside the one that includes it": appears(
        "inc/inner.h",
        {"a.cu": uses("<h.h>"), "inc/h.h": '#include "inner.h"\n', "late/inner.h": value(1)},
        Call("-Iinc -Ilate"),
    ),
    "a name that was asked for": appears(
        "inc/maybe.h",
        {"a.cu": TWO_IF.format("__has_include(<maybe.h>)") + KERNEL, "inc": None},
        Call("-Iinc"),
    ),
    "a directory that is moved there": Case(
        move("new", "early"),
        (APPEARED, "`early` has appeared"),
        {**LATE, "new/h.h": value(2)},
        SEARCHED,
        undo=move("early", "new"),
    ),
    # gcc gives the headers of system directories the shorter name that remains when links are resolved.
    "a linked folder that a system header names": Case(
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
    "a copy of a directory that becomes a link to it": Case(
        each(move("b", "away"), link("b", "a")),
        (),
        {**INCLUDING, **both("a/i/h.h", "b/i/h.h"), "late/h.h": value(2)},
        call("-Ia/i -Ilate -isystem b/i"),
    ),
    "a way up from a link to what was read": Case(
        link("way", "two/below"),
        (),
        {
            **INCLUDING,
            "one/below": None,
            "two/below": None,
            "one/inc/h.h": value(1),
            "two/inc/h.h": value(2),
            "way": Link("one/below"),
        },
        call("-Iway/../inc"),
    ),
}


@pytest.mark.parametrize("rule", CASES)
def test_a_header_that_appears_where_one_was_looked_for_is_noticed(workspace: Workspace, rule: str) -> None:
    check(workspace, CASES[rule])
