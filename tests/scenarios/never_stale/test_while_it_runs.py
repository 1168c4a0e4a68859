"""What changes while a compile runs is not recorded as what it was."""

from __future__ import annotations

import shutil
import time

import pytest

from scenarios.support.cases import (
    KERNEL,
    NO_DIRECT_HIT,
    OLD_ENOUGH,
    Call,
    Case,
    Link,
    behind,
    call,
    check,
    check_again,
    check_cause,
    check_outcome,
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

pytestmark = pytest.mark.light
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
elif mkdir {state}/second 2>/dev/null; then
  while [ ! -e {state}/between ]; do sleep 0.01; done
  {real} "$@" || exit
  {after}
else
  exec {real} "$@"
fi
"""


def test_what_the_assembler_reads_is_seen(workspace: Workspace) -> None:
    text = (
        "#define TEXT_(x) #x\n#define TEXT(x) TEXT_(x)\n#define JOIN(a, b) a##b\n"
        'asm(".section .rodata\\n.globl blob\\nblob: " TEXT(.JOIN(inc, bin)) " \\"blob.bin\\"\\n"\n'
        '    ".previous\\n");\n'
    )
    files = {"a.cu": text + KERNEL.replace("VALUE", "1"), "blob.bin": "first"}
    check(workspace, Case(write("blob.bin", "other"), "`blob.bin` changed", files))


def meddling(workspace: Workspace, between: str, after: str = "true") -> Call:
    """A call; once, an action runs between its first two preprocessor passes, and another after them."""
    asked = workspace.run([HOST_COMPILER, "-print-prog-name=cc1plus"]).stdout.decode().strip()
    state, parts = (workspace.directory.parent / name for name in ("state", "parts"))
    state.mkdir()
    parts.mkdir()
    argv = {"real": shutil.which(asked), "state": state, "between": between, "after": after}
    replace(parts / "cc1plus", MEDDLING.format(**argv))
    time.sleep(OLD_ENOUGH)
    return call(COMPILER_PATH=str(parts))


@pytest.mark.by_default("it stays changed")
@pytest.mark.parametrize("how", ["it stays changed", "it is as before afterwards"])
def test_a_header_that_changes_while_it_is_compiled(workspace: Workspace, how: str) -> None:
    """The next compile is right, though the last one mixed two states, and so is the one after."""
    set_up(workspace, Case(files={"h.h": value(1), "new": value(2)}))
    if how == "it stays changed":
        line = meddling(workspace, "cp new h.h")
        cause = "because no direct record is kept: files changed while it was compiled"
    else:  # with its old size and date, as after `git stash` and `git stash pop`
        line, cause = meddling(workspace, "cp -p h.h saved; cp new h.h", after="cp -p saved h.h"), ""
    made_by_cache(workspace, line)
    time.sleep(OLD_ENOUGH)
    made = made_by_cache(workspace, line)
    assert made == made_by_plain(workspace, line)
    check_outcome(made.outcome, NO_DIRECT_HIT, made)
    check_cause(workspace, line, cause)
    time.sleep(OLD_ENOUGH)
    check_again(workspace, line, made, is_recorded=True)


def test_files_that_are_too_new(workspace: Workspace) -> None:
    """A second change within the same clock tick keeps size and date."""
    set_up(workspace, Case(files={"h.h": value(1)}))
    for number in (2, 4):
        write("h.h", value(number + 3))(workspace)
        write("h.h", value(number))(workspace)
        assert made_by_cache(workspace, Call()) == made_by_plain(workspace, Call())
        rewrite("h.h", value(number + 1))(workspace)
        made = made_by_cache(workspace, Call())
        check_outcome(made.outcome, NO_DIRECT_HIT, made)
        assert made == made_by_plain(workspace, Call())


VERSIONS = {"one/h.h": value(1), "two/h.h": value(2)}
# Shell commands, the files before, the options, and the tool that runs meanwhile.
CHANGES = {
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
        "ptxas",
    ),
    "a header that is renamed": ("mv two/h.h one/h.h", VERSIONS, "-Ione", "ptxas"),
    "a header that appears": (
        "cp two/h.h early/h.h",
        {**VERSIONS, "early": None},
        "-Iearly -Ione",
        "cudafe++",
    ),
}


@pytest.mark.by_default("a header that is renamed", "a header that appears")
@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_while_a_later_stage_runs(workspace: Workspace, what: str) -> None:
    """The first compile has read the old files; every later one reads the new ones."""
    commands, files, options, tool = CHANGES[what]
    set_up(workspace, Case(files={"a.cu": behind("#include <h.h>"), "once": "", **files}))
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
