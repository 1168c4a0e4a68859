"""Rare situations for which nvccache has no mechanism: what becomes of each, with nvcc's object.

One row each: a compile, and the same again, perhaps after a change. `docs/explanation/soundness.md` names
them. Elsewhere: inherited descriptors (never_stale), terminals (test_messages), device links with
line information (test_device_links), commands and settings that went (unit/cli).
"""

from __future__ import annotations

import dataclasses
import re
import sys
import time
from collections.abc import Mapping

import pytest

from scenarios.support.both_ways import both_ways
from scenarios.support.cases import OLD_ENOUGH, Case, Change, set_up, write
from scenarios.support.toolkits import HOST_COMPILER, replace
from workspaces import Workspace

KERNEL = "__global__ void kernel(int *x) { *x = 1; }\n"
PROGRAM = "__global__ void kernel() {}\nint main() { return 0; }\n"
LINE = KERNEL + "int launch() { return __builtin_LINE(); }\n"
LOCATION = "#include <source_location>\n"
PLACE = KERNEL + "int launch() { return std::source_location::current().line(); }\n"
EXEC = '\nexec "{g++}" "$@"'
LIST_ATTRIBUTES = 'import os, sys\nos.listxattr("a.cu")\nos.execv("{g++}", ["{g++}", *sys.argv[1:]])'
PREPROCESSED = {"host_preprocess", "device_preprocess"}
COMPILE = "-c a.cu -o a.o"


@dataclasses.dataclass(frozen=True)
class Row:
    """What becomes of the second call, what `explain` says about it, and which stages it runs."""

    outcome: str
    explained: str = ""
    ran: frozenset[str] = frozenset()
    line: str = COMPILE
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    prepare: Change | None = None
    between: Change | None = None


def bypass(reason: str, line: str, **files: str) -> Row:
    return Row("bypass", f"bypass, because {reason}", line=line, files={"a.cu": KERNEL, **files})


def wrapper(reason: str, text: str, interpreter: str = "/bin/bash") -> Row:
    """A host compiler without records: what it makes is made again, the rest hits."""

    def prepare(workspace: Workspace) -> None:
        script = f"#!{interpreter}\n{text}\n".replace("{g++}", HOST_COMPILER)
        replace(workspace.directory / "wrapper", script)

    ran = frozenset({*PREPROCESSED, "host_compile"})
    return Row("partial_hit", reason, ran, f"{COMPILE} -ccbin ./wrapper", {"a.cu": KERNEL}, prepare)


def passes(reason: str, text: str, **files: str) -> Row:
    """A source without a record: it is preprocessed again, the rest hits."""
    return Row("stage_hit", reason, frozenset(PREPROCESSED), files={"a.cu": text + KERNEL, **files})


def moved(text: str, before: str = "", options: str = "") -> Row:
    """A comment is added above text that can ask for its line."""
    ran = frozenset({*PREPROCESSED, "cudafe", "cicc", "host_compile"})
    files, edit = {"a.cu": before + text}, write("a.cu", f"{before}// a comment\n{text}")
    return Row("partial_hit", "`a.cu` changed", ran, COMPILE + options, files, between=edit)


def use_buckets_of_earlier_version(workspace: Workspace) -> None:
    for bucket in workspace.cache.iterdir():
        if version := re.fullmatch(r"(.+-v)(\d+)", bucket.name):
            bucket.rename(bucket.with_name(version[1] + str(int(version[2]) - 1)))


ROWS = {
    "a wrapper reads the clock": wrapper("`bash` asks for the time", "now=$EPOCHSECONDS" + EXEC),
    "a wrapper starts date": wrapper("`date` asks for the time", "now=$(date +%s)" + EXEC),
    "a wrapper reads random numbers": wrapper("`bash` uses `RANDOM`", "number=$RANDOM" + EXEC),
    "a wrapper reads its process id": wrapper("`bash` uses `$$`", "id=$$" + EXEC),
    "a wrapper lists a directory": wrapper("`bash` lists `.`", "for file in *; do :; done" + EXEC),
    "a wrapper compares dates": wrapper(
        "reads the dates, owners or modes of files", "[ a.cu -nt wrapper ]" + EXEC
    ),
    "a wrapper reads attributes": wrapper("makes system call", LIST_ATTRIBUTES, sys.executable),
    "a wrapper reads a pipe": wrapper("`bash` reads `/dev/fd/", "read line < <(echo x)" + EXEC),
    "a wrapper is run by the loader": wrapper(
        "the program that the dynamic loader runs is unknown",
        'exec "$(ls /lib*/ld-linux-*.so.*)" "{g++}" "$@"',
    ),
    "text with its date": passes("has `__TIMESTAMP__`", "const char *when = __TIMESTAMP__;\n"),
    "text that compares dates": passes(
        "may compare the dates", '#pragma GCC dependency "h.h"\n', **{"h.h": ""}
    ),
    "text with its line": moved(LINE),
    "text with its source location": moved(PLACE, LOCATION, " -std=c++20"),
    "text without": Row(
        "stage_hit",
        "`a.cu` changed",
        frozenset(PREPROCESSED),
        files={"a.cu": KERNEL},
        between=write("a.cu", "// a comment\n" + KERNEL),
    ),
    "the GPU's architecture": Row(
        "stage_hit", "native architecture", line=f"{COMPILE} -arch=native", files={"a.cu": KERNEL}
    ),
    "the processor's architecture": Row(
        "direct_hit", line=f"{COMPILE} -Xcompiler -march=native", files={"a.cu": KERNEL}
    ),
    "a program linked in one call": Row(
        "stage_hit", "the stage host_link is not cached", line="a.cu -o a", files={"a.cu": PROGRAM}
    ),
    "a program that is run": bypass("the call runs", "a.cu -o a -run", **{"a.cu": PROGRAM}),
    "an unknown option": bypass("the call has an option that nvccache does not know", f"{COMPILE} -pch"),
    "options in a file": bypass("a host compiler option reads files", f"{COMPILE} -Xcompiler @o", o="-O1"),
    "named intermediates": bypass("with -keep, -keep-dir, -save-temps or -objtemp", f"{COMPILE} -objtemp"),
    "an archive": bypass("the call creates an archive", "-lib a.cu -o a.a"),
    "preprocessed CUDA": bypass("the output is preprocessed text", "-cuda a.cu -o a.ii"),
    "a cache of an earlier version": Row(
        "miss", files={"a.cu": KERNEL}, between=use_buckets_of_earlier_version
    ),
}


@pytest.mark.by_default(
    "a wrapper lists a directory", "text with its line", "an unknown option", "a cache of an earlier version"
)
@pytest.mark.parametrize("situation", ROWS)
def test_each_rare_situation_gives_nvccs_object_and_the_documented_outcome(
    workspace: Workspace, situation: str
) -> None:
    row = ROWS[situation]
    argv = row.line.split()
    set_up(workspace, Case(files=row.files, prepare=row.prepare))
    first = both_ways(workspace, *argv)
    assert first.outcome == ("bypass" if row.outcome == "bypass" else "miss")
    if row.between:
        row.between(workspace)
    time.sleep(OLD_ENOUGH)
    second = both_ways(workspace, *argv)
    assert second.outcome == row.outcome
    if row.outcome != "miss":
        assert second.ran().keys() == row.ran
    product = argv[argv.index("-o") + 1]
    explained = workspace.explain(product)
    assert row.explained in explained.splitlines()[0]
