"""Scripts as host compilers: text of no file, variables nobody else heeds, kinds and dates of directories."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from scenarios.support.cases import KERNEL, Case, Change, call, check_both, each, remove, touch
from scenarios.support.observed_wrappers import script
from workspaces import Workspace

pytestmark = pytest.mark.light

SOURCE = "#ifndef VALUE\n#define VALUE 0\n#endif\n" + KERNEL
WRAPPED = "-ccbin {work}/wrapper"
VALUE = 'exec "{g++}" "-DVALUE=$value" "$@"'
BASH = "#!/bin/bash"
CONF = {"conf": "value=${MINE:-1}\n"}


def made(name: str, make: Callable[[str], object]) -> Change:
    return lambda workspace: make(str(workspace.directory / name))


def seen(text: str, change: Change, files: dict[str, str], prepare: Change | None = None) -> Case:
    """What is recorded, and no longer holds after the change."""
    put = script(f"{text}\n{VALUE}", first=BASH)
    return Case(
        change=change,
        files={"a.cu": SOURCE, **files},
        call=call(WRAPPED),
        prepare=each(put, prepare) if prepare else put,
    )


def told(
    text: str, after: dict[str, str], before: dict[str, str] | None = None, is_recorded: bool | None = True
) -> Case:
    """A variable that is another one the next time."""
    files = {"a.cu": SOURCE, **CONF, "one/first": "value=1\n", "two/first": "value=2\n"}
    first = call(WRAPPED, **(before or {}))
    return Case(
        change=None,
        files=files,
        call=first,
        then=call(WRAPPED, **after),
        prepare=script(f"{text}\n{VALUE}", first=BASH),
        is_recorded=is_recorded,
    )


MINE = {"MINE": "4"}
SEEN = {
    "what becomes a directory": seen(
        "value=$(ls -p {work}/place | grep -c /)",
        each(remove("place/one"), made("place/one", os.mkdir)),
        {"place/one": "", "place/two/x": ""},
    ),
    "the newest directory": seen(
        "value=$(cat $(ls -td {work}/places/*/ | head -n 1)/value)",
        touch("places/two", 1e4),
        {"places/one/value": "1", "places/two/value": "2"},
        each(touch("places/one", -1e4), touch("places/two", -2e4)),
    ),
    "a directory that is newer than another": seen(
        "value=1; [ {work}/one -nt {work}/two ] && value=2",
        touch("two", -2e4),
        {"one/x": "", "two/x": ""},
        touch("one", -1e4),
    ),
    "the mode of a directory": seen(
        "value=$(stat -c %a {work}/one)", made("one", lambda path: os.chmod(path, 0o711)), {"one/x": ""}
    ),
    "the date of a link": seen(
        "value=$(stat -c %Y {work}/link)",
        made("link", lambda path: os.utime(path, (1e9, 1e9), follow_symlinks=False)),
        {},
        made("link", lambda path: os.symlink("a.cu", path)),
    ),
}
TOLD = {
    "text of a process": told("source <(cat {work}/conf)", MINE, is_recorded=None),
    "text of a pipe that has a name": told('. /dev/stdin <<< "$(cat {work}/conf)"', MINE, is_recorded=None),
    "text that a shell reads": told(
        "cat {work}/conf - <<'END' | bash -s -- \"$@\"; exit\n" + VALUE + "\nEND", MINE, is_recorded=None
    ),
    "text for later": told(
        'set -- "$@"; trap "$(cat {work}/conf); $(cat <<\'END\'\n' + VALUE + '\nEND\n)" EXIT; exit', MINE
    ),
    "how deep make is": told("value=${MAKELEVEL:-0}", {"MAKELEVEL": "2"}),
    "options of make": told(
        "case $MAKEFLAGS in *V=1*) value=1;; *) value=0;; esac", {"MAKEFLAGS": " -- V=1"}
    ),
    "the word before it": told("value=${#_}", {"_": "/b/cc"}, {"_": "/a"}),
    "the directory before it": told(
        "case ~- in */two) value=2 ;; *) value=1 ;; esac", {"OLDPWD": "{work}/two"}, {"OLDPWD": "{work}/one"}
    ),
    "a name of a name": told("value=$((n + 0))", {"n": "m", "m": "7"}, {"n": "m", "m": "5"}),
    "a quoted name of a command": told("value=$('set' | grep -c INE=)", MINE),
    "where temporary files were": told(". $TMP/first", {"TMP": "{work}/two"}, {"TMP": "{work}/one"}),
    "what BASH_ENV expands to": told(
        ":",
        {"BASH_ENV": "$PLACE/first", "PLACE": "{work}/two"},
        {"BASH_ENV": "$PLACE/first", "PLACE": "{work}/one"},
    ),
    "how deep calls may be": told(
        "f() { [ $1 = 0 ] && { value=7; return; }; f $(($1-1)); }; f 5 2>/dev/null", {"FUNCNEST": "2"}
    ),
}


@pytest.mark.parametrize("text", ["value=${#LD_PRELOAD}", "[ -v LD_PRELOAD ] && value=1 || value=2"])
def test_who_looks_for_a_library_that_is_preloaded_finds_none_of_ours(
    workspace: Workspace, text: str
) -> None:
    workspace.write("a.cu", SOURCE)
    script(f"{text}\n{VALUE}", first=BASH)(workspace)
    line = ("-ptx", "a.cu", "-o", "a.ptx", "-ccbin", workspace.directory / "wrapper")
    made = []
    for run in (workspace.plain, workspace.cached, workspace.cached):
        assert run(*line).status == 0
        made.append((workspace.directory / "a.ptx").read_bytes())
    assert made[0] == made[1] == made[2]
    assert workspace.counters().calls["direct_hit"] == 0


@pytest.mark.by_default("the newest directory")
@pytest.mark.parametrize("what", SEEN)
def test_what_a_script_sees(workspace: Workspace, what: str) -> None:
    check_both(workspace, SEEN[what])


@pytest.mark.by_default(
    "text of a process", "how deep calls may be", "the word before it", "a name of a name"
)
@pytest.mark.parametrize("what", TOLD)
def test_what_a_script_is_told_by_the_way(workspace: Workspace, what: str) -> None:
    check_both(workspace, TOLD[what])
