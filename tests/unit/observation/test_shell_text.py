"""Which variables a script may depend on."""

from __future__ import annotations

import subprocess

import pytest

from nvccache.environment import WHOLE
from nvccache.observation import shell_text
from nvccache.observation.observed_process import Process
from nvccache.observation.shell_text import OF_SHELLS, changing_variable, texts_of, variables_of

SCRIPT = ["/bin/sh", "/opt/wrapper", "-c", "a.cu"]
BASH_COMMAND = ["/bin/bash", "-c", "exec g++"]


def variables_in(*texts: str, arguments=SCRIPT, **environ: str) -> set[str]:
    return variables_of(Process(arguments[0], list(arguments)), map(str.encode, texts), environ)


@pytest.mark.parametrize(
    "text",
    [
        'exec g++ $CXX_FLAGS "$@"',
        'exec g++ ${CXX_FLAGS:-"-O2"} "$@"',
        'exec g++ "${CXX_FLAGS[@]}"',
        'exec g++ ${CXX_FLAGS+"$CXX_FLAGS"}',
        'read -r x <<< "$CXX_FLAGS"',
        "cat <<END\n$CXX_FLAGS\nEND",
        "exec g++ $CXX_\\\nFLAGS",
        *[f"{text} $CXX_FLAGS" for text in ("set -e;", "set -- a b;", "set +o x;", "unset X;", "offset")],
        *[f"{text} $CXX_FLAGS" for text in ("export X=1;", "readonly x;", "x=$(cat conf);", "x=a$b y;")],
        *[f"{text} $CXX_FLAGS" for text in ('"$CXX" "$@"', '${dir}/g++ "$@"', "command -v g++", "grep -v x")],
        *[f"{text} $CXX_FLAGS" for text in ("case $x$y in z) w ;; esac", '"$(dirname $0)/g++"', "${x##*/}")],
    ],
)
def test_a_script_depends_on_the_variables_that_it_names(text):
    assert "CXX_FLAGS" in variables_in("x", text) and WHOLE not in variables_in("x", text)


def test_other_variables_do_not_matter():
    assert variables_in('exec /usr/bin/g++ $FLAGS $PATH "$@"') - OF_SHELLS == {
        *("exec", "usr", "bin", "g", "FLAGS", "PATH")
    }
    assert "NVCCACHE_DIR" not in variables_in("$NVCCACHE_DIR")


# Scripts that list variables, or whose words may be names of variables or commands.
LISTING = """
eval x
x=Y; echo ${!x}
echo ${!CXX_*}
exec env g++
/usr/bin/env | grep CXX
printenv CXX_FLAGS
declare -p
local -rn y=x
export -fp
readonly -a -p
set
x=`set`
set > file
set # all
{ set; }
set $x
export>file
export $x
echo "${x@P}"
trap "$(cat conf)" EXIT
alias x="$(cat conf)"
mapfile -C "$x" y
se't' | grep CXX
\\set | grep CXX
$'\\x73et' | grep CXX
x; se"$x" | grep CXX
`cat conf`
if $(cat conf); then x; fi
echo $((x + 1))
((x)) && y
echo $[x]
let x=y
echo ${a[i]}
[[ x -eq 1 ]]
[[ -v $x ]]
test -v $x
echo ${x:y}
"""
OF_SEVERAL_LINES = ("if set\nthen x; fi", "ev\\\nal x", "x=se\n${x}t | grep CXX", 'trap "a\n$b" EXIT', "")


def test_a_script_that_may_build_names_depends_on_all():
    """In arithmetic a variable's value may be the name of another."""
    for text in (*LISTING.strip().split("\n"), *OF_SEVERAL_LINES):
        assert variables_in(text) == {WHOLE}, text


@pytest.mark.parametrize("name", ["MAKELEVEL", "MAKEFLAGS", "OLDPWD", "SHLVL", "TEMP", "TMP", "TMPDIR", "_"])
def test_ignored_variables_count_where_a_text_names_them(name):
    assert name in variables_in(f"echo ${name}")
    assert variables_in(f"eval x; echo ${name}") == {WHOLE, name}
    assert shell_text.ignored_variables_in([b"", f"os.environ['{name}']".encode()]) >= {name}
    assert shell_text.ignored_variables_in([b"for _ in x", f"X{name}".encode()]) == set()


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shell_shows_no_script_a_variable_that_it_does_not_name(shell):
    """The assumption of the whole module, tried with some ways to list variables."""
    text = 'set -- "$@"; printf "%s" "$*${X-}$-$0"; x=1; export x; readonly y=2; unset z; :'
    assert "SECRET" not in variables_in(text)
    found = {
        subprocess.run([shell, "-c", text, "name"], env=environ, capture_output=True, check=True).stdout
        for environ in ({"PATH": "/usr/bin:/bin"}, {"PATH": "/usr/bin:/bin", "SECRET": "1"})
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("FUNCNEST", "2", "f() { [ $1 = 0 ] || f $(($1 - 1)); }; f 5; echo end"),
        ("TIMEFORMAT", "x", "exec 2>&1; time true"),
        ("PS3", "x", "exec 2>&1; select y in z; do :; done </dev/null"),
    ],
)
def test_variables_that_bash_itself_heeds(name, value, text):
    recorded = [
        subprocess.run(
            ["bash", "-c", text], env={"PATH": "/usr/bin:/bin", **more}, capture_output=True, check=False
        ).stdout
        for more in ({}, {name: value})
    ]
    assert recorded[0] != recorded[1]
    assert name in variables_in("exec g++")


@pytest.mark.parametrize(
    ("text", "environ", "expected"),
    [
        *[
            (text, {}, {"HOME", "OLDPWD"})
            for text in ("cd", "cd build", "x=~/bin", "x=~-/y", "'cd' -", "dirs")
        ],
        *[(text, {}, set()) for text in ('exec /opt/nvcc "$@"', "abcd -", "ls -", "cdx")],  # homes may differ
        ("exec g++", {"PATH": "~/bin:/usr/bin"}, {"HOME", "OLDPWD"}),
        *[
            ("exec g++", {name: value}, {WHOLE})
            for name in ("BASH_ENV", "ENV")
            for value in ("$X/settings", "`pwd`/settings")
        ],
        ("exec g++", {"BASH_ENV": "/settings"}, set()),
    ],
)
def test_variables_that_decide_where_a_shell_looks(text, environ, expected):
    assert variables_in(text, **environ) & {"HOME", "OLDPWD", WHOLE} == expected


def test_bash_may_read_settings_for_a_remote_command():
    """Then it reads ~/.bashrc. How deep shells are nested differs, so it counts only there."""
    names = {"HOME", "SSH_CLIENT", "SSH2_CLIENT"}
    assert names < variables_in("exec g++", arguments=BASH_COMMAND)
    assert names.isdisjoint(variables_in("exec g++"))
    assert "SHLVL" not in variables_in("exec g++", arguments=BASH_COMMAND)
    assert "SHLVL" in variables_in("exec g++", arguments=BASH_COMMAND, SSH_CLIENT="1 2 3")


def test_variables_that_change_each_time():
    for word in ("RANDOM", "SRANDOM", "SECONDS", "EPOCHREALTIME", "BASHPID", "PPID"):
        assert changing_variable([b"x", f"echo ${{{word}}}".encode()]) == word
        assert changing_variable([f"echo ${word}IZE $MY{word}".encode(), b""]) == ""
    assert changing_variable([b"rm /tmp/x.$$"]) == "$$"


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["-c", "exec g++ $X"], "exec g++ $X"),
        (["-c", "exec g++ $X", "name", "-Ix"], "exec g++ $X"),
        (["script", "-c"], "echo script"),
        (["-e", "script"], "echo script"),
        (["-eux", "./script", "-I/usr/include"], "echo script"),
        (["./sub/../script"], "echo script"),
        *[(argv, "") for argv in ([], ["-e"], ["-s", "script"], ["-", "script"], ["--", "script"], ["-c"])],
        *[(argv, "") for argv in (["-l", "script"], ["-i", "script"], ["--norc", "script"], ["-ec", "x"])],
        *[(argv, "") for argv in (["-eo", "noglob", "script"], ["+e", "script"], ["other", "script"])],
        *[(argv, "") for argv in (["-c", "x" * 4096], ["long"])],  # cut by the observer, or here
    ],
)
def test_the_text_that_a_shell_runs(tmp_path, monkeypatch, argv, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "script").write_text("echo script")
    (tmp_path / "long").write_text("#" * (1 << 20))
    files = {f"{tmp_path}/{name}": (0, 0, 0, 0, 0) for name in ("script", "long") if name in " ".join(argv)}
    shell = Process("/bin/sh", ["sh", *argv], str(tmp_path), files=files)
    assert texts_of(shell) == ([text.encode()] if text else [])
    shell.arguments[0] = "-sh"
    assert texts_of(shell) == []  # it reads the user's files


def test_a_script_that_is_found_on_path(tmp_path):
    (tmp_path / "script").write_text("echo script")
    shell = Process("/bin/sh", ["sh", "script"], "/", files={f"{tmp_path}/script": (0, 0, 0, 0, 0)})
    assert texts_of(shell) == [b"echo script"]


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ('#!/bin/sh\nexec /usr/bin/g++ "$@"\n', False),
        ('. ./settings\n  exec "$CXX" ${FLAGS} "-DX" "$@"', False),
        ('case "$*" in *two*) x=1;; esac\nexec g++ "$@"', True),
        ('for word; do :; done\nexec g++ "$@"', True),
        ('exec g++ "-D$1" "$@"', True),
        ('exec g++ $(basename "$1") "$@"', True),
        ('exec g++ "$@"; echo "$@"', True),
        ('g++ "$@" || exit', True),
        ('x=${2##*/}\nexec g++ "$@"', True),
        ('read x </proc/self/cmdline\nexec g++ "$@"', True),
        ('shift\nexec g++ "$@"', True),
        # In linear time: a pattern that could divide the line in many ways would take a minute.
        (f'exec g++ {"${long_name_of_a_list} " * 40}"$@"', False),
        (f'exec g++ {"${long_name_of_a_list} " * 40}"$@" "$1"', True),
    ],
)
def test_a_script_that_only_passes_its_arguments_on(text, uses):
    assert shell_text.uses_arguments([b"", text.encode()]) == uses
