"""The programs that a compile starts and the files that come with them: a record holds as long as they do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from scenarios.support.cases import (
    DIRECT_HIT,
    EITHER,
    Call,
    Case,
    Change,
    check,
    made_by_cache,
    remove,
    rewrite,
    set_up,
    swap,
    toolkit,
    touch,
)
from scenarios.support.observed_wrappers import script
from scenarios.support.toolkits import HOST_OPTIONS, edit, replace, wrap
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

CODE = {"a.cu": "__global__ void kernel(float *x) { x[0] = x[1] * 2.5f / x[2]; x[3] = x[0] + x[4]; }\n"}
SM_80 = Call("-arch=sm_80")
PTXAS, CICC, CUDAFE, FATBINARY = "bin/ptxas", "nvvm/bin/cicc", "bin/cudafe++", "bin/fatbinary"
APPEND = 'while [ "$1" != {} ]; do shift; done\nprintf "%s" "{}" >> "$2"'


def changed(name: str) -> str:
    return f"/{Path(name).name}` changed"


def wrapping(name: str, before: str = "", after: str = "", options: tuple[str, ...] = ()) -> Change:
    """A script around the tool; over an earlier script, around the same tool as that."""

    def apply(workspace: Workspace) -> None:
        tool = toolkit(workspace) / name
        real = toolkit(workspace) / f"real-{Path(name).name}"
        if not real.exists():
            real.symlink_to(tool.resolve())
        wrap(tool, real.resolve(), before, after, options)

    return apply


def original_of(workspace: Workspace) -> Path:
    """The toolkit to which the copy's links lead."""
    return (toolkit(workspace) / "bin/nvcc").resolve().parents[1]


def edit_profile(workspace: Workspace) -> None:
    edit(toolkit(workspace) / "bin/nvcc.profile", "\nPTXAS_FLAGS += -O0\n")


TOOLS = {
    "ptxas": Case(wrapping(PTXAS, options=("-O0",)), changed(PTXAS), CODE, SM_80, has_own_toolkit=True),
    "cicc": Case(
        wrapping(CICC, after=APPEND.format("-o", "\n// added\n")),
        changed(CICC),
        CODE,
        Call("-arch=sm_80"),
        has_own_toolkit=True,
    ),
    "a tool that talks now": Case(
        wrapping(PTXAS, before="echo said >&2"), changed(PTXAS), CODE, has_own_toolkit=True
    ),
    "a tool that does the same": Case(
        wrapping(FATBINARY, before="# another"),
        changed(FATBINARY),
        CODE,
        changes_product=False,
        has_own_toolkit=True,
    ),
    "the profile of nvcc": Case(edit_profile, "nvcc.profile` changed", CODE, SM_80, has_own_toolkit=True),
    "a tool that is found elsewhere now": Case(
        remove(f"../toolkit/{FATBINARY}"),
        (),
        CODE,
        outcome=EITHER,
        changes_product=None,
        has_own_toolkit=True,
    ),
}


@pytest.mark.by_default("ptxas", "the profile of nvcc")
@pytest.mark.parametrize("rule", TOOLS)
def test_a_tool_that_changes_is_seen(workspace: Workspace, rule: str) -> None:
    check(workspace, TOOLS[rule])


@pytest.mark.full
def test_a_tool_that_is_not_there_any_more_is_missed(workspace: Workspace) -> None:
    case = Case(files=CODE, has_own_toolkit=True)
    set_up(workspace, case)
    made_by_cache(workspace, case.call)
    (toolkit(workspace) / CICC).unlink()
    plain = workspace.plain(*case.call.argv(workspace))
    assert plain.status != 0
    assert workspace.cached(*case.call.argv(workspace), NVCCACHE_STRICT="0") == plain


@pytest.mark.by_default("swap")
@pytest.mark.parametrize("exchange", [rewrite, swap])
def test_a_tool_replaced_under_the_same_size_and_date_is_seen(
    workspace: Workspace, exchange: Callable[[str, str], Change]
) -> None:
    """Both are scripts; one says `-O0` where the other says `-O3`."""
    set_up(workspace, Case(files=CODE, has_own_toolkit=True))
    wrapping(PTXAS, options=("-O3",))(workspace)
    text = (toolkit(workspace) / PTXAS).read_text().replace("-O3", "-O0")
    check(workspace, Case(exchange(f"../toolkit/{PTXAS}", text), changed(PTXAS), CODE, SM_80))


@pytest.mark.full
@pytest.mark.skipif(bool(HOST_OPTIONS), reason="the host compiler is not the one of PATH")
def test_a_host_compiler_that_appears_earlier_on_the_path_is_seen(workspace: Workspace) -> None:
    """nvcc looks up gcc, in some versions g++."""
    call = Call(variables={"PATH": "{work}/early:{path}"})

    def appear(workspace: Workspace) -> None:
        for name in ("gcc", "g++"):
            text = f'#!/bin/sh\nexec {shutil.which(name)} "$@" -fno-ident\n'
            replace(workspace.directory / "early" / name, text)

    check(workspace, Case(appear, "has appeared", {**CODE, "early": None}, call))


def test_a_host_compiler_that_is_a_script_is_seen_through(workspace: Workspace) -> None:
    set_up(workspace, Case(files=CODE))
    script('exec {g++} "$@"', "g++")(workspace)
    call = Call("-ccbin {work}/g++")
    check(workspace, Case(touch("a.cu", 0), (), CODE, call, outcome=DIRECT_HIT, changes_product=False))
    change = script('exec {g++} "$@" -fno-ident', "g++")
    check(workspace, Case(change, "/g++` changed", CODE, call))
