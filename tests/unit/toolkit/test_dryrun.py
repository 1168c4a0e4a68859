"""The grammar of `nvcc --dryrun`, and the splitting of its commands, compared with a real shell."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from nvccache.commandline.invocation import Bypass
from nvccache.toolkit import dryrun
from nvccache.toolkit.dryrun import DependencyStep, Transcript, read, split_words

TRANSCRIPTS = sorted((Path(__file__).parents[2] / "golden" / "transcripts").glob("*/*.txt"))
# Pieces of nvcc's lines, and characters that names in them could have.
PIECES = (
    *('"', '"', '"', " ", " ", "  ", "\t", "\\", "\\\\", '\\"', "\\$", "\\`", "\\ ", "\\a", "\\'", "\\;"),
    *"gcc -D -I a.cu = , : / % @ + - _ ^ {} ü ā 日 \x7f".split(),
    *"$HOME `id` ' ; & | < > ( ) * ? [ ] { } ~ # !".split(),
    "\r",
    *("'x y'", "'$A'", "'"),
    *('"x y"', '"-DA=\\"b c\\""', '"a\\b"', '"a;b"', "\udc81", "\udcff"),
)


def _by_shell(lines: list[str]) -> list[list[str]]:
    """The words that `sh` makes of each line."""
    script = "".join(f"set -- {line}\nprintf '%d\\0' $#\nprintf '%s\\0' \"$@\"\n" for line in lines)
    done = subprocess.run(["sh"], input=os.fsencode(script), capture_output=True, check=True)
    assert done.stderr == b""
    fields = os.fsdecode(done.stdout).split("\0")
    found = []
    while len(fields) > 1:
        count = int(fields.pop(0))
        found.append(fields[:count])
        del fields[: max(count, 1)]  # printf writes one empty field where there are no words
    return found


def test_words_are_those_that_a_shell_makes():
    generator = random.Random(20241121)
    lines = ["".join(generator.choices(PIECES, k=generator.randint(0, 12))) for _ in range(20_000)]
    split = {line: argv for line in lines if (argv := split_words(line)) is not None}
    assert len(split) > 1000
    assert _by_shell(list(split)) == list(split.values())


def test_words_of_harmless_lines_are_always_split():
    generator = random.Random(7)
    harmless = [piece for piece in PIECES if not set(piece) & set("$`\\\"';&|<>()*?[]{}~#!")]
    for _ in range(2000):
        assert split_words("".join(generator.choices(harmless, k=10))) is not None


def test_words_of_recorded_commands_are_those_that_a_shell_makes():
    bodies = [
        line.removeprefix("#$ ")
        for path in TRANSCRIPTS
        for line in path.read_text().splitlines()
        if line.startswith("#$ ") and not line.startswith(("#$ --", "#$ rm")) and "$" not in line[3:]
    ]
    commands = [body for body in bodies if not body.partition("=")[0].isidentifier()]
    assert len(commands) > 300
    assert _by_shell(commands) == [split_words(command) for command in commands]


@pytest.mark.parametrize(
    "text",
    [
        *("$HOME", '"$HOME"', '"`id`"', "a;b", "a&", "a|b", "a>b", "a<b", "(a)", "a*", "a?", "[a]", "{a,b}"),
        *("~", "#a", "!", '"a', "'a", "'a\nb'", "a\\", 'a"b\\"', "a\nb", "a\\\nb", '"a\\\nb"'),
    ],
)
def test_what_a_shell_would_do_more_with_is_not_split(text):
    assert split_words(text) is None


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("", []),
        ('""', [""]),
        ("a  b\t c ", ["a", "b", "c"]),
        ('-D "X=1 2"', ["-D", "X=1 2"]),
        ('"/usr/bin"/g++', ["/usr/bin/g++"]),
        ('-DF="\\"/s/a.fatbin.c\\""', ['-DF="/s/a.fatbin.c"']),
        ('"back\\slash.cu"', ["back\\slash.cu"]),
        ('"q\'uote.cu"', ["q'uote.cu"]),
        ('"semi;amp&.cu"', ["semi;amp&.cu"]),
        ('"a\\\\b"', ["a\\b"]),
        ("a\\ b", ["a b"]),
        ("'-fPIC' 'a b'\"'\"'$HOME'", ["-fPIC", "a b'$HOME"]),
        ("'a\\b' '\"' ''", ["a\\b", '"', ""]),
    ],
)
def test_quotes_and_backslashes_are_those_of_a_shell(text, argv):
    assert split_words(text) == argv


def test_an_endless_word_without_its_last_quote_takes_no_time():
    assert split_words('"' + "ab" * 50_000) is None
    assert split_words('"' + '\\"a' * 50_000) is None
    assert split_words('"a"b' * 50_000 + '"') is None


def _read(text: str) -> Transcript:
    found = read(text.encode())
    assert isinstance(found, Transcript)
    return found


def test_variables_are_what_comes_before_the_first_command():
    found = _read('#$ TOP=/cuda\n#$ INCLUDES="-I/cuda"  \n#$ a=b c\n#$ gcc -c\n#$ A=1 gcc\n')
    assert found.variables == {"TOP": "/cuda", "INCLUDES": '"-I/cuda"  ', "a": "b c"}
    assert [step.argv for step in found.steps] == [("gcc", "-c"), ("A=1", "gcc")]


def test_the_last_of_equal_variables_counts():
    assert _read("#$ PATH=/a\n#$ TOP=x\n#$ PATH=/b\n").variables["PATH"] == "/b"


def test_variables_are_not_words_of_a_shell():
    found = _read('#$ NVCC_PREPEND_FLAGS="-O1 -DPRE="a b""\n#$ gcc\n')
    assert found.variables == {"NVCC_PREPEND_FLAGS": '"-O1 -DPRE="a b""'}


def test_other_lines_are_messages_kept_as_they_are():
    found = read(b"nvcc warning : \xff old\nlast\r\n#$ gcc\n")
    assert isinstance(found, Transcript)
    assert found.messages == b"nvcc warning : \xff old\nlast\r\n"


def test_a_message_between_commands_is_not_explained():
    """It would have to be printed between the commands' output."""
    found = read(b"#$ gcc\nstep 1\n#$ gcc\n")
    assert isinstance(found, Bypass) and found.reason == "unexplained"


def test_what_nvcc_would_remove_is_kept():
    assert _read("#$ gcc\n#$ rm /tmp/a b.ptx\n").removed == ("/tmp/a b.ptx",)


def test_the_reference_to_the_directory_of_cicc_is_expanded():
    found = _read('#$ CICC_PATH=/cuda 13/bin\n#$ "$CICC_PATH/cicc" -arch compute_80\n')
    assert [step.argv for step in found.steps] == [("/cuda 13/bin/cicc", "-arch", "compute_80")]


def test_another_variable_in_a_command_is_left_to_a_shell():
    found = read(b'#$ CICC_PATH=/x\n#$ "$CICC_PATH/cicc" "$HOME"\n')
    assert isinstance(found, Bypass) and found.reason == "shell_expansion"


def test_removals_are_no_steps():
    assert [step.argv for step in _read("#$ gcc\n#$ rm /tmp/a b\n").steps] == [("gcc",)]


def test_the_dependency_step_keeps_blanks_of_its_path():
    step = _read("#$ gcc\n#$ -- Filter Dependencies -- > out/d p.d\n").steps[1]
    assert isinstance(step, DependencyStep)
    assert step.path == "out/d p.d"


def test_a_line_without_a_command_is_not_understood():
    found = read(b"#$ gcc\n#$  \n")
    assert isinstance(found, Bypass) and found.reason == "shell_expansion"


def test_a_carriage_return_ends_no_line():
    (command,) = _read("#$ gcc -DA\rB -c\n").steps
    assert command.argv == ("gcc", "-DA\rB", "-c")


def test_a_define_over_two_lines_is_not_understood():
    found = read(b'#$ gcc -D "A=1\n2" -c\n')
    assert isinstance(found, Bypass) and found.reason == "shell_expansion"


def test_names_that_are_not_utf8_come_through():
    (command,) = _read("").steps or read(b'#$ gcc "\xff.cu"\n').steps  # type: ignore[union-attr]
    assert os.fsencode(command.argv[1]) == b"\xff.cu"


@pytest.fixture
def fake_nvcc(tmp_path):
    """An nvcc that prints a given text, and shows its arguments."""

    def make(body: str) -> str:
        path = tmp_path / "nvcc"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return str(path)

    return make


def test_the_dry_run_is_asked_for_with_the_scratch_directory(fake_nvcc):
    nvcc = fake_nvcc('echo "#\\$ $*" >&2')
    found = dryrun.transcribe(nvcc, ["-c", "a.cu"], "/scratch", os.environ)
    assert isinstance(found, Transcript)
    assert [step.argv for step in found.steps] == [
        ("--dryrun", "-c", "a.cu", "-keep", "-keep-dir", "/scratch")
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo bad >&2; exit 1", "dryrun_failed"),
        ("kill -9 $$", "dryrun_failed"),
        ("echo hello", "unexplained"),
    ],
)
def test_a_dry_run_that_fails_or_says_something_else_is_no_transcript(fake_nvcc, body, reason):
    found = dryrun.transcribe(fake_nvcc(body), [], "/scratch", os.environ)
    assert isinstance(found, Bypass) and found.reason == reason


def test_a_variable_of_several_lines_is_not_read_from_the_transcript(fake_nvcc):
    nvcc = fake_nvcc('echo "#\\$ INCLUDES=$INCLUDES" >&2; echo "#\\$ gcc" >&2')
    found = dryrun.transcribe(nvcc, [], "/scratch", {**os.environ, "INCLUDES": "-Ia\n-Ib"})
    assert isinstance(found, Bypass) and found.reason == "shell_expansion"
