"""What changes while a compile runs is not recorded as what it was."""

from __future__ import annotations

import shutil
import time

from scenarios.support.cases import (
    NO_DIRECT_HIT,
    OLD_ENOUGH,
    Call,
    Case,
    behind,
    check_again,
    check_cause,
    check_outcome,
    compile_to_object,
    made_by_cache,
    made_by_plain,
    own_toolkit,
    rewrite,
    set_up,
    value,
    write,
)
from scenarios.support.toolkits import HOST_COMPILER, precede, replace
from workspaces import Workspace

# The second pass waits for the first if they run concurrently.
MEDDLING = """#!/bin/sh
case " $* " in
*" -E "*) ;;
*) exec {real} "$@" ;;
esac
if mkdir {state}/first 2>/dev/null; then
  {real} "$@" || exit
  {between}
  touch {state}/between
else
  while [ ! -e {state}/between ]; do sleep 0.01; done
  exec {real} "$@"
fi
"""


def meddling(workspace: Workspace, between: str) -> Call:
    """A call; once, an action runs between its first two preprocessor passes."""
    asked = workspace.run([HOST_COMPILER, "-print-prog-name=cc1plus"]).stdout.decode().strip()
    state, parts = (workspace.directory.parent / name for name in ("state", "parts"))
    state.mkdir()
    parts.mkdir()
    argv = {"real": shutil.which(asked), "state": state, "between": between}
    replace(parts / "cc1plus", MEDDLING.format(**argv))
    time.sleep(OLD_ENOUGH)
    return compile_to_object(COMPILER_PATH=str(parts))


def test_a_compile_whose_header_changes_meanwhile_is_not_reused(workspace: Workspace) -> None:
    """The next compile is right, though the last one mixed two states, and so is the one after."""
    set_up(workspace, Case(files={"h.h": value(1), "new": value(2)}))
    line = meddling(workspace, "cp new h.h")
    made_by_cache(workspace, line)
    time.sleep(OLD_ENOUGH)
    made = made_by_cache(workspace, line)
    assert made == made_by_plain(workspace, line)
    check_outcome(made.outcome, NO_DIRECT_HIT, made)
    check_cause(
        workspace, line, "because the call was not recorded as a whole: files changed during the compile"
    )
    time.sleep(OLD_ENOUGH)
    check_again(workspace, line, made, is_recorded=True)


def test_a_file_changed_twice_within_a_clock_tick_is_not_taken_for_unchanged(workspace: Workspace) -> None:
    """A second change within the same clock tick keeps size and date."""
    set_up(workspace, Case(files={"h.h": value(1)}))
    write("h.h", value(5))(workspace)
    write("h.h", value(2))(workspace)
    assert made_by_cache(workspace, Call()) == made_by_plain(workspace, Call())
    rewrite("h.h", value(3))(workspace)
    made = made_by_cache(workspace, Call())
    check_outcome(made.outcome, NO_DIRECT_HIT, made)
    assert made == made_by_plain(workspace, Call())


def test_a_header_that_appears_during_a_compile_is_seen_by_the_next_one(workspace: Workspace) -> None:
    """The first compile has read the old one; every later one reads the new one."""
    files = {"one/h.h": value(1), "two/h.h": value(2), "early": None}
    set_up(workspace, Case(files={"a.cu": behind("#include <h.h>"), "once": "", **files}))
    work = workspace.directory
    appear = f"if rm {work}/once 2>/dev/null; then cp {work}/two/h.h {work}/early/h.h; fi"
    precede(own_toolkit(workspace), "cudafe++", appear)
    time.sleep(OLD_ENOUGH)
    line = compile_to_object("-Iearly -Ione")
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
