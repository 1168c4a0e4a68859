"""Links that are flipped and directories that are renamed while a compile runs, after they were read."""

from __future__ import annotations

import time

import pytest

from scenarios.support.cases import (
    OLD_ENOUGH,
    Case,
    Link,
    behind,
    call,
    made_by_cache,
    made_by_plain,
    own_toolkit,
    set_up,
    value,
)
from scenarios.support.toolkits import precede
from workspaces import Workspace

pytestmark = pytest.mark.light

VERSIONS = {"one/h.h": value(1), "two/h.h": value(2)}
INCLUDE = {"a.cu": behind("#include <h.h>")}
# Shell commands, the files before, and the options.
CHANGES = {
    "a link to a header": (
        "ln -sfn ../two/h.h inc/h.h",
        {**VERSIONS, "inc/h.h": Link("../one/h.h")},
        "-Iinc",
    ),
    "a link on a way up": (
        "ln -sfn two/below way",
        {
            "one/inc/h.h": value(1),
            "two/inc/h.h": value(2),
            "one/below": None,
            "two/below": None,
            "way": Link("one/below"),
        },
        "-Iway/../inc",
    ),
    "a directory that is renamed": ("mv one old && mv two one", VERSIONS, "-Ione"),
    "a header that is written": ("cat two/h.h >one/h.h", VERSIONS, "-Ione"),
    "a header that appears": ("cp two/h.h early/h.h", {**VERSIONS, "early": None}, "-Iearly -Ione"),
    "a header that is renamed": ("mv two/h.h one/h.h", VERSIONS, "-Ione"),
    "an empty directory that becomes a link": (
        "rmdir early && ln -s two early",
        {**VERSIONS, "early": None},
        "-Iearly -Ione",
    ),
}


@pytest.mark.by_default("a header that is renamed-ptxas", "a header that appears-cudafe++")
@pytest.mark.parametrize("tool", ["cudafe++", "ptxas"])
@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_while_a_later_stage_runs(workspace: Workspace, what: str, tool: str) -> None:
    """The first compile has read the old files; every later one reads the new ones."""
    commands, files, options = CHANGES[what]
    set_up(workspace, Case(files={**INCLUDE, "once": "", **files}))
    work = workspace.directory
    precede(own_toolkit(workspace), tool, f"if rm {work}/once 2>/dev/null; then cd {work} && {commands}; fi")
    time.sleep(OLD_ENOUGH)
    line = call(options)
    first = made_by_cache(workspace, line)
    time.sleep(OLD_ENOUGH)
    expected = made_by_plain(workspace, line)
    assert expected.files["a.o"] != first.files["a.o"]
    for again in ("at once", "recorded", "by the stages alone"):
        if again == "by the stages alone":
            workspace.forget_calls()
        made = made_by_cache(workspace, line)
        assert made == expected, f"stale {again}: {made.outcome}"
        time.sleep(OLD_ENOUGH)
