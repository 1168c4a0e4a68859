"""Scripts and programs as host compilers: what they read, look for and inherit; direct hits behind them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from installations import launcher_of_tree
from scenarios.support.cases import (
    DEFAULT,
    FLOATS,
    OLD_ENOUGH,
    Case,
    Change,
    call,
    check,
    compile_twice,
    own_toolkit,
    processes_of_hit,
    write,
)
from scenarios.support.observed_wrappers import WRAPPED, compiled, script, use_wrapper, wrapped
from workspaces import Workspace

ONE, TWO = "OPTIONS=-DVALUE=1\n", "OPTIONS=-DVALUE=2\n"
BECOMES = '\nexec "{g++}" $OPTIONS "$@"'
BASH = "#!/bin/bash"
PATH = {"PATH": "{work}/early:{work}/late:{path}"}
DATA = "wrapper-data.txt"


def a_compiler(number: int, name: str) -> Change:
    return script(f'exec "{{g++}}" -DVALUE={number} "$@"', name)


def tool_script(workspace: Workspace) -> None:
    """A script in place of cicc in the workspace's own toolkit."""
    tool = own_toolkit(workspace) / "nvvm/bin/cicc"
    script(f'cat "{{work}}/message" >&2\nexec "{tool.resolve()}" "$@"', str(tool))(workspace)


READS = {
    "a file that it looks for": wrapped(
        "if [ -f {work}/settings ]; then . {work}/settings; fi" + BECOMES, write("settings", TWO)
    ),
    "a compiler that appears earlier on PATH": wrapped(
        'exec my-g++ "$@"',
        a_compiler(2, "early/my-g++"),
        {"early": None},
        before=PATH,
        prepare=a_compiler(1, "late/my-g++"),
    ),
    "a variable that was not set": wrapped('exec "{g++}" ${SITE+-DVALUE=1} "$@"', after={"SITE": ""}),
    "a file that a compiled one looks for": Case(
        write(DATA, "-DVALUE=2\n"), (), {"a.cu": DEFAULT}, call(WRAPPED), prepare=compiled()
    ),
    "a file that a script in the place of cicc reads": Case(
        write("message", "two\n"), (), {"a.cu": FLOATS, "message": "one\n"}, prepare=tool_script
    ),
}


@pytest.mark.parametrize("what", READS)
def test_files_read_by_a_wrapper_script_are_inputs(workspace: Workspace, what: str) -> None:
    check(workspace, READS[what])


def test_wrappers_do_not_see_the_observer_in_ld_preload(workspace: Workspace) -> None:
    use_wrapper(
        workspace, '[ -v LD_PRELOAD ] && value=1 || value=2\nexec "{g++}" "-DVALUE=$value" "$@"', first=BASH
    )
    line = ("-ptx", "a.cu", "-o", "a.ptx", "-ccbin", workspace.directory / "wrapper")
    products = []
    for run in (workspace.plain, workspace.cached, workspace.cached):
        assert run(*line).status == 0
        products.append((workspace.directory / "a.ptx").read_bytes())
    assert products[0] == products[1] == products[2]
    assert workspace.counters().calls["direct_hit"] == 0


def test_a_direct_hit_behind_a_wrapper_starts_no_tool(workspace: Workspace) -> None:
    text = 'options=$(cat {work}/more | tr a-z A-Z)\n"{g++}" $options "$@" || exit\ntrue'
    use_wrapper(workspace, text, files={"more": ""})
    compile_twice(workspace, call(WRAPPED), is_recorded=True)
    assert processes_of_hit(workspace, call(WRAPPED)) == ["execve"] * 2, "the launcher and its Python"


# When it compiles C++, a line of standard input gives the value of a macro.
READS_INPUT = (
    'case "$*" in *"-x c++"*) line=0; read line; set -- "-DVALUE=${line:-1}" "$@";; esac\nexec "{g++}" "$@"'
)


def compile_to_ptx(
    workspace: Workspace, *, is_cached: bool = True, before: tuple[str, ...] = (), typed: str | None = None
) -> tuple[int, bytes, bytes]:
    """The status, the PTX and the messages, behind the wrapper."""
    launcher = [str(launcher_of_tree())] if is_cached else []
    product = workspace.directory / "a.ptx"
    product.unlink(missing_ok=True)
    done = subprocess.run(
        [*before, *launcher, workspace.nvcc, "-ptx", "a.cu", "-o", "a.ptx", "-ccbin", "./wrapper"],
        cwd=workspace.directory,
        env=dict(workspace.environ),
        **({"stdin": subprocess.DEVNULL} if typed is None else {"input": typed.encode()}),
        capture_output=True,
        check=False,
    )
    time.sleep(OLD_ENOUGH if is_cached else 0)
    return done.returncode, product.read_bytes() if product.exists() else b"", done.stderr


def test_a_wrapper_that_read_empty_stdin_is_a_hit_only_with_empty_stdin(workspace: Workspace) -> None:
    """Without SHELL bash looks up its user's, as in containers and jobs, which is no obstacle."""
    workspace.environ.pop("SHELL", None)
    use_wrapper(workspace, READS_INPUT, first=BASH)
    made = [compile_to_ptx(workspace) for _ in range(2)]
    assert made[0] == made[1] == compile_to_ptx(workspace, is_cached=False)
    assert workspace.counters().calls["direct_hit"] == 1
    expected = compile_to_ptx(workspace, is_cached=False, typed="3\n")
    assert expected != made[0]
    assert compile_to_ptx(workspace, typed="3\n") == expected


STATES = {  # what a wrapper looks at, and what is run before the call, once this and once that
    "the umask": ("umask", "umask 22", "umask 27"),
    "a descriptor, read if it is there": ("read -r x <&9 && echo 1 || echo 2", "exec 9<&-", "exec 9<a.cu"),
}


@pytest.mark.parametrize("what", STATES)
def test_process_state_that_a_wrapper_reads_is_an_input(workspace: Workspace, what: str) -> None:
    show, *states = STATES[what]
    use_wrapper(workspace, f'x=$({show}); exec "{{g++}}" "-DVALUE=${{x//[^0-9]/}}" "$@"', first=BASH)
    made = []
    for state in states:
        before = (str(shutil.which("bash")), "-c", f'{state}\nexec "$@"', "bash")
        expected = compile_to_ptx(workspace, is_cached=False, before=before)
        for _ in range(2):
            assert compile_to_ptx(workspace, before=before) == expected
        made.append(expected)
    assert made[0] != made[1]


def test_a_host_compiler_wrapper_that_calls_nvccache_again_ends_up_at_nvcc(workspace: Workspace) -> None:
    """By its bare name on PATH, which leads to the nvcc that is already running."""
    ours = f"{sys.executable} -m nvccache"
    use_wrapper(
        workspace, f'[ "$1" = -E ] || {ours} nvcc -cubin b.cu -o b.cubin || exit 9\nexec "{{g++}}" "$@"'
    )
    workspace.write("b.cu", DEFAULT)
    argv = [*ours.split(), "nvcc", "-ptx", "a.cu", "-o", "a.ptx", "-ccbin", "./wrapper"]
    done = workspace.run(argv, PATH=f"{Path(workspace.nvcc).parent}:/usr/bin:/bin")
    assert (done.status, done.stderr) == (0, b"")
    assert (workspace.directory / "b.cubin").exists()


def test_a_wrappers_message_names_the_output_of_this_call_not_an_earlier_one(workspace: Workspace) -> None:
    text = '[[ $* == *" -c "* ]] && echo "  CC  $(basename "${@: -1}")" >&2\nexec "{g++}" "$@"'
    use_wrapper(workspace, text, first=BASH)
    for name in ("one.o", "two.o"):
        for _ in range(2):
            stderr = workspace.cached("-c", "a.cu", "-o", name, "-ccbin", "./wrapper").stderr
            assert re.findall(rb"CC  (\S+)", stderr) == [name.encode()]
