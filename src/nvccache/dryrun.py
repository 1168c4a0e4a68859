"""The transcript of `nvcc --dryrun`: asking for it, and reading it.

Owns the grammar of the transcript, as observed on CUDA 11.2 to 13.5. Each line that begins with
`#$ ` is a variable, an internal step of nvcc, or the very string that nvcc hands to `sh -c`; every
other line is a message of the driver. What a command means is not known here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from nvccache import process
from nvccache.invocation import Bypass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MARK = "#$ "
_FILTER = "-- Filter Dependencies --"
# Unquoted, these make a shell do more than split words.
_SHELL_SPECIALS = frozenset("$`;&|<>()*?[]{}~#!'\n")


@dataclass(frozen=True, slots=True)
class Command:
    """One command of the transcript, split into words as `sh` splits them."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DependencyStep:
    """nvcc's own step between the preprocessors and the compilers: write the dependency file."""

    path: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """What nvcc would do: `variables` are set for every command; `messages` are the driver's own lines."""

    variables: dict[str, str]
    steps: tuple[Command | DependencyStep, ...]
    messages: bytes


def transcribe(
    nvcc: str, arguments: Sequence[str], scratch: str, environ: Mapping[str, str]
) -> Transcript | Bypass:
    """Ask nvcc what it would do for these arguments, with its intermediate files in `scratch`.

    `-keep` gives intermediates names that tell their roles and do not change from run to run.
    """
    words = [nvcc, "--dryrun", *arguments, "-keep", "-keep-dir", scratch]
    completed = process.run(words, environ)
    if completed.status != 0:
        return Bypass("dryrun_failed", f"status {completed.status}")
    if completed.stdout:
        return Bypass("unexplained", "the dry run wrote to standard output")
    return read(completed.stderr)


def read(stderr: bytes) -> Transcript | Bypass:
    """Read what a dry run wrote to its standard error."""
    variables: dict[str, str] = {}
    steps: list[Command | DependencyStep] = []
    messages: list[bytes] = []
    for raw_line in stderr.splitlines(keepends=True):
        line = os.fsdecode(raw_line)
        if not line.startswith(_MARK):
            messages.append(raw_line)
            continue
        body = line[len(_MARK) :].rstrip("\n")
        name, equals, value = body.partition("=")
        if not steps and equals and name.isidentifier():
            variables[name] = value
        elif body.startswith("rm "):
            continue  # nvcc unlinks these itself; our scratch directory goes as a whole
        elif body.startswith(_FILTER):
            steps.append(DependencyStep(body[len(_FILTER) :].removeprefix(" > ")))
        else:
            words = split_words(_expand_cicc(body, variables))
            if not words:
                return Bypass("shell_expansion", body)
            steps.append(Command(tuple(words)))
    return Transcript(variables, tuple(steps), b"".join(messages))


def _expand_cicc(body: str, variables: Mapping[str, str]) -> str:
    """Replace the one variable reference that nvcc itself writes (13.x: `"$CICC_PATH/cicc"`)."""
    reference = '"$CICC_PATH/'
    if body.startswith(reference) and "CICC_PATH" in variables:
        return f'"{variables["CICC_PATH"]}/{body[len(reference) :]}'
    return body


def split_words(text: str) -> list[str] | None:
    """The words `sh` makes of a command line, or None if it would do more than split it."""
    words: list[str] = []
    word: list[str] = []
    in_word = quoted = False
    characters = iter(text)
    for character in characters:
        if character == '"':
            quoted = not quoted
            in_word = True
        elif character == "\\":
            follower = next(characters, None)
            if follower is None:
                return None
            if quoted and follower not in '"\\$`':
                word.append(character)  # between quotes a backslash is an ordinary character
            word.append(follower)
            in_word = True
        elif quoted and character not in "$`":
            word.append(character)
        elif character in _SHELL_SPECIALS or quoted:
            return None
        elif character in " \t":
            if in_word:
                words.append("".join(word))
                word.clear()
            in_word = False
        else:
            word.append(character)
            in_word = True
    if in_word:
        words.append("".join(word))
    return None if quoted else words
