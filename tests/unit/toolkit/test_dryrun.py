"""The grammar of `nvcc --dryrun`, and the splitting of its commands, compared with a real shell."""

from __future__ import annotations

import os
import random
import subprocess

import pytest

from nvccache.commandline.invocation import Bypass
from nvccache.toolkit import dryrun
from nvccache.toolkit.dryrun import Command, DependencyStep, Transcript, read, split_words

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


def test_dry_run_lines_are_split_as_by_a_shell():
    generator = random.Random(20241121)
    lines = ["".join(generator.choices(PIECES, k=generator.randint(0, 12))) for _ in range(4000)]
    split = {line: argv for line in lines if (argv := split_words(line)) is not None}
    assert len(split) > 200
    assert _by_shell(list(split)) == list(split.values())


@pytest.mark.parametrize(
    "text",
    [
        *("$HOME", '"$HOME"', '"`id`"', "a;b", "a&", "a|b", "a>b", "a<b", "(a)", "a*", "a?", "[a]", "{a,b}"),
        *("~", "#a", "!", '"a', "'a", "'a\nb'", "a\\", 'a"b\\"', "a\nb", "a\\\nb", '"a\\\nb"'),
    ],
)
def test_dry_run_lines_with_shell_syntax_are_not_split(text):
    assert split_words(text) is None


def test_long_words_without_a_closing_quote_are_refused():
    assert split_words('"' + "ab" * 50_000) is None
    assert split_words('"' + '\\"a' * 50_000) is None
    assert split_words('"a"b' * 50_000 + '"') is None


def _read(text: str) -> Transcript:
    found = read(os.fsencode(text))
    assert isinstance(found, Transcript)
    return found


def test_a_transcript_has_variables_messages_steps_and_what_nvcc_would_remove():
    """No words of a shell are variables, nor what comes after the first command."""
    flags = 'NVCC_PREPEND_FLAGS="-O1 -DPRE="a b""'
    found = _read(
        "nvcc warning : \udcff old\nlast\r\n"
        f"#$ TOP=/old\n#$ TOP=/cuda\n#$ {flags}  \n#$ a=b c\n#$ gcc -c\n#$ A=1 gcc\n"
        "#$ -- Filter Dependencies -- > out/d p.d\n#$ rm /tmp/a b.ptx\n"
    )
    assert found.variables == {"TOP": "/cuda", "NVCC_PREPEND_FLAGS": f"{flags[19:]}  ", "a": "b c"}
    assert found.messages == b"nvcc warning : \xff old\nlast\r\n"
    assert found.steps == (Command(("gcc", "-c")), Command(("A=1", "gcc")), DependencyStep("out/d p.d"))
    assert found.removed == ("/tmp/a b.ptx",)


# Lines of a transcript, and the words of its one command.
COMMANDS = {
    "the directory of cicc": (
        '#$ CICC_PATH=/cuda 13/bin\n#$ "$CICC_PATH/cicc" -arch compute_80\n',
        ("/cuda 13/bin/cicc", "-arch", "compute_80"),
    ),
    "a carriage return ends no line": ("#$ gcc -DA\rB -c\n", ("gcc", "-DA\rB", "-c")),
    "a name that is not UTF-8": ('#$ gcc "\udcff.cu"\n', ("gcc", "\udcff.cu")),
}


@pytest.mark.parametrize(("text", "argv"), COMMANDS.values(), ids=COMMANDS)
def test_commands_of_a_dry_run_are_parsed(text, argv):
    (step,) = _read(text).steps
    assert step.argv == argv


NO_TRANSCRIPTS = {
    "a message between two commands": ("#$ gcc\nstep 1\n#$ gcc\n", "unexplained"),
    "another variable in a command": ('#$ CICC_PATH=/x\n#$ "$CICC_PATH/cicc" "$HOME"\n', "shell_expansion"),
    "a line without a command": ("#$ gcc\n#$  \n", "shell_expansion"),
    "a define over two lines": ('#$ gcc -D "A=1\n2" -c\n', "shell_expansion"),
}


@pytest.mark.parametrize(("text", "reason"), NO_TRANSCRIPTS.values(), ids=NO_TRANSCRIPTS)
def test_an_unparsable_dry_run_causes_a_bypass(text, reason):
    found = read(text.encode())
    assert isinstance(found, Bypass) and found.reason == reason


@pytest.fixture
def fake_nvcc(tmp_path):
    """An nvcc that prints a given text, and shows its arguments."""

    def make(body: str) -> str:
        path = tmp_path / "nvcc"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return str(path)

    return make


def test_nvccs_dry_run_is_requested_with_kept_files_in_the_scratch_directory(fake_nvcc):
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
