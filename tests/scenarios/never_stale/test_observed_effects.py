"""What wrappers leave behind beside the products, which keeps a record away; and checkouts that they see."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from installations import launcher_of_tree
from scenarios.support.cases import (
    COMMAND,
    KERNEL,
    OLD_ENOUGH,
    Case,
    call,
    compile_twice,
    made_by_cache,
    made_by_plain,
    set_up,
)
from scenarios.support.observed_wrappers import script
from workspaces import Workspace

pytestmark = pytest.mark.light

SOURCE = "#ifndef VALUE\n#define VALUE 0\n#endif\n" + KERNEL
WRAPPED = call("-ccbin {work}/wrapper")


@pytest.mark.by_default("echo x > {work}/report", "echo x >> {work}/report")
@pytest.mark.parametrize(
    "text",
    [
        "echo x > {work}/report",
        "ln -sf a.cu {work}/report",
        "new=$(mktemp {work}/XXXXXX) && cp {work}/a.cu $new && mv $new {work}/report",
        "echo x >> {work}/report",
    ],
)
def test_what_a_wrapper_writes_is_written_each_time(workspace: Workspace, text: str) -> None:
    set_up(
        workspace, Case(files={"a.cu": SOURCE}, prepare=script(f'{text}\nexec "{{g++}}" "$@"'), call=COMMAND)
    )
    expected = made_by_plain(workspace, WRAPPED)
    report = workspace.directory / "report"
    for _ in range(2):
        report.unlink()
        made = made_by_cache(workspace, WRAPPED)
        assert made == expected and (report.exists() or report.is_symlink())
        time.sleep(OLD_ENOUGH)


RECORDED = {
    "a log that grows": 'echo x >> {work}/log\nexec "{g++}" "$@"',
    "a temporary file": (
        'file=$(mktemp)\n"{g++}" "$@" 2>"$file"\nstatus=$?\ncat "$file" >&2\nrm "$file"\nexit $status'
    ),
    "a temporary file elsewhere": 'echo x >{work}/new\nrm {work}/new\nexec "{g++}" "$@" 2>/dev/null',
}


@pytest.mark.by_default("a log that grows", "a temporary file")
@pytest.mark.parametrize("what", RECORDED)
def test_who_leaves_nothing_behind_is_recorded(workspace: Workspace, what: str) -> None:
    set_up(
        workspace, Case(files={"a.cu": SOURCE, "log": "x\n"}, prepare=script(RECORDED[what]), call=COMMAND)
    )
    compile_twice(workspace, WRAPPED, is_recorded=True)


def test_the_second_call_of_a_wrapper_that_keeps_bytecode_is_recorded(workspace: Workspace) -> None:
    """It lies apart, for Python lists the directory of its script, and products are not in there."""
    text = (
        'import os, sys\nfrom settings import OPTIONS\nos.execv("{g++}", ["{g++}", *OPTIONS, *sys.argv[1:]])'
    )
    files = {"a.cu": SOURCE, "bin/settings.py": "OPTIONS = ['-DVALUE=2']\n"}
    set_up(workspace, Case(files=files, prepare=script(text, "bin/wrapper", "#!{python}"), call=COMMAND))
    keeping = call("-ccbin {work}/bin/wrapper", PYTHONDONTWRITEBYTECODE="")
    expected = made_by_plain(workspace, call("-ccbin {work}/bin/wrapper", PYTHONDONTWRITEBYTECODE="1"))
    outcomes = []
    for _ in range(3):
        time.sleep(OLD_ENOUGH)
        made = made_by_cache(workspace, keeping)
        assert made == expected
        outcomes.append(made.outcome)
    assert outcomes[0] == "miss" and outcomes[-1] == "direct_hit"
    assert (workspace.directory / "bin/__pycache__").is_dir()


def test_a_wrapper_that_looks_in_which_checkout_it_is(workspace: Workspace) -> None:
    text = 'case "$*" in *b/two*) set -- -DVALUE=2 "$@";; esac\nexec "{g++}" "$@"'
    script(text)(workspace)
    checkouts = [workspace.write(f"b/{name}/a.cu", SOURCE).parent for name in ("one", "two")]
    workspace.environ["NVCCACHE_BASE_DIR"] = str(workspace.directory / "b")
    time.sleep(OLD_ENOUGH)

    def compiled(checkout: Path, launcher: tuple[str, ...]) -> bytes:
        argv = [
            *launcher,
            workspace.nvcc,
            "-ptx",
            checkout / "a.cu",
            "-o",
            "a.ptx",
            "-ccbin",
            "../../wrapper",
        ]
        done = workspace.run(argv, checkout, PWD=str(checkout))
        assert done.status == 0, done.stderr
        return (checkout / "a.ptx").read_bytes()

    cached = (str(launcher_of_tree()),)
    for checkout in (checkouts[0], *checkouts):
        made = compiled(checkout, cached)
        time.sleep(OLD_ENOUGH)
        assert made == compiled(checkout, ())
    assert workspace.counters().calls["direct_hit"] == 1
