"""One thing that a compile read, looked for or asked for, and what becomes of the next compile without it.

Each subject has a test_observed_*.py of its own. A case compiles through nvccache, compiles again, changes
one thing, and compiles once more: whatever comes out then is what plain nvcc makes now, by the record of the
call and by the stages alone. The toolkit is a light one, so that a compile costs a tenth of a second.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from installations import launcher_of_tree
from scenarios.support.light_toolkit import light_toolkit
from scenarios.support.soundness_cases import (
    KERNEL,
    OLD_ENOUGH,
    Call,
    Change,
    Link,
    Made,
    check_again,
    made_by_cache,
    made_by_plain,
    prepare,
)
from scenarios.support.soundness_cases import Case as SoundnessCase
from workspaces import Workspace, make_workspace

COMMAND = Call("-arch=sm_75")
# With an external definition, and code that ptxas can make better or worse.
FLOATS = """__global__ void kernel(float *x) { x[0] = x[1] * 2.5f / x[2]; x[3] = x[0] + x[4]; }
int host;
"""
TWO_IF = "#if {}\n#define VALUE 2\n#else\n#define VALUE 1\n#endif\n"
# What only the last compile of the host compiler sees, which is of the text that cudafe++ made.
TWO_IF_LAST = "#if !defined(__CUDACC__) && {}\nextern const int more;\nconst int more = 2;\n#endif\n"
_PROCESSES = re.compile(r"^\d+ +(execve|v?fork|clone3?|posix_spawn)\(.* = \d+$", re.MULTILINE)


def call(options: str = "", line: str = "", makes: tuple[str, ...] = (), **variables: str) -> Call:
    """A compile of a.cu for one architecture; `{work}` stands for the workspace."""
    made = dataclasses.replace(COMMAND, options=f"-arch=sm_75 {options}", variables=variables)
    return dataclasses.replace(made, line=line, makes=makes) if line else made


@dataclasses.dataclass(frozen=True)
class Case:
    """`is_recorded`: whether the same call again is a direct hit, before the change; None if either is sound.

    `prepare` makes what is more than files, before the first compile.
    """

    change: Change | None = None
    files: Mapping[str, str | Link | None] = dataclasses.field(default_factory=dict)  # None: a directory
    call: Call = COMMAND
    then: Call | None = None
    prepare: Change | None = None
    is_recorded: bool | None = True


def check(workspace: Workspace, case: Case) -> None:
    """Compile twice, change one thing, and compile: by what was recorded, and by the stages alone."""
    set_up(workspace, case)
    before = compile_twice(workspace, case.call, case.is_recorded)
    stages_alone = _without_records(workspace)
    if case.change:
        case.change(workspace)
        time.sleep(OLD_ENOUGH)
    check_after(workspace, stages_alone, case, before)


def set_up(workspace: Workspace, case: Case) -> None:
    prepare(workspace, SoundnessCase(files=case.files))
    if case.prepare:
        case.prepare(workspace)
        time.sleep(OLD_ENOUGH)


def compile_twice(workspace: Workspace, which: Call, is_recorded: bool | None) -> Made:
    made, outcome = made_by_cache(workspace, which)
    assert outcome in ("miss", "stage_hit"), (outcome, made.stderr)
    time.sleep(OLD_ENOUGH)
    check_again(workspace, which, made, is_recorded)
    return made


def check_after(workspace: Workspace, stages_alone: Workspace, case: Case, before: Made) -> None:
    then = case.then or case.call
    expected = made_by_plain(workspace, then)
    assert expected != before, "the change shows in nothing that plain nvcc makes"
    made, outcome = made_by_cache(workspace, then)
    assert made == expected, f"stale: {outcome}"
    time.sleep(OLD_ENOUGH)
    made, outcome = made_by_cache(workspace, then)
    assert made == expected, f"stale the second time: {outcome}"
    made, outcome = made_by_cache(stages_alone, then)
    assert made == expected, f"stale by the stages alone: {outcome}"


def _without_records(workspace: Workspace) -> Workspace:
    """The same workspace with a copy of the cache in which no call is recorded as a whole."""
    copy = Path(f"{workspace.cache}-stages")
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


@pytest.fixture(scope="session")
def light(tmp_path_factory: pytest.TempPathFactory, nvcc: str) -> Path:
    """A light toolkit for all cases of a session."""
    directory = tmp_path_factory.mktemp("light")
    workspace = make_workspace(directory, nvcc)
    light_toolkit(workspace, directory / "toolkit")
    return Path(workspace.nvcc).parents[1]


@pytest.fixture
def bench(tmp_path: Path, light: Path) -> Workspace:
    """An empty workspace with that toolkit."""
    return make_workspace(tmp_path, str(light / "bin" / "nvcc"))


def own_toolkit(workspace: Workspace) -> Path:
    """Give the workspace a copy of its toolkit, a tree of links whose parts can be replaced."""
    copy = workspace.directory.parent / "toolkit"
    shutil.copytree(Path(workspace.nvcc).parents[1], copy, symlinks=True)
    workspace.nvcc = str(copy / "bin" / "nvcc")
    return copy


def uses(includes: str) -> str:
    """A source behind these lines, whose value a header tells."""
    return f"{includes}\n{KERNEL}"


def both(*names: str) -> dict[str, str]:
    """Headers of the same text, and so of the same size."""
    return dict.fromkeys(names, "#define VALUE 1\n")
