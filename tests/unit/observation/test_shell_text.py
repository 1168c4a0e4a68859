"""Which variables a script may depend on."""

from __future__ import annotations

import subprocess

import pytest

from nvccache.environment import WHOLE
from nvccache.observation import shell_text
from nvccache.observation.observed_process import Process
from nvccache.observation.shell_text import OF_SHELLS, changing_variable, texts_of, variables_of

SCRIPT = ["/bin/sh", "/opt/wrapper", "-c", "a.cu"]


def variables_in(texts, arguments=SCRIPT, environ=None) -> set[str]:
    return variables_of(Process(arguments[0], list(arguments)), texts, environ or {})


def named(text: str) -> set[str]:
    return variables_in([text.encode()]) - {*OF_SHELLS}


@pytest.mark.parametrize(
    "text",
    [
        'exec g++ $CXX_FLAGS "$@"',
        'exec g++ ${CXX_FLAGS:-"-O2"} "$@"',
        'exec g++ "${CXX_FLAGS[@]}"',
        'exec g++ ${CXX_FLAGS+"$CXX_FLAGS"}',
        'test -n "$CXX_FLAGS"',
        'read -r x <<< "$CXX_FLAGS"',
        "cat <<END\n$CXX_FLAGS\nEND",
    ],
)
def test_a_script_names_each_variable_that_it_uses(text):
    assert "CXX_FLAGS" in variables_in([text.encode()])
    assert WHOLE not in variables_in([text.encode()])


def test_a_name_may_be_spread_over_lines():
    assert "CXX_FLAGS" in variables_in([b"exec g++ $CXX_\\\nFLAGS"])


def test_other_variables_do_not_matter():
    assert named('exec /usr/bin/g++ $FLAGS "$@"') == {"exec", "usr", "bin", "g", "FLAGS"}


def test_what_shells_heed_by_themselves_always_counts():
    assert {"BASH_ENV", "ENV", "CDPATH", "BASH_FUNC_*", "POSIXLY_CORRECT"} < variables_in([b"exec g++"])


def test_path_counts_where_a_text_names_it_and_what_reaches_nothing_not_at_all():
    assert named("$PATH $TMPDIR $NVCCACHE_DIR $HOME_") == {"HOME_", "PATH", "TMPDIR"}


@pytest.mark.parametrize("name", ["MAKELEVEL", "MAKEFLAGS", "OLDPWD", "SHLVL", "TEMP", "TMP", "TMPDIR", "_"])
def test_what_is_ignored_elsewhere_counts_where_a_text_names_it(name):
    assert named(f"echo ${name}") == {"echo", name}
    assert variables_in([f"eval x; echo ${name}".encode()]) == {WHOLE, name}
    assert shell_text.ignored_variables_in([b"", f"os.environ['{name}']".encode()]) >= {name}
    assert shell_text.ignored_variables_in([b"for _ in x", f"X{name}".encode()]) == set()


@pytest.mark.parametrize("text", ["${#_}", '"pre$_"', "${_:-x}", "[ $_ = x ]"])
def test_what_was_the_last_word_before_a_script_counts_where_a_text_names_it(text):
    assert "_" in variables_in([text.encode()])


@pytest.mark.parametrize("text", ["x=~-/y", "cd -", "cd -P -", "cd '-' && x"])
def test_the_directory_before_counts_where_a_text_may_go_back(text):
    assert "OLDPWD" in variables_in([text.encode()])
    assert "OLDPWD" not in variables_in([b"ls -; abcd -"])


@pytest.mark.parametrize(
    "text",
    [
        "eval x",
        'eval "$x"',
        "x=CXX_FLAGS; echo ${!x}",
        "echo ${!CXX_*}",
        "env",
        "exec env g++",
        "/usr/bin/env | grep CXX",
        "printenv CXX_FLAGS",
        "declare -n y=x",
        "declare -p",
        "typeset -p",
        "compgen -v",
        "local -n y=x",
        "export -p",
        "readonly\t-p",
        "set",
        "set | grep CXX",
        "x=`set`",
        "x=$(set)",
        "set > file",
        "set; x",
        "if set\nthen x; fi",
        "set # all",
        "set 2>&1 | x",
        "{ set; }",
        "export",
        "export | grep CXX",
        "export>file",
        "readonly",
        "export -fp",
        "local -rn y=x",
        "local -r -n y=x",
        "readonly -a -p",
        "ev\\\nal x",
        'echo "${x@P}"',
        'trap "$(cat conf)" EXIT',
        "trap -- `cat conf` EXIT",
        "trap $x EXIT",
        'trap "a\n$b" EXIT',
        'trap a"$b" EXIT',
        'alias x="$(cat conf)"',
        'mapfile -c 1 -C "$x" y',
        "'set' | grep CXX",
        "se't' | grep CXX",
        "\\set | grep CXX",
        "ev'al' x",
        "$'\\x73et' | grep CXX",
        "x=se\n${x}t | grep CXX",
        'x; se"$x" | grep CXX',
        "{ $a$b; }",
        "if $(cat conf); then x; fi",
        "`cat conf`",
        "",
    ],
)
def test_where_names_are_made_up_the_whole_environment_counts(text):
    assert variables_in([text.encode()]) == {WHOLE}


@pytest.mark.parametrize(
    "text",
    [
        *("set -e", "set -- a b", "unset X", "offset", "export X=1", "evaluate=1", "readonly x", "set -o x"),
        *('"$CXX" "$@"', '${dir}/g++ "$@"', "x=$(cat conf)", "x=a$b y", "case $x$y in z) w ;; esac"),
        *('"$(dirname $0)/g++" "$@"', "command -v g++", "grep -v x"),
        *("${CXX_FLAGS[@]}", "${CXX:-g++}", "${x##*/}"),
    ],
)
def test_what_only_resembles_it_does_not(text):
    assert WHOLE not in variables_in([text.encode()])


@pytest.mark.parametrize(
    "text",
    [
        *("echo $((x + 1))", "((x)) && y", "echo $[x]", "let x=y", "echo ${a[i]}", "[[ x -eq 1 ]]"),
        *("[[ -v $x ]]", "test -v $x", "[ -v x ]", "echo ${x:y}"),
    ],
)
def test_in_arithmetic_the_whole_environment_counts(text):
    """There a variable's value may be the name of another."""
    assert variables_in([text.encode()]) == {WHOLE}


@pytest.mark.parametrize("shell", ["bash", "dash"])
@pytest.mark.parametrize("text", ["echo $((n + 0))", "n=OTH; echo $((${n}ER + 0))"])
def test_a_name_that_only_arithmetic_makes(shell, text):
    """The reason for the rule above; dash does not evaluate names recursively."""
    found = [
        subprocess.run(
            [shell, "-c", text], env={"n": "OTHER", "OTHER": value}, capture_output=True, check=False
        ).stdout
        for value in "12"
    ]
    assert found[0] != found[1] or (shell == "dash" and text.startswith("echo"))


def test_without_a_text_nothing_is_known():
    assert variables_in([]) == {WHOLE}


def test_a_text_with_very_many_names_is_not_gone_through():
    text = " ".join(f"name{number}" for number in range(5000)).encode()
    assert variables_in([text]) == {WHOLE}


def test_all_texts_count():
    assert {"A", "B"} < variables_in([b"echo $A", b"\xff\0$B"])
    assert variables_in([b"echo $A", b"eval x"]) == {WHOLE}


@pytest.mark.parametrize("word", ["RANDOM", "SRANDOM", "SECONDS", "EPOCHREALTIME", "BASHPID", "PPID"])
def test_what_a_shell_has_known_since_it_began_is_known_by_its_name(word):
    assert changing_variable([b"x", f"echo ${{{word}}}".encode()]) == word
    assert changing_variable([f"echo ${word}IZE $MY{word}".encode(), b""]) == ""


def test_the_id_of_a_shell_is_another_each_time():
    assert changing_variable([b"rm /tmp/x.$$"]) == "$$"


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shell_tells_no_script_of_a_variable_that_it_does_not_name(shell):
    """The assumption of the whole module, tried with some ways to list variables."""
    text = 'set -- "$@"; printf "%s" "$*${X-}$-$0"; x=1; export x; readonly y=2; unset z; :'
    assert "SECRET" not in variables_in([text.encode()])
    found = {
        subprocess.run([shell, "-c", text, "name"], env=environ, capture_output=True, check=True).stdout
        for environ in ({"PATH": "/usr/bin:/bin"}, {"PATH": "/usr/bin:/bin", "SECRET": "1"})
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    ("argv", "texts"),
    [
        (["-c", "exec g++ $X"], ["exec g++ $X"]),
        (["-c", "exec g++ $X", "name", "-Ix"], ["exec g++ $X"]),
        (["script", "-c"], ["echo script"]),
        (["-e", "script"], ["echo script"]),
        (["-eux", "./script", "-I/usr/include"], ["echo script"]),
        *[(argv, []) for argv in ([], ["-e"], ["-s", "script"], ["-", "script"], ["--", "script"])],
        *[(argv, []) for argv in (["-l", "script"], ["-i", "script"], ["--norc", "script"], ["-ec", "x"])],
        *[
            (argv, [])
            for argv in (["-eo", "noglob", "script"], ["+e", "script"], ["-c"], ["other", "script"])
        ],
    ],
)
def test_what_a_shell_runs_is_known_in_its_simplest_forms(tmp_path, monkeypatch, argv, texts):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script").write_text("echo script")
    files = {f"{tmp_path}/script": (0, 0, 0, 0, 0)} if "script" in " ".join(argv) else {}
    shell = Process("/bin/sh", ["sh", *argv], str(tmp_path), files=files)
    assert texts_of(shell) == [text.encode() for text in texts]
    shell.arguments[0] = "-sh"
    assert texts_of(shell) == []  # it reads the user's files


@pytest.mark.parametrize("name", ["BASH_ENV", "ENV"])
@pytest.mark.parametrize("value", ["$X/settings", "`pwd`/settings"])
def test_a_file_that_a_shell_reads_first_may_be_named_by_other_variables(name, value):
    assert variables_in([b"exec g++"], environ={name: value}) == {WHOLE}
    assert WHOLE not in variables_in([b"exec g++"], environ={name: "/settings"})


def test_a_command_that_bash_takes_for_one_of_a_remote_shell():
    """Then it reads ~/.bashrc. How deep shells are nested differs, so it counts only there."""
    names, bash = {"HOME", "SSH_CLIENT", "SSH2_CLIENT"}, ["/bin/bash", "-c", "exec g++"]
    assert names < variables_in([b"exec g++"], bash) and names.isdisjoint(variables_in([b"exec g++"]))
    assert "SHLVL" not in variables_in([b"exec g++"], bash)
    assert "SHLVL" in variables_in([b"exec g++"], bash, {"SSH_CLIENT": "1 2 3"})


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("FUNCNEST", "2", "f() { [ $1 = 0 ] || f $(($1 - 1)); }; f 5; echo end"),
        ("TMOUT", "1", "read x < <(sleep 1.3; echo 1) && echo $x; echo end"),
        ("TIMEFORMAT", "x", "exec 2>&1; time true"),
        ("PS3", "x", "exec 2>&1; select y in z; do :; done </dev/null"),
    ],
)
def test_what_bash_heeds_without_a_word(name, value, text):
    recorded = [
        subprocess.run(
            ["bash", "-c", text], env={"PATH": "/usr/bin:/bin", **more}, capture_output=True, check=False
        ).stdout
        for more in ({}, {name: value})
    ]
    assert recorded[0] != recorded[1]
    assert name in variables_in([b"exec g++"])


@pytest.mark.parametrize(
    ("text", "heeds"),
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
    ],
)
def test_a_script_that_only_hands_its_arguments_on(text, heeds):
    assert shell_text.uses_arguments([b"", text.encode()]) == heeds


@pytest.mark.parametrize("text", ["cd", "cd build", "x=~/bin", "ls ~", "dirs", "pushd x", "echo $HOME"])
def test_the_home_directory_counts_where_a_script_may_ask_for_it(text):
    assert "HOME" in variables_in([text.encode()])


@pytest.mark.parametrize("text", ['exec /opt/nvcc "$@"', "abcd x", "x=1; export x", "cdx"])
def test_the_home_directory_does_not_count_elsewhere(text):
    """As in a site's wrapper, whose users and build machines have different homes."""
    assert "HOME" not in variables_in([text.encode()])


def test_a_search_path_may_name_the_home_directory():
    assert "HOME" in variables_in([b"exec g++"], environ={"PATH": "~/bin:/usr/bin"})


def test_a_line_with_many_names_takes_linear_time():
    """A pattern that could divide it in many ways would take a minute."""
    line = b"exec g++ " + b"${long_name_of_a_list} " * 40
    assert shell_text.uses_arguments([line + b"${params[@]}"]) is False
    assert shell_text.uses_arguments([line + b'"$@"']) is False
    assert shell_text.uses_arguments([line + b'"$@" "$1"']) is True
