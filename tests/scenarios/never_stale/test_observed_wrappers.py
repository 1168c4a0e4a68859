"""Scripts and programs as host compilers: what they read, look for and ask for; direct hits behind them."""

from __future__ import annotations

import dataclasses
import os

import pytest

from scenarios.support.cases import (
    COMMAND,
    FLOATS,
    KERNEL,
    Case,
    Change,
    Link,
    call,
    check_both,
    compile_twice,
    each,
    link,
    own_toolkit,
    processes_of_hit,
    remove,
    set_up,
    touch,
    write,
)
from scenarios.support.observed_wrappers import compiled, script
from workspaces import Workspace

pytestmark = pytest.mark.light

SOURCE = "#ifndef VALUE\n#define VALUE 0\n#endif\n" + KERNEL
ONE, TWO = "OPTIONS=-DVALUE=1\n", "OPTIONS=-DVALUE=2\n"
SOURCING = '. "$(dirname "$0")/settings"\nexec "{g++}" $OPTIONS "$@"'
LOOKING = 'if [ -f {work}/settings ]; then . {work}/settings; fi\nexec "{g++}" $OPTIONS "$@"'
OPENING = "import os, sys\nfile = os.open('{work}/one', os.O_RDONLY)\n"
BECOMING = 'os.execv("{g++}", ["{g++}", f"-DVALUE={number}", *sys.argv[1:]])'
WRAPPED = "-ccbin {work}/wrapper"


def wrapped(
    text: str, change: Change, files: dict[str, str | Link | None] | None = None, first: str = "#!/bin/sh"
) -> Case:
    return Case(
        change=change,
        files={"a.cu": SOURCE, **(files or {})},
        call=call(WRAPPED),
        prepare=script(text, first=first),
    )


def heeding(
    text: str,
    before: dict[str, str],
    after: dict[str, str],
    files: dict[str, str | Link | None] | None = None,
) -> Case:
    """A wrapper and a variable that is another one the next time."""
    first = "#!/bin/bash" if "BASH_ENV" in {*before, *after} else "#!/bin/sh"
    then = call(WRAPPED, **after)
    files = {"a.cu": SOURCE, **(files or {})}
    return Case(
        change=None, files=files, call=call(WRAPPED, **before), then=then, prepare=script(text, first=first)
    )


BASH = '#!/bin/bash\nexec "{g++}" $OPTIONS "$@"'
SCRIPTS = {
    "a file that it sources": wrapped(SOURCING, write("settings", TWO), {"settings": ONE}),
    "a file that it looks for": wrapped(LOOKING, write("settings", TWO)),
    "a file that it looked for and found": wrapped(LOOKING, remove("settings"), {"settings": ONE}),
    "a file that is read by what it starts": wrapped(
        'exec "{g++}" "-DVALUE=$(cat {work}/number)" "$@"', write("number", "2"), {"number": "1"}
    ),
    "a file through several processes": wrapped(
        "options=$(sed s/x/=/ {work}/settings | tr a-z A-Z | sed s/^-d/-D/)\n"
        'set -- "$@"; "{g++}" $options "$@" || exit\ntrue',
        write("settings", "-dvaluex2\n"),
        {"settings": "-dvaluex1\n"},
    ),
    "a directory that it lists": wrapped(
        'for file in {work}/settings.d/*.sh; do . "$file"; done\nexec "{g++}" $OPTIONS "$@"',
        write("settings.d/b.sh", TWO),
        {"settings.d/a.sh": ONE},
    ),
    "a directory that something lists for it": wrapped(
        'exec "{g++}" "-DVALUE=$(ls {work}/numbers)" "$@"',
        each(write("numbers/2", ""), remove("numbers/1")),
        {"numbers/1": ""},
    ),
    "where a link leads": wrapped(
        'exec "{g++}" "-DVALUE=$(readlink {work}/number)" "$@"', link("number", "2"), {"number": Link("1")}
    ),
    "the date of a file": wrapped(
        'if [ {work}/one -nt {work}/two ]; then OPTIONS=-DVALUE=2; fi\nexec "{g++}" $OPTIONS "$@"',
        touch("two", -1e7),
        {"one": "", "two": ""},
    ),
    "the mode of a file": wrapped(
        'if [ -x {work}/one ]; then OPTIONS=-DVALUE=2; fi\nexec "{g++}" $OPTIONS "$@"',
        lambda workspace: (workspace.directory / "one").chmod(0o755),
        {"one": ""},
    ),
    "the size of a file": wrapped(
        'if [ -s {work}/one ]; then OPTIONS=-DVALUE=2; fi\nexec "{g++}" $OPTIONS "$@"',
        write("one", "1"),
        {"one": ""},
    ),
    "a script that it becomes": Case(
        change=script('exec "{g++}" -DVALUE=2 "$@"', "inner"),
        files={"a.cu": SOURCE},
        call=call(WRAPPED),
        prepare=each(script('exec {work}/inner "$@"'), script('exec "{g++}" -DVALUE=1 "$@"', "inner")),
    ),
    "a script that it asks": Case(
        change=script("echo -DVALUE=2", "inner"),
        files={"a.cu": SOURCE},
        call=call(WRAPPED),
        prepare=each(script('exec "{g++}" $({work}/inner) "$@"'), script("echo -DVALUE=1", "inner")),
    ),
    "the date of a file that it has open": wrapped(
        OPENING + "number = int(os.fstat(file).st_mtime) % 1000\n" + BECOMING,
        lambda workspace: os.utime(workspace.directory / "one", (7, 7)),
        {"one": ""},
        "#!{python}",
    ),
    "an attribute of a file that it has open": wrapped(
        OPENING + "number = len(os.listxattr(file))\n" + BECOMING,
        lambda workspace: os.setxattr(workspace.directory / "one", "user.one", b"1"),
        {"one": ""},
        "#!{python}",
    ),
    "a module of its own": wrapped(
        "import os, sys\nsys.dont_write_bytecode = True\nfrom settings import OPTIONS\n"
        'os.execv("{g++}", ["{g++}", OPTIONS, *sys.argv[1:]])',
        write("settings.py", "OPTIONS = '-DVALUE=2'\n"),
        {"settings.py": "OPTIONS = '-DVALUE=1'\n"},
        "#!{python}",
    ),
    "a module that it looks for": wrapped(
        "import os, sys\nsys.dont_write_bytecode = True\noptions = []\n"
        "try:\n    from settings import OPTIONS as options\nexcept ImportError:\n    pass\n"
        'os.execv("{g++}", ["{g++}", *options, *sys.argv[1:]])',
        write("settings.py", "OPTIONS = ['-DVALUE=2']\n"),
        first="#!{python}",
    ),
}
# A record may hold no more of a file than that it is there; and Python takes chance for its hashes.
UNDECIDED = (
    "the date of a file",
    "the mode of a file",
    "the size of a file",
    "the date of a file that it has open",
    "an attribute of a file that it has open",
    "a module of its own",
    "a module that it looks for",
)
PATH = {"PATH": "{work}/early:{work}/late:{path}"}
VARIABLES = {
    "a variable": heeding('exec "{g++}" $SITE "$@"', {"SITE": "-DVALUE=1"}, {"SITE": "-DVALUE=2"}),
    "a variable that was not set": heeding('exec "{g++}" ${SITE+-DVALUE=1} "$@"', {}, {"SITE": ""}),
    "a variable that is read by what it starts": heeding(
        'exec "{g++}" $(printenv SITE) "$@"', {"SITE": "-DVALUE=1"}, {"SITE": "-DVALUE=2"}
    ),
    "colours that it asks for": Case(
        change=None,
        files={"a.cu": "#warning coloured\n" + SOURCE},
        call=call(WRAPPED, GCC_COLORS="warning=01;31"),
        then=call(WRAPPED, GCC_COLORS="warning=01;32"),
        prepare=script('exec "{g++}" -fdiagnostics-color=always "$@"'),
    ),
    "a file that BASH_ENV names": heeding(
        BASH, {"BASH_ENV": "{work}/one"}, {"BASH_ENV": "{work}/two"}, {"one": ONE, "two": TWO}
    ),
    "BASH_ENV, which was not set": heeding(BASH, {}, {"BASH_ENV": "{work}/two"}, {"two": TWO}),
    "the home directory": heeding(
        'if [ -f ~/settings ]; then . ~/settings; fi\nexec "{g++}" $OPTIONS "$@"',
        {"HOME": "{work}/one"},
        {"HOME": "{work}/two"},
        {"one/settings": ONE, "two/settings": TWO},
    ),
}
PLACES = {
    "the content of the file that BASH_ENV names": Case(
        change=write("one", TWO),
        files={"a.cu": SOURCE, "one": ONE},
        call=call(WRAPPED, BASH_ENV="{work}/one"),
        prepare=script(BASH, first="#!/bin/bash"),
    ),
    "the file that BASH_ENV names, which appears": Case(
        change=write("one", TWO),
        files={"a.cu": SOURCE},
        call=call(WRAPPED, BASH_ENV="{work}/one"),
        prepare=script(BASH, first="#!/bin/bash"),
        is_recorded=None,
    ),
    "a compiler that appears earlier on PATH": Case(
        change=script('exec "{g++}" -DVALUE=2 "$@"', "early/my-g++"),
        files={"a.cu": SOURCE, "early": None},
        call=call(WRAPPED, **PATH),
        prepare=each(script('exec my-g++ "$@"'), script('exec "{g++}" -DVALUE=1 "$@"', "late/my-g++")),
    ),
    "a tool that appears earlier on PATH": Case(
        change=script("echo -DVALUE=2", "early/settings"),
        files={"a.cu": SOURCE, "early": None},
        call=call(WRAPPED, **PATH),
        prepare=each(script('exec "{g++}" $(settings) "$@"'), script("echo -DVALUE=1", "late/settings")),
    ),
    "the shell that env finds": Case(
        change=script('OPTIONS=-DVALUE=2 exec /bin/sh "$@"', "early/my-sh"),
        files={"a.cu": SOURCE, "early": None},
        call=call(WRAPPED, **PATH),
        prepare=each(
            script('exec "{g++}" $OPTIONS "$@"', first="#!/usr/bin/env my-sh"),
            script('OPTIONS=-DVALUE=1 exec /bin/sh "$@"', "late/my-sh"),
        ),
    ),
}
COMPILED = {
    "its file": Case(
        change=write("wrapper-data.txt", "-DVALUE=2\n"),
        files={"wrapper-data.txt": "-DVALUE=1\n"},
        call=COMMAND,
    ),
    "its file, which appears": Case(change=write("wrapper-data.txt", "-DVALUE=2\n"), call=COMMAND),
    "its file, which goes": Case(
        change=remove("wrapper-data.txt"), files={"wrapper-data.txt": "-DVALUE=2\n"}, call=COMMAND
    ),
    "a variable with options": Case(
        call=call(WRAPPED, WRAPPED_FLAGS="-DVALUE=1"), then=call(WRAPPED, WRAPPED_FLAGS="-DVALUE=2")
    ),
    "a variable that is set": Case(then=call(WRAPPED, WRAPPED_FLAGS="-DVALUE=2"), call=COMMAND),
    "the compiler that a variable names": Case(
        change=script('exec "{g++}" -DVALUE=2 "$@"', "other"),
        call=call(WRAPPED, WRAPPED_CXX="{work}/other"),
        prepare=each(compiled(), script('exec "{g++}" -DVALUE=1 "$@"', "other")),
    ),
    "its file, of a static one": Case(
        change=write("wrapper-data.txt", "-DVALUE=2\n"),
        files={"wrapper-data.txt": "-DVALUE=1\n"},
        prepare=compiled("-static"),
        is_recorded=None,
        call=COMMAND,
    ),
    "its file, through a link to it": Case(
        change=write("wrapper-data.txt", "-DVALUE=2\n"),
        files={"wrapper-data.txt": "-DVALUE=1\n", "mpicxx": Link("wrapper")},
        call=call("-ccbin {work}/mpicxx"),
    ),
}


@pytest.mark.by_default("a file that it looks for", "a directory that it lists")
@pytest.mark.parametrize("what", SCRIPTS)
def test_what_a_script_reads(workspace: Workspace, what: str) -> None:
    is_recorded = None if what in UNDECIDED else True
    check_both(workspace, dataclasses.replace(SCRIPTS[what], is_recorded=is_recorded))


@pytest.mark.by_default("a variable that was not set")
@pytest.mark.parametrize("what", VARIABLES)
def test_what_a_script_is_told(workspace: Workspace, what: str) -> None:
    check_both(workspace, VARIABLES[what])


@pytest.mark.by_default("a compiler that appears earlier on PATH")
@pytest.mark.parametrize("what", PLACES)
def test_where_a_script_looks(workspace: Workspace, what: str) -> None:
    check_both(workspace, PLACES[what])


@pytest.mark.by_default("its file, which appears")
@pytest.mark.parametrize("what", COMPILED)
def test_what_a_compiled_wrapper_reads(workspace: Workspace, what: str) -> None:
    case = COMPILED[what]
    line = case.call if "-ccbin" in case.call.options else call(WRAPPED)
    check_both(
        workspace,
        Case(
            change=case.change,
            files={"a.cu": SOURCE, **case.files},
            call=line,
            then=case.then,
            prepare=case.prepare or compiled(),
            is_recorded=case.is_recorded,
        ),
    )


TRANSPARENT = {
    "a line that becomes the compiler": 'exec "{g++}" "$@"',
    "several processes": 'options=$(cat {work}/more | tr a-z A-Z)\n"{g++}" $options "$@" || exit\ntrue',
    "a file that it sources and one that it looks for": (
        'X=1\n. {work}/more\nif [ -f {work}/no ]; then . {work}/no; fi\nexec "{g++}" "$@"'
    ),
}


@pytest.mark.by_default("several processes")
@pytest.mark.parametrize("kind", TRANSPARENT)
def test_a_direct_hit_behind_a_script_starts_nothing(workspace: Workspace, kind: str) -> None:
    set_up(
        workspace, Case(files={"a.cu": SOURCE, "more": ""}, prepare=script(TRANSPARENT[kind]), call=COMMAND)
    )
    compile_twice(workspace, call(WRAPPED), is_recorded=True)
    assert processes_of_hit(workspace, call(WRAPPED)) == ["execve"]


@pytest.mark.full
def test_a_direct_hit_behind_a_compiled_wrapper_starts_nothing(workspace: Workspace) -> None:
    set_up(workspace, Case(files={"a.cu": SOURCE}, prepare=compiled(), call=COMMAND))
    compile_twice(workspace, call(WRAPPED), is_recorded=True)
    assert processes_of_hit(workspace, call(WRAPPED)) == ["execve"]


TOOLS = {"cicc": "nvvm/bin/cicc", "cudafe++": "bin/cudafe++", "fatbinary": "bin/fatbinary"}


def tool_script(path: str, before: str, after: str = "") -> Change:
    """A script in the place of a tool of the workspace's own toolkit."""

    def put(workspace: Workspace) -> None:
        tool = own_toolkit(workspace) / path
        script(f'{before}\nexec "{tool.resolve()}" "$@" {after}', str(tool))(workspace)

    return put


@pytest.mark.by_default("cicc")
@pytest.mark.parametrize("tool", TOOLS)
def test_what_a_tool_that_is_a_script_reads(workspace: Workspace, tool: str) -> None:
    put = tool_script(TOOLS[tool], 'cat "{work}/message" >&2')
    files = {"a.cu": FLOATS, "message": "one\n"}
    check_both(workspace, Case(change=write("message", "two\n"), files=files, prepare=put, call=COMMAND))


NVCC = {
    "a file that it sources": Case(
        change=write("settings", "OPTIONS=-DVALUE=2\n"),
        files={"settings": "OPTIONS=-DVALUE=1\n"},
        call=COMMAND,
    ),
    "a file that it looks for": Case(change=write("settings", "OPTIONS=-DVALUE=2\n"), call=COMMAND),
    "a variable": Case(call=call(OPTIONS="-DVALUE=1"), then=call(OPTIONS="-DVALUE=2")),
}


@pytest.mark.by_default("a file that it looks for")
@pytest.mark.parametrize("what", NVCC)
def test_what_an_nvcc_that_is_a_script_reads(workspace: Workspace, what: str) -> None:
    case = NVCC[what]
    text = f'if [ -f {{work}}/settings ]; then . {{work}}/settings; fi\nexec "{workspace.nvcc}" "$@" $OPTIONS'
    script(text, "nvcc")(workspace)
    workspace.nvcc = str(workspace.directory / "nvcc")
    check_both(
        workspace,
        Case(
            change=case.change,
            files={"a.cu": SOURCE, **case.files},
            call=case.call,
            then=case.then,
            is_recorded=None,
        ),
    )


PTXAS = {
    "a file that it sources": Case(
        change=write("settings", "OPTIONS=-O0\n"), files={"settings": "OPTIONS=-O3\n"}, call=COMMAND
    ),
    "a variable": Case(call=call(OPTIONS="-O3"), then=call(OPTIONS="-O0")),
    "a file that it looks for": Case(change=write("settings", "OPTIONS=-O0\n"), call=COMMAND),
}


@pytest.mark.full
@pytest.mark.parametrize("what", PTXAS)
def test_what_a_ptxas_that_is_a_script_reads(workspace: Workspace, what: str) -> None:
    case = PTXAS[what]
    put = tool_script("bin/ptxas", "if [ -f {work}/settings ]; then . {work}/settings; fi", "$OPTIONS")
    check_both(
        workspace,
        Case(
            change=case.change,
            files={"a.cu": FLOATS, **case.files},
            call=case.call,
            then=case.then,
            prepare=put,
        ),
    )
