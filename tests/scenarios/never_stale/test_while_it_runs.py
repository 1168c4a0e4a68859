"""What changes while a compile runs is not recorded as what it was, and what must not be recorded is not."""

from __future__ import annotations

import shutil
import time

import pytest

from scenarios.support.cases import (
    KERNEL,
    NO_DIRECT_HIT,
    OLD_ENOUGH,
    USER,
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
REASON = "because no direct record is kept: "


def blob(directive: str) -> dict[str, str]:
    text = f'asm(".section .rodata\\n.globl blob\\nblob: {directive} \\"blob.bin\\"\\n.previous\\n");\n'
    return {"a.cu": text + KERNEL.replace("VALUE", "1"), "blob.bin": "first"}


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
ASSEMBLED = {
    "a file that the assembler reads": Case(
        write("blob.bin", "other"), "`blob.bin` changed", blob(".incbin")
    ),
    "a file that the assembler reads, by macros": Case(
        write("blob.bin", "other"),
        "`blob.bin` changed",
        {
            "a.cu": "#define TEXT_(x) #x\n#define TEXT(x) TEXT_(x)\n#define JOIN(a, b) a##b\n"
            + blob('" TEXT(.JOIN(inc, bin)) "')["a.cu"],
            "blob.bin": "first",
        },
    ),
    "source text that the assembler reads": Case(
        write("blob.bin", ".byte 2\n"), "`blob.bin` changed", {**blob(".include"), "blob.bin": ".byte 1\n"}
    ),
}
MENTIONED = {
    "as part of a name": "#define MY__TIME__ 1\n#define __TIME__S 2\n",
}


@pytest.mark.by_default("a file that the assembler reads, by macros")
@pytest.mark.parametrize("rule", ASSEMBLED)
def test_what_the_assembler_reads_is_seen(workspace: Workspace, rule: str) -> None:
    check(workspace, ASSEMBLED[rule])


@pytest.mark.parametrize("rule", MENTIONED)
def test_a_mention_of_the_time_is_no_use_of_it(workspace: Workspace, rule: str) -> None:
    header = {"h.h": MENTIONED[rule] + value(1)}
    check(workspace, Case(write("h.h", MENTIONED[rule] + value(2)), "`h.h` changed", header))


@pytest.mark.full
def test_the_architecture_of_this_machine(workspace: Workspace) -> None:
    call = Call("-arch=native")
    set_up(workspace, Case(files={"h.h": value(1)}))
    expected = made_by_plain(workspace, call)
    if expected.status != 0:
        pytest.skip(f"nvcc has no native architecture here: {expected.stderr.decode()}")
    check_again(workspace, call, expected, is_recorded=False)
    check_again(workspace, call, expected, is_recorded=False)
    check_cause(workspace, call, REASON + "it compiles for the native architecture")


def test_a_header_that_changes_while_it_is_compiled(workspace: Workspace) -> None:
    """It stays changed."""
    set_up(workspace, Case(files={"h.h": value(1), "new": value(2)}))
    call = meddling(workspace, between="cp new h.h")
    made_by_cache(workspace, call)
    assert (workspace.directory / "h.h").read_text() == value(2)
    check_rest(workspace, call, REASON + "files changed while it was compiled")


@pytest.mark.full
@pytest.mark.parametrize("name", ["h.h", "a.cu"])
def test_a_file_that_is_other_for_a_while(workspace: Workspace, name: str) -> None:
    """Afterwards it has its old content, size and date, as after `git stash` and `git stash pop`."""
    files = {"h.h": value(1), "a.cu": USER}
    other = value(2) if name == "h.h" else USER.replace("x = V", "x = -V")
    set_up(workspace, Case(files={**files, "new": other}))
    between = f"cp -p {name} saved; cp new {name}"
    call = meddling(workspace, between, after=f"cp -p saved {name}")
    made_by_cache(workspace, call)
    assert (workspace.directory / name).read_text() == files[name]
    check_rest(workspace, call)


def meddling(workspace: Workspace, between: str, after: str = "true", options: str = "") -> Call:
    """A call; once, an action runs between its first two preprocessor passes, and another after them."""
    asked = workspace.run([HOST_COMPILER, "-print-prog-name=cc1plus"]).stdout.decode().strip()
    state = workspace.directory.parent / "state"
    state.mkdir()
    argv = {"real": shutil.which(asked), "state": state, "between": between, "after": after}
    parts = workspace.directory.parent / "parts"
    parts.mkdir()
    replace(parts / "cc1plus", MEDDLING.format(**argv))
    time.sleep(OLD_ENOUGH)
    return Call(options, {"COMPILER_PATH": str(parts)})


def check_rest(workspace: Workspace, call: Call, cause: str = "") -> None:
    """The next compile is right, though the last one mixed two states, and so is the one after."""
    time.sleep(OLD_ENOUGH)
    made = made_by_cache(workspace, call)
    assert made == made_by_plain(workspace, call)
    check_outcome(made.outcome, NO_DIRECT_HIT, made)
    check_cause(workspace, call, cause)
    time.sleep(OLD_ENOUGH)
    check_again(workspace, call, made, is_recorded=True)


@pytest.mark.by_default("right before the compile")
@pytest.mark.parametrize("when", ["right before the compile", "right after the compile"])
def test_files_that_are_too_new(workspace: Workspace, when: str) -> None:
    """A second change within the same clock tick keeps size and date."""
    set_up(workspace, Case(files={"h.h": value(1)}))
    for number in (2, 3, 4):
        if when == "right before the compile":
            write("h.h", value(number + 3))(workspace)
            write("h.h", value(number))(workspace)
            made = made_by_cache(workspace, Call())
        else:
            made_by_cache(workspace, Call())
            rewrite("h.h", value(number))(workspace)
            made = made_by_cache(workspace, Call())
            check_outcome(made.outcome, NO_DIRECT_HIT, made)
        assert made == made_by_plain(workspace, Call())


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
