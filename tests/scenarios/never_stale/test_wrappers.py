"""Scripts and programs as host compilers: their inputs, lookups and queries; direct hits behind them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
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
    made_by_cache,
    made_by_plain,
    own_toolkit,
    processes_of_hit,
    set_up,
    touch,
    write,
)
from scenarios.support.observed_wrappers import WRAPPED, compiled, script, use_wrapper, wrapped
from workspaces import Workspace

pytestmark = pytest.mark.light
ONE, TWO = "OPTIONS=-DVALUE=1\n", "OPTIONS=-DVALUE=2\n"
BECOMES = '\nexec "{g++}" $OPTIONS "$@"'
VALUE = '\nexec "{g++}" "-DVALUE=$value" "$@"'
OPENING = "import os, sys\nfile = os.open('{work}/one', os.O_RDONLY)\n"
NUMBERED = 'os.execv("{g++}", ["{g++}", f"-DVALUE={number}", *sys.argv[1:]])'
MODULE = "import os, sys\nfrom settings import OPTIONS as options"
WITH_OPTIONS = '\nos.execv("{g++}", ["{g++}", *options, *sys.argv[1:]])'
PYTHON, BASH = "#!{python}", "#!/bin/bash"
PATH = {"PATH": "{work}/early:{work}/late:{path}"}
DATA = "wrapper-data.txt"


def made(name: str, make: Callable[[str], object]) -> Change:
    return lambda workspace: make(str(workspace.directory / name))


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
    "a file in another working directory": wrapped(
        "value=$(cd {work}/inner && cat /proc/self/cwd/number)" + VALUE,
        write("inner/number", "2"),
        {"inner/number": "1", "number": "3"},
    ),
    "a directory that it lists": wrapped(
        'for file in {work}/settings.d/*.sh; do . "$file"; done' + BECOMES,
        write("settings.d/b.sh", TWO),
        {"settings.d/a.sh": ONE},
        is_recorded=False,
    ),
    "the date of a file": wrapped(
        "if [ {work}/one -nt {work}/two ]; then OPTIONS=-DVALUE=2; fi" + BECOMES,
        touch("two", -1e7),
        {"one": "", "two": ""},
        is_recorded=False,
    ),
    "an attribute of a file that it has open": wrapped(
        OPENING + "number = len(os.listxattr(file))\n" + NUMBERED,
        made("one", lambda path: os.setxattr(path, "user.one", b"1")),
        {"one": ""},
        first=PYTHON,
        is_recorded=False,
    ),
    "a compiler that appears earlier on PATH": wrapped(
        'exec my-g++ "$@"',
        a_compiler(2, "early/my-g++"),
        {"early": None},
        before=PATH,
        prepare=a_compiler(1, "late/my-g++"),
    ),
    "a variable that was not set": wrapped('exec "{g++}" ${SITE+-DVALUE=1} "$@"', after={"SITE": ""}),
    # Variables that programs of their own do not look up by name.
    "the variable of the word before it": wrapped(
        "value=${#_}" + VALUE, first=BASH, before={"_": "/a"}, after={"_": "/b/cc"}
    ),
    "a variable that another one names": wrapped(
        "value=$((n + 0))" + VALUE, first=BASH, before={"n": "m", "m": "5"}, after={"n": "m", "m": "7"}
    ),
    "a file that a compiled one looks for": Case(
        write(DATA, "-DVALUE=2\n"), (), {"a.cu": DEFAULT}, call(WRAPPED), prepare=compiled()
    ),
    "a file that a static one reads": Case(
        write(DATA, "-DVALUE=2\n"),
        (),
        {"a.cu": DEFAULT, DATA: "-DVALUE=1\n"},
        call(WRAPPED),
        prepare=compiled("-static"),
        is_recorded=None,
    ),
    "a file that a script in the place of cicc reads": Case(
        write("message", "two\n"), (), {"a.cu": FLOATS, "message": "one\n"}, prepare=tool_script
    ),
}


@pytest.mark.by_default(
    "a file that it looks for",
    "a file in another working directory",
    "a directory that it lists",
    "a compiler that appears earlier on PATH",
    "a variable that was not set",
    "the variable of the word before it",
    "a variable that another one names",
    "a file that a compiled one looks for",
    "a file that a script in the place of cicc reads",
)
@pytest.mark.parametrize("what", READS)
def test_what_a_wrapper_reads(workspace: Workspace, what: str) -> None:
    check(workspace, READS[what])


def test_a_wrapper_that_looks_for_a_preloaded_library_finds_none_of_ours(workspace: Workspace) -> None:
    use_wrapper(workspace, "[ -v LD_PRELOAD ] && value=1 || value=2" + VALUE, first=BASH)
    line = ("-ptx", "a.cu", "-o", "a.ptx", "-ccbin", workspace.directory / "wrapper")
    products = []
    for run in (workspace.plain, workspace.cached, workspace.cached):
        assert run(*line).status == 0
        products.append((workspace.directory / "a.ptx").read_bytes())
    assert products[0] == products[1] == products[2]
    assert workspace.counters().calls["direct_hit"] == 0


def test_a_direct_hit_behind_a_wrapper_starts_nothing(workspace: Workspace) -> None:
    text = 'options=$(cat {work}/more | tr a-z A-Z)\n"{g++}" $options "$@" || exit\ntrue'
    use_wrapper(workspace, text, files={"more": ""})
    compile_twice(workspace, call(WRAPPED), is_recorded=True)
    assert processes_of_hit(workspace, call(WRAPPED)) == ["execve"]


@pytest.mark.parametrize("arrow", [">", ">>"])
def test_what_a_wrapper_writes_is_written_each_time(workspace: Workspace, arrow: str) -> None:
    use_wrapper(workspace, f'echo x {arrow} {{work}}/report\nexec "{{g++}}" "$@"')
    expected = made_by_plain(workspace, call(WRAPPED))
    report = workspace.directory / "report"
    for _ in range(2):
        report.unlink()
        assert made_by_cache(workspace, call(WRAPPED)) == expected and report.exists()
        time.sleep(OLD_ENOUGH)


def test_a_wrapper_that_leaves_nothing_new_behind_is_recorded(workspace: Workspace) -> None:
    """It appends to a log, and removes a temporary file."""
    text = 'echo x >> {work}/log\necho x >{work}/new\nrm {work}/new\nexec "{g++}" "$@" 2>/dev/null'
    use_wrapper(workspace, text, files={"log": "x\n"})
    compile_twice(workspace, call(WRAPPED), is_recorded=True)


def test_the_second_call_of_a_wrapper_that_keeps_bytecode_is_recorded(workspace: Workspace) -> None:
    """The wrapper has its own directory: Python lists that of its script, which must hold no products."""
    settings = {"a.cu": DEFAULT, "bin/settings.py": "OPTIONS = ['-DVALUE=2']\n"}
    put = script(MODULE + WITH_OPTIONS, "bin/wrapper", PYTHON)
    set_up(workspace, Case(files=settings, prepare=put))
    keeping = call("-ccbin {work}/bin/wrapper", PYTHONDONTWRITEBYTECODE="")
    expected = made_by_plain(workspace, call("-ccbin {work}/bin/wrapper", PYTHONDONTWRITEBYTECODE="1"))
    outcomes = []
    for _ in range(3):
        time.sleep(OLD_ENOUGH)
        now = made_by_cache(workspace, keeping)
        assert now == expected
        outcomes.append(now.outcome)
    assert outcomes[0] == "miss" and outcomes[-1] == "direct_hit"
    assert (workspace.directory / "bin/__pycache__").is_dir()


def test_a_wrapper_that_looks_in_which_checkout_it_is(workspace: Workspace) -> None:
    use_wrapper(workspace, 'case "$*" in *b/two*) set -- -DVALUE=2 "$@";; esac\nexec "{g++}" "$@"')
    checkouts = [workspace.write(f"b/{name}/a.cu", DEFAULT).parent for name in ("one", "two")]
    workspace.environ["NVCCACHE_BASE_DIR"] = str(workspace.directory / "b")
    time.sleep(OLD_ENOUGH)

    def compile_in(checkout: Path, *launcher: str) -> bytes:
        line = ("-ptx", checkout / "a.cu", "-o", "a.ptx", "-ccbin", "../../wrapper")
        done = workspace.run([*launcher, workspace.nvcc, *line], checkout, PWD=str(checkout))
        assert done.status == 0, done.stderr
        return (checkout / "a.ptx").read_bytes()

    for checkout in (checkouts[0], *checkouts):
        now = compile_in(checkout, str(launcher_of_tree()))
        time.sleep(OLD_ENOUGH)
        assert now == compile_in(checkout)
    assert workspace.counters().calls["direct_hit"] == 1
