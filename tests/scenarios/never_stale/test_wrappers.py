"""Scripts and programs as host compilers: their inputs, lookups and queries; direct hits behind them."""

from __future__ import annotations

import dataclasses
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
    Link,
    call,
    check,
    compile_twice,
    each,
    link,
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
SOURCING = '. "$(dirname "$0")/settings"' + BECOMES
LOOKING = "if [ -f {work}/settings ]; then . {work}/settings; fi" + BECOMES
OPENING = "import os, sys\nfile = os.open('{work}/one', os.O_RDONLY)\n"
NUMBERED = 'os.execv("{g++}", ["{g++}", f"-DVALUE={number}", *sys.argv[1:]])'
MODULE = "import os, sys\nsys.dont_write_bytecode = True\noptions = []\n"
WITH_OPTIONS = '\nos.execv("{g++}", ["{g++}", *options, *sys.argv[1:]])'
PYTHON, BASH = "#!{python}", "#!/bin/bash"
PATH = {"PATH": "{work}/early:{work}/late:{path}"}
IN_BASH = 'exec "{g++}" $OPTIONS "$@"'


def made(name: str, make: Callable[[str], object]) -> Change:
    return lambda workspace: make(str(workspace.directory / name))


def behind(number: int, name: str = "inner") -> Change:
    """A compiler that a wrapper starts."""
    return script(f'exec "{{g++}}" -DVALUE={number} "$@"', name)


# Its own text, edited: it then adds another option.
OWN = {
    "before the others": 'exec "{g++}" -DVALUE={n} "$@"',
}
READS = {
    **{
        f"its own text, {place}": wrapped(text.replace("{n}", "1"), script(text.replace("{n}", "2")))
        for place, text in OWN.items()
    },
    "a file that it sources": wrapped(SOURCING, write("settings", TWO), {"settings": ONE}),
    "a file that it looks for": wrapped(LOOKING, write("settings", TWO)),
    "a file through several processes": wrapped(
        "options=$(sed s/x/=/ {work}/settings | tr a-z A-Z | sed s/^-d/-D/)\n"
        'set -- "$@"; "{g++}" $options "$@" || exit\ntrue',
        write("settings", "-dvaluex2\n"),
        {"settings": "-dvaluex1\n"},
    ),
    "a directory that it lists": wrapped(
        'for file in {work}/settings.d/*.sh; do . "$file"; done' + BECOMES,
        write("settings.d/b.sh", TWO),
        {"settings.d/a.sh": ONE},
        is_recorded=False,
    ),
    "where a link leads": wrapped(
        'exec "{g++}" "-DVALUE=$(readlink {work}/number)" "$@"', link("number", "2"), {"number": Link("1")}
    ),
    "a script that it asks": wrapped(
        'exec "{g++}" $({work}/inner) "$@"',
        script("echo -DVALUE=2", "inner"),
        prepare=script("echo -DVALUE=1", "inner"),
    ),
    "the newest directory": wrapped(
        "value=$(cat $(ls -td {work}/places/*/ | head -n 1)/value)" + VALUE,
        touch("places/two", 1e4),
        {"places/one/value": "1", "places/two/value": "2"},
        first=BASH,
        prepare=each(touch("places/one", -1e4), touch("places/two", -2e4)),
        is_recorded=False,
    ),
    # A record may depend only on a file's existence; and Python seeds its hashes at random.
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
    "a module of its own": wrapped(
        MODULE + "from settings import OPTIONS as options" + WITH_OPTIONS,
        write("settings.py", "OPTIONS = ['-DVALUE=2']\n"),
        {"settings.py": "OPTIONS = ['-DVALUE=1']\n"},
        first=PYTHON,
        is_recorded=None,
    ),
    "the file that BASH_ENV names, which appears": wrapped(
        IN_BASH, write("one", TWO), first=BASH, before={"BASH_ENV": "{work}/one"}, is_recorded=None
    ),
    "a compiler that appears earlier on PATH": wrapped(
        'exec my-g++ "$@"',
        behind(2, "early/my-g++"),
        {"early": None},
        before=PATH,
        prepare=behind(1, "late/my-g++"),
    ),
    "the shell that env finds": wrapped(
        'exec "{g++}" $OPTIONS "$@"',
        script('OPTIONS=-DVALUE=2 exec /bin/sh "$@"', "early/my-sh"),
        {"early": None},
        first="#!/usr/bin/env my-sh",
        before=PATH,
        prepare=script('OPTIONS=-DVALUE=1 exec /bin/sh "$@"', "late/my-sh"),
    ),
}


@pytest.mark.by_default(
    "a file that it looks for",
    "a directory that it lists",
    "the newest directory",
    "a compiler that appears earlier on PATH",
)
@pytest.mark.parametrize("what", READS)
def test_what_a_script_reads(workspace: Workspace, what: str) -> None:
    check(workspace, READS[what])


MINE = {"MINE": "4"}
CONF = {"conf": "value=${MINE:-1}\n"}
FIRST = {"one/first": "value=1\n", "two/first": "value=2\n"}
ENVIRONMENT = {
    "a variable": wrapped(
        'exec "{g++}" $SITE "$@"', before={"SITE": "-DVALUE=1"}, after={"SITE": "-DVALUE=2"}
    ),
    "a variable that was not set": wrapped('exec "{g++}" ${SITE+-DVALUE=1} "$@"', after={"SITE": ""}),
    "a variable that is read by what it starts": wrapped(
        'exec "{g++}" $(printenv SITE) "$@"', before={"SITE": "-DVALUE=1"}, after={"SITE": "-DVALUE=2"}
    ),
    "the home directory": wrapped(
        "if [ -f ~/settings ]; then . ~/settings; fi" + BECOMES,
        files={"one/settings": ONE, "two/settings": TWO},
        before={"HOME": "{work}/one"},
        after={"HOME": "{work}/two"},
    ),
    # Programs that other caches ignore, and text from no file.
    "text of a process": wrapped(
        "source <(cat {work}/conf)" + VALUE, files=CONF, first=BASH, after=MINE, is_recorded=None
    ),
    "the word before it": wrapped(
        "value=${#_}" + VALUE, first=BASH, before={"_": "/a"}, after={"_": "/b/cc"}
    ),
    "a name of a name": wrapped(
        "value=$((n + 0))" + VALUE, first=BASH, before={"n": "m", "m": "5"}, after={"n": "m", "m": "7"}
    ),
    "how deep calls may be": wrapped(
        "f() { [ $1 = 0 ] && { value=7; return; }; f $(($1-1)); }; f 5 2>/dev/null" + VALUE,
        first=BASH,
        after={"FUNCNEST": "2"},
    ),
}


@pytest.mark.by_default(
    "a variable that was not set",
    "text of a process",
    "how deep calls may be",
    "the word before it",
    "a name of a name",
)
@pytest.mark.parametrize("what", ENVIRONMENT)
def test_what_a_script_gets_from_its_environment(workspace: Workspace, what: str) -> None:
    check(workspace, ENVIRONMENT[what])


@pytest.mark.parametrize("text", ["value=${#LD_PRELOAD}", "[ -v LD_PRELOAD ] && value=1 || value=2"])
def test_who_looks_for_a_library_that_is_preloaded_finds_none_of_ours(
    workspace: Workspace, text: str
) -> None:
    use_wrapper(workspace, text + VALUE, first=BASH)
    line = ("-ptx", "a.cu", "-o", "a.ptx", "-ccbin", workspace.directory / "wrapper")
    made = []
    for run in (workspace.plain, workspace.cached, workspace.cached):
        assert run(*line).status == 0
        made.append((workspace.directory / "a.ptx").read_bytes())
    assert made[0] == made[1] == made[2]
    assert workspace.counters().calls["direct_hit"] == 0


DATA = "wrapper-data.txt"
COMPILED = {
    "its file, which appears": Case(change=write(DATA, "-DVALUE=2\n")),
    "a variable with options": Case(
        call=call(WRAPPED, WRAPPED_FLAGS="-DVALUE=1"), then=call(WRAPPED, WRAPPED_FLAGS="-DVALUE=2")
    ),
    "its file, of a static one": Case(
        change=write(DATA, "-DVALUE=2\n"),
        files={DATA: "-DVALUE=1\n"},
        prepare=compiled("-static"),
        is_recorded=None,
    ),
}


@pytest.mark.by_default("its file, which appears")
@pytest.mark.parametrize("what", COMPILED)
def test_what_a_compiled_wrapper_reads(workspace: Workspace, what: str) -> None:
    case = COMPILED[what]
    own = case.call if "-ccbin" in case.call.options else call(WRAPPED)
    files = {"a.cu": DEFAULT, **case.files}
    check(workspace, dataclasses.replace(case, files=files, call=own, prepare=case.prepare or compiled()))


TRANSPARENT = {
    "several processes": script(
        'options=$(cat {work}/more | tr a-z A-Z)\n"{g++}" $options "$@" || exit\ntrue'
    ),
    "a compiled one": compiled(),
}


@pytest.mark.by_default("several processes")
@pytest.mark.parametrize("kind", TRANSPARENT)
def test_a_direct_hit_behind_a_wrapper_starts_nothing(workspace: Workspace, kind: str) -> None:
    set_up(workspace, Case(files={"a.cu": DEFAULT, "more": ""}, prepare=TRANSPARENT[kind]))
    compile_twice(workspace, call(WRAPPED), is_recorded=True)
    assert processes_of_hit(workspace, call(WRAPPED)) == ["execve"]


TOOLS = {"cicc": "nvvm/bin/cicc", "fatbinary": "bin/fatbinary"}


def tool_script(path: str, before: str, after: str = "") -> Change:
    """A script in place of a tool of the workspace's own toolkit."""

    def put(workspace: Workspace) -> None:
        tool = own_toolkit(workspace) / path
        script(f'{before}\nexec "{tool.resolve()}" "$@" {after}', str(tool))(workspace)

    return put


@pytest.mark.by_default("cicc")
@pytest.mark.parametrize("tool", TOOLS)
def test_what_a_tool_that_is_a_script_reads(workspace: Workspace, tool: str) -> None:
    put = tool_script(TOOLS[tool], 'cat "{work}/message" >&2')
    files = {"a.cu": FLOATS, "message": "one\n"}
    check(workspace, Case(change=write("message", "two\n"), files=files, prepare=put))


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
    use_wrapper(workspace, f'{text}\nexec "{{g++}}" "$@"')
    expected = made_by_plain(workspace, call(WRAPPED))
    report = workspace.directory / "report"
    for _ in range(2):
        report.unlink()
        made = made_by_cache(workspace, call(WRAPPED))
        assert made == expected and (report.exists() or report.is_symlink())
        time.sleep(OLD_ENOUGH)


RECORDED = {
    "a log that grows": 'echo x >> {work}/log\nexec "{g++}" "$@"',
    "a temporary file elsewhere": 'echo x >{work}/new\nrm {work}/new\nexec "{g++}" "$@" 2>/dev/null',
}


@pytest.mark.parametrize("what", RECORDED)
def test_who_leaves_nothing_behind_is_recorded(workspace: Workspace, what: str) -> None:
    use_wrapper(workspace, RECORDED[what], files={"log": "x\n"})
    compile_twice(workspace, call(WRAPPED), is_recorded=True)


def test_the_second_call_of_a_wrapper_that_keeps_bytecode_is_recorded(workspace: Workspace) -> None:
    """The wrapper has its own directory: Python lists that of its script, which must hold no products."""
    text = "import os, sys\nfrom settings import OPTIONS as options" + WITH_OPTIONS
    settings = {"bin/settings.py": "OPTIONS = ['-DVALUE=2']\n"}
    use_wrapper(workspace, text, "bin/wrapper", PYTHON, settings)
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
    use_wrapper(workspace, 'case "$*" in *b/two*) set -- -DVALUE=2 "$@";; esac\nexec "{g++}" "$@"')
    checkouts = [workspace.write(f"b/{name}/a.cu", DEFAULT).parent for name in ("one", "two")]
    workspace.environ["NVCCACHE_BASE_DIR"] = str(workspace.directory / "b")
    time.sleep(OLD_ENOUGH)

    def compiled(checkout: Path, *launcher: str) -> bytes:
        line = ("-ptx", checkout / "a.cu", "-o", "a.ptx", "-ccbin", "../../wrapper")
        done = workspace.run([*launcher, workspace.nvcc, *line], checkout, PWD=str(checkout))
        assert done.status == 0, done.stderr
        return (checkout / "a.ptx").read_bytes()

    for checkout in (checkouts[0], *checkouts):
        made = compiled(checkout, str(launcher_of_tree()))
        time.sleep(OLD_ENOUGH)
        assert made == compiled(checkout)
    assert workspace.counters().calls["direct_hit"] == 1
