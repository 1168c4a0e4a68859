"""Which variables a script may depend on."""

from __future__ import annotations

import subprocess

import pytest

from nvccache.environment import WHOLE
from nvccache.observation import shell_text
from nvccache.observation.observed_process import Process
from nvccache.observation.shell_text import OF_SHELLS, changing_variable, texts_of, variables_of

SCRIPT = ["/bin/sh", "/opt/wrapper", "-c", "a.cu"]


def variables_in(*texts: str, arguments=SCRIPT, **environ: str) -> set[str]:
    return variables_of(Process(arguments[0], list(arguments)), map(str.encode, texts), environ)


@pytest.mark.parametrize(
    "text",
    [
        'exec g++ $CXX_FLAGS "$@"',
        'exec g++ ${CXX_FLAGS:-"-O2"} "$@"',
        'exec g++ ${CXX_FLAGS+"$CXX_FLAGS"} "-DX=\\"y\\""',
        "#!/bin/sh\nset -eu\nX=1\nexport Y='2 3'\nexec g++ $CXX_\\\nFLAGS",
        '"/usr/bin/g++" $CXX_FLAGS\ntrue/false',
        "gcc -D__CUDA_ARCH__=750 -E  $CXX_FLAGS \"-I/cuda/bin/../include\" -x c++ -o 'a.i' ",
    ],
)
def test_simple_shell_text_depends_only_on_the_variables_it_names(text):
    found = variables_in(text)
    assert "CXX_FLAGS" in found and WHOLE not in found
    assert found > OF_SHELLS and "NVCCACHE_DIR" not in variables_in(f"{text} $NVCCACHE_DIR")


def test_a_simple_shell_text_depends_on_no_variables_it_does_not_name():
    found = variables_in('exec /usr/bin/g++ $FLAGS $PATH "$@"')
    assert found - OF_SHELLS == {"exec", "usr", "bin", "g", "FLAGS", "PATH"}


# Each may list variables, build a name of one or of a command, or behave differently with other arguments.
OTHER_TEXTS = r"""
eval x
X=/y eval x
x=Y; echo ${!x}
exec g++ ${!CXX_*}
exec g++ ${x@P}
exec g++ ${x:y}
exec g++ ${a[i]}
exec g++ $PWD
exec g++ ${UID}
exec g++ ~/x
x=~-/y
export -fp
export $x
set
set x
x=`set`
x=$(cat conf)
"set"
se't'
\set
$'\x73et'
$x
"${x}t"
. ./settings
{ /bin/set; }
cd /x
if /bin/x; then exec g++; fi
/bin/x && exec g++
exec g++ $((x + 1))
exec g++ <(cat conf)
exec g++ "$1"
exec g++ "$*"
exec g++ $#
[[ -v $x ]]
case "$*" in *two*) x=1;; esac
for word; do :; done
shift
PATH=/x
"""


def test_complex_shell_text_depends_on_all_variables():
    for text in (*OTHER_TEXTS.strip().split("\n"), "x=se\n${x}t", 'x="a\n$b"', "ev\\\nal x"):
        assert variables_in(text, 'exec g++ "$@"') == {WHOLE}, text
    assert variables_in() == {WHOLE}


@pytest.mark.parametrize("name", ["MAKELEVEL", "MAKEFLAGS", "OLDPWD", "SHLVL", "TEMP", "TMP", "TMPDIR", "_"])
def test_usually_ignored_variables_are_inputs_of_a_shell_text_that_names_them(name):
    assert name in variables_in(f"exec g++ ${name}")
    assert variables_in(f"x=${{#{name}}}; eval x") == {WHOLE, name}
    assert shell_text.ignored_variables_in([b"", f"os.environ['{name}']".encode()]) >= {name}
    assert shell_text.ignored_variables_in([b"for _ in x", f"X{name}".encode()]) == set()


def test_a_long_shell_text_is_judged_like_a_short_one():
    many = "${long_name_of_a_list} " * 40
    assert WHOLE not in variables_in(f'exec g++ {many}"$@"')
    assert WHOLE in variables_in(f'exec g++ {many}"$@" "$1"')


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_real_shells_pass_on_no_effect_of_variables_their_text_does_not_name(shell):
    """The assumption of the whole module."""
    text = 'X=1\nexport Y="${Z-2}"\nset -e\nexec printf "%s" "$X" "$@" ${V+w}'
    assert not {WHOLE, "SECRET"} & variables_in(text)
    found = {
        subprocess.run([shell, "-c", text, "name"], env=environ, capture_output=True, check=True).stdout
        for environ in ({"PATH": "/usr/bin:/bin"}, {"PATH": "/usr/bin:/bin", "SECRET": "1"})
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    ("arguments", "environ", "is_whole"),
    [
        (SCRIPT, {"PATH": "~/bin:/usr/bin"}, True),
        (SCRIPT, {"BASH_ENV": "$X/settings"}, True),
        (SCRIPT, {"BASH_ENV": "`pwd`/settings"}, True),
        (SCRIPT, {"BASH_ENV": "/settings"}, False),
        (["sh", "-c", "exec g++"], {}, False),
        (["/bin/bash", "-c", "exec g++"], {}, True),  # over ssh it reads ~/.bashrc
    ],
)
def test_variables_such_as_bash_env_make_a_shell_depend_on_all_variables(arguments, environ, is_whole):
    assert (WHOLE in variables_in("exec g++", arguments=arguments, **environ)) == is_whole


def test_shell_variables_that_change_each_time_are_detected():
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
def test_the_text_of_a_shell_is_found_in_its_arguments_or_script_file(tmp_path, monkeypatch, argv, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "script").write_text("echo script")
    (tmp_path / "long").write_text("#" * (1 << 20))
    files = {f"{tmp_path}/{name}": (0, 0, 0, 0, 0) for name in ("script", "long") if name in " ".join(argv)}
    shell = Process("/bin/sh", ["sh", *argv], str(tmp_path), files=files)
    assert texts_of(shell) == ([text.encode()] if text else [])
    shell.arguments[0] = "-sh"
    assert texts_of(shell) == []  # it reads the user's files


def test_the_text_of_a_script_that_was_found_on_path_is_read(tmp_path):
    (tmp_path / "script").write_text("echo script")
    shell = Process("/bin/sh", ["sh", "script"], "/", files={f"{tmp_path}/script": (0, 0, 0, 0, 0)})
    assert texts_of(shell) == [b"echo script"]
