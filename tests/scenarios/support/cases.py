"""One case of a compile that is recorded, one thing that changes, and the compile after it.

Each theme has a table of cases in a test file of its own. `check` compares what the cache makes with what
plain nvcc makes of the same files: status, messages, bytes and modes; by the record of the call and by the
stages alone; and what `explain` says. A case that may not be answered from the record changes what plain nvcc
makes, so that a stale answer is seen.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from installations import launcher_of_tree
from scenarios.support.both_ways import Made, by_cache, by_plain, described, differences, keep_of
from scenarios.support.toolkits import HOST_OPTIONS, copy_toolkit, share_digests
from workspaces import Workspace

# Seconds after which a file is old enough to be recorded, with those that `Workspace.cached` waits;
# test_a_file_changed_twice_within_a_clock_tick_is_not_taken_for_unchanged
OLD_ENOUGH = 0.08
# Without host code a compile costs two thirds; OBJECT is for what the host compiler reads, or links to.
LINE, MAKES = "-ptx a.cu -MD -MF a.d -o a.ptx", ("a.ptx", "a.d")
OBJECT = "-c a.cu -MD -MF a.d -o a.o"
KERNEL = "__global__ void kernel(int *x) { *x = VALUE; }\nint launch() { return VALUE; }\n"
DEFAULT = "#ifndef VALUE\n#define VALUE 0\n#endif\n" + KERNEL  # for `-DVALUE=…`, which a test may add
USER = '#include "h.h"\n' + KERNEL
# With an external definition, and code that ptxas can make better or worse.
FLOATS = """__global__ void kernel(float *x) { x[0] = x[1] * 2.5f / x[2]; x[3] = x[0] + x[4]; }
int host;
"""
TWO_IF = "#if {}\n#define VALUE 2\n#else\n#define VALUE 1\n#endif\n"
# What only the last compile of the host compiler sees, which is of the text that cudafe++ made.
TWO_IF_LAST = "#if !defined(__CUDACC__) && {}\nextern const int more;\nconst int more = 2;\n#endif\n"
_PROCESSES = re.compile(r"^\d+ +(execve|v?fork|clone3?|posix_spawn)\(.* = \d+$", re.MULTILINE)
UNCHANGED = "direct hit, because no input has changed"

# What may become of the compile after the change.
DIRECT_HIT = "direct hit"
NO_DIRECT_HIT = "no direct hit"
EITHER = "a direct hit or not"

Change = Callable[[Workspace], object]


@dataclasses.dataclass(frozen=True)
class Link:
    """A symbolic link that is there before the first compile."""

    target: str


Files = Mapping[str, "str | Link | None"]  # None: a directory


@dataclasses.dataclass(frozen=True)
class Call:
    """A command line; `{work}` and `{path}` in it and in its variables are the workspace and its PATH."""

    options: str = ""
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    line: str = LINE
    makes: tuple[str, ...] = MAKES
    directory: str = "."

    def argv(self, workspace: Workspace) -> list[str]:
        argv = [_filled(word, workspace) for word in f"{self.line} {self.options}".split()]
        return argv if "-ccbin" in argv else [*argv, *HOST_OPTIONS]

    def environ(self, workspace: Workspace) -> dict[str, str]:
        return {name: _filled(value, workspace) for name, value in self.variables.items()}


def call(options: str = "", line: str = LINE, makes: tuple[str, ...] = MAKES, **variables: str) -> Call:
    """The same, with its variables as keywords."""
    return Call(options, variables, line, makes)


def compile_to_object(options: str = "", **variables: str) -> Call:
    return call(options, OBJECT, ("a.o", "a.d"), **variables)


@dataclasses.dataclass(frozen=True)
class Case:
    """`cause` is what the first line of `explain` holds; of several texts, any one will do.

    `prepare` makes what is more than files, before the first compile. `is_recorded` says
    whether a direct record is kept; None means that both are sound.
    """

    change: Change | None = None
    cause: str | tuple[str, ...] = ()
    files: Files = dataclasses.field(default_factory=dict)
    call: Call = Call()
    then: Call | None = None
    prepare: Change | None = None
    outcome: str = NO_DIRECT_HIT
    changes_product: bool | None = True
    is_recorded: bool | None = True
    has_own_toolkit: bool = False
    undo: Change | None = None


def check(workspace: Workspace, case: Case, keep: Path | None = None) -> None:
    """Compile, compile again, change one thing, compile, and compile again: never a stale answer.

    What the change makes is compared with plain nvcc's; a wrong first result would show in it as well.
    """
    set_up(workspace, case)
    before = made_by_cache(workspace, case.call)
    time.sleep(OLD_ENOUGH)
    check_again(workspace, case.call, before, case.is_recorded)
    if case.is_recorded is False:
        check_cause(workspace, case.call, case.cause)
    # Where the record does not answer, the stages have.
    stages_alone = _without_records(workspace) if case.outcome != NO_DIRECT_HIT else None
    then = case.then or case.call
    if case.change:
        case.change(workspace)
        time.sleep(OLD_ENOUGH)
    made = made_by_cache(workspace, then)
    after = made_by_plain(workspace, then, keep)
    check_same(workspace, then, made, after)
    if case.changes_product is not None:
        assert (after != before) == case.changes_product, "what the change does to plain nvcc's product"
    check_outcome(made.outcome, case.outcome, after)
    check_cause(workspace, then, case.cause if case.outcome != DIRECT_HIT else UNCHANGED)
    if after.status == 0:
        time.sleep(OLD_ENOUGH)
        check_again(workspace, then, after, case.is_recorded)
    if stages_alone:
        check_same(stages_alone, then, made_by_cache(stages_alone, then), after)
    if case.undo:
        case.undo(workspace)
        check_again(workspace, case.call, before, case.is_recorded)


def check_same(workspace: Workspace, call: Call, made: Made, expected: Made) -> None:
    differing = differences(made, expected)
    if differing:
        place = workspace.directory / call.directory
        differing.insert(0, f"stale: {made.outcome}")
        raise AssertionError(
            described(workspace, call.argv(workspace), differing, place, **call.environ(workspace))
        )


def compile_twice(workspace: Workspace, which: Call, is_recorded: bool | None) -> Made:
    made = made_by_cache(workspace, which)
    assert made.outcome in ("miss", "stage_hit"), (made.outcome, made.stderr)
    time.sleep(OLD_ENOUGH)
    check_again(workspace, which, made, is_recorded)
    return made


def _without_records(workspace: Workspace) -> Workspace:
    """The same workspace with a copy of the cache in which no call is recorded as a whole."""
    copy = Path(f"{workspace.cache}-stages")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(workspace.cache, copy)
    other = dataclasses.replace(workspace, environ={**workspace.environ, "NVCCACHE_DIR": str(copy)})
    other.forget_calls()
    return other


def processes_of_hit(workspace: Workspace, which: Call) -> list[str]:
    """The system calls that started something while a call was answered directly, its own start first."""
    if not shutil.which("strace") or workspace.run(["strace", "-f", "true"]).status != 0:
        pytest.skip("no strace here, which shows the processes that are started")
    trace = workspace.directory.parent / "trace"
    argv = [str(launcher_of_tree()), workspace.nvcc, *which.argv(workspace)]
    result, counters = workspace.since(
        lambda: workspace.run(
            ["strace", "-f", "-e", "trace=process", "-o", trace, *argv], **which.environ(workspace)
        )
    )
    assert (result.status, counters.outcome) == (0, "direct_hit"), result.stderr
    return _PROCESSES.findall(trace.read_text())


def set_up(workspace: Workspace, case: Case) -> None:
    for name, content in {"a.cu": USER, **case.files}.items():
        if isinstance(content, Link):
            link(name, content.target)(workspace)
        elif content is None:
            (workspace.directory / name).mkdir(parents=True)
        else:
            workspace.write(name, content)
    if case.has_own_toolkit:
        copy_toolkit(workspace, toolkit(workspace))
    if case.prepare:
        case.prepare(workspace)
    time.sleep(OLD_ENOUGH)


def with_empty_cache(workspace: Workspace) -> Workspace:
    """The same files, to be compiled cold."""
    environ = {**workspace.environ, "NVCCACHE_DIR": f"{workspace.cache}-other"}
    return dataclasses.replace(workspace, environ=environ)


def toolkit(workspace: Workspace) -> Path:
    """Where a case has its own toolkit, whose parts can be replaced."""
    return workspace.directory.parent / "toolkit"


def made_by_plain(workspace: Workspace, call: Call, keep: Path | None = None) -> Made:
    """Made with `-keep`, whose names for intermediates are the same on every run."""
    return by_plain(
        workspace,
        *call.argv(workspace),
        cwd=workspace.directory / call.directory,
        keep=keep or keep_of(workspace),
        makes=call.makes,
        **call.environ(workspace),
    )


def made_by_cache(workspace: Workspace, call: Call) -> Made:
    made = by_cache(
        workspace,
        *call.argv(workspace),
        cwd=workspace.directory / call.directory,
        makes=call.makes,
        **call.environ(workspace),
    )
    assert made.outcome != "fault"
    return made


def check_again(workspace: Workspace, call: Call, expected: Made, is_recorded: bool | None) -> None:
    """Compile once more, with nothing changed."""
    made = made_by_cache(workspace, call)
    check_same(workspace, call, made, expected)
    if is_recorded is not None and made.status == 0 and (made.outcome == "direct_hit") != is_recorded:
        raise AssertionError(workspace.explain(cwd=workspace.directory / call.directory))
    if is_recorded is not None:
        check_outcome(made.outcome, DIRECT_HIT if is_recorded else NO_DIRECT_HIT, expected)


def check_outcome(outcome: str, expected: str, made: Made) -> None:
    if made.status != 0:
        assert outcome in ("failed", "bypass")
        return
    assert outcome != "bypass"
    if expected != EITHER:
        assert (outcome == "direct_hit") == (expected == DIRECT_HIT), outcome


def check_cause(workspace: Workspace, call: Call, cause: str | tuple[str, ...]) -> None:
    """What `explain` says first about the last compile."""
    causes = (cause,) if isinstance(cause, str) else cause
    if not causes:
        return
    explained = workspace.explain(call.makes[0], cwd=workspace.directory / call.directory)
    first = explained.splitlines()[0]
    assert first.startswith(f"`{call.makes[0]}`: ")
    assert any(_filled(text, workspace) in first for text in causes), first


def _filled(text: str, workspace: Workspace) -> str:
    return text.replace("{work}", str(workspace.directory)).replace("{path}", workspace.environ["PATH"])


def own_toolkit(workspace: Workspace) -> Path:
    """Give the workspace a copy of its toolkit, a tree of links whose parts can be replaced."""
    original, copy = Path(workspace.nvcc).parents[1], workspace.directory.parent / "toolkit"
    shutil.copytree(original, copy, symlinks=True)
    share_digests(original, copy)
    workspace.nvcc = str(copy / "bin" / "nvcc")
    return copy


def behind(includes: str) -> str:
    """A source after these lines, whose value comes from a header."""
    return f"{includes}\n{KERNEL}"


def both(*names: str) -> dict[str, str]:
    """Headers of the same text, and so of the same size."""
    return dict.fromkeys(names, "#define VALUE 1\n")


def value(number: int) -> str:
    """A header; those of one digit are of equal size."""
    return f"#define VALUE {number}\n"


def uses(include: str, macro: str = "VALUE") -> str:
    return f"#include {include}\n" + KERNEL.replace("VALUE", macro)


def write(name: str, text: str) -> Change:
    return lambda workspace: workspace.write(name, text)


def touch(name: str, seconds: float) -> Change:
    """Give it another date, so many seconds from now."""

    def apply(workspace: Workspace) -> None:
        date = time.time() + seconds
        os.utime(workspace.directory / name, (date, date))

    return apply


def remove(name: str) -> Change:
    return lambda workspace: (workspace.directory / name).unlink()


def remove_directory(name: str) -> Change:
    return lambda workspace: (workspace.directory / name).rmdir()


def move(name: str, other: str) -> Change:
    return lambda workspace: (workspace.directory / name).rename(workspace.directory / other)


def link(name: str, target: str) -> Change:
    """Create a symbolic link, replacing any file."""

    def apply(workspace: Workspace) -> None:
        path = workspace.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    return apply


def make_directory(name: str) -> Change:
    return lambda workspace: (workspace.directory / name).mkdir(parents=True)


def each(*changes: Change) -> Change:
    return lambda workspace: [change(workspace) for change in changes]


def rewrite(name: str, text: str) -> Change:
    """Another content of the same size, in the same file, under the same date."""

    def apply(workspace: Workspace) -> None:
        path = workspace.directory / name
        status = path.stat()
        path.write_text(text)
        _give_status(path, status)

    return apply


def swap(name: str, text: str) -> Change:
    """Another file of the same size and date, moved into its place."""

    def apply(workspace: Workspace) -> None:
        path = workspace.directory / name
        other = workspace.write(name + ".new", text)
        _give_status(other, path.stat())
        other.rename(path)

    return apply


def _give_status(path: Path, status: os.stat_result) -> None:
    assert path.stat().st_size == status.st_size
    path.chmod(stat.S_IMODE(status.st_mode))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
