"""Which shell texts only set variables and start programs, and where a shell's text is found."""

from __future__ import annotations

import subprocess

import pytest

from nvccache.observation.observed_process import Process
from nvccache.observation.shell_text import changing_variable, command_started, is_simple, texts_of

SCRIPT = ["/bin/sh", "/opt/wrapper", "-c", "a.cu"]


def simple(*texts: str, arguments=SCRIPT) -> bool:
    return is_simple(Process(arguments[0], list(arguments)), list(map(str.encode, texts)))


@pytest.mark.parametrize(
    "text",
    [
        'exec g++ -O2 "$@"',
        '#!/bin/sh\nset -eu\nX=1\nexport Y=\'2 3\'\nexec g++ -\\\nO2 "-DX=\\"y\\""',
        '"/usr/bin/g++" -DX="\'1\'"\ntrue/false',
        "gcc -D__CUDA_ARCH__=750 -E \"-I/cuda/bin/../include\" -x c++ -o 'a.i' ",
    ],
)
def test_simple_shell_text_sets_variables_and_starts_programs(text):
    assert simple(text)


# Each may use a variable, build a name of one or of a command, or behave differently with other arguments.
OTHER_TEXTS = r"""
eval x
X=/y eval x
exec g++ $X
exec g++ ${x:-y}
exec g++ ~/x
exec g++ *
exec g++ [a]
x=~-/y
x=$Y
export -fp
set
x=`set`
"set"
se't'
\set
$'\x73et'
$x
. ./settings
{ /bin/set; }
cd /x
if /bin/x; then exec g++; fi
/bin/x && exec g++
exec g++ $((x + 1))
exec g++ <(cat conf)
exec g++ "$1"
exec g++ "$*"
[[ -v $x ]]
case "$*" in *two*) x=1;; esac
for word; do :; done
shift
PATH=/x
"""


def test_shell_text_that_does_more_than_set_variables_and_start_programs_is_not_simple():
    for text in (*OTHER_TEXTS.strip().split("\n"), "x=se\n${x}t", "ev\\\nal x", "# x \\\n$x", "x=a\\\\\n$x"):
        assert not simple(text, 'exec g++ "$@"'), text
    assert not is_simple(Process("/bin/sh"), [])


def test_a_shell_that_reads_files_of_its_user_is_not_simple():
    """Over ssh bash reads ~/.bashrc."""
    assert simple("exec g++", arguments=["sh", "-c", "exec g++"])
    assert not simple("exec g++", arguments=["/bin/bash", "-c", "exec g++"])
    assert not simple("exec g++", arguments=["-sh", "script"])


def test_a_long_shell_text_is_judged_like_a_short_one():
    many = "long-name-of-an-option " * 40
    assert simple(f'exec g++ {many}"$@"')
    assert not simple(f'exec g++ {many}"$@" "$1"')


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_arguments_that_simple_shell_text_passes_depend_on_no_variable(shell):
    """The assumption of the whole module."""
    text = 'X=1\nexport Y="2"\nset -e\nexec printf "%s" X "$@" V'
    assert simple(text)
    found = {
        subprocess.run([shell, "-c", text, "name"], env=environ, capture_output=True, check=True).stdout
        for environ in ({"PATH": "/usr/bin:/bin"}, {"PATH": "/usr/bin:/bin", "SECRET": "1"})
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ('#!/bin/sh\nX=1\nexec /usr/bin/g++ -O2 "$@"\n', ["/usr/bin/g++", "-O2", "$@"]),
        ("#!/bin/sh\nexec g++ -O2\n", []),
        ("#!/bin/sh\nexec g++ -'C' \"$@\"\n", []),
        ('#!/bin/sh\n/usr/bin/g++ "$@"\n', []),
        ('#!/bin/sh\n/bin/x\nexec g++ "$@"\n', []),
        ('#!/usr/bin/python3\nexec g++ "$@"\n', []),
    ],
)
def test_a_plain_wrapper_executes_one_program_with_all_of_its_arguments(tmp_path, text, command):
    (tmp_path / "script").write_text(text)
    assert command_started(str(tmp_path / "script")) == command


def test_shell_variables_that_change_each_time_are_detected():
    for word in ("RANDOM", "SRANDOM", "SECONDS", "EPOCHREALTIME", "BASHPID", "PPID"):
        assert changing_variable([b"x", f"echo ${{{word}}}".encode()]) == word
        assert changing_variable([f"echo ${word}IZE $MY{word}".encode(), b""]) == ""


def test_an_escaped_dollar_before_a_variable_is_no_process_id():
    for text in (r"rm /tmp/x.$$", r'"\\$$x"', r"\$$$", r'eval "echo \$$"', r'eval "echo \$\$x"', r"'\'$$x"):
        assert changing_variable([text.encode()]), text
    for text in (r'eval "echo \$$name"', r'eval "echo \$${name}"', r"\$1 \$x"):
        assert not changing_variable([text.encode()]), text


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


def test_the_text_of_a_script_that_was_found_on_path_is_read(tmp_path):
    (tmp_path / "script").write_text("echo script")
    shell = Process("/bin/sh", ["sh", "script"], "/", files={f"{tmp_path}/script": (0, 0, 0, 0, 0)})
    assert texts_of(shell) == [b"echo script"]
