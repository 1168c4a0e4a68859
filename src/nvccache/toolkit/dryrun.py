"""The transcript of `nvcc --dryrun`: asking for it, and reading it.

Owns the grammar of the transcript, as observed on CUDA 11.2 to 13.5. Each line that begins with
`#$ ` is a variable, an internal step of nvcc, or the very string that nvcc hands to `sh -c`; every
other line is a message of the driver. What a command means is not known here.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Mapping, Sequence

from nvccache.commandline.invocation import Bypass, Invocation
from nvccache.environment import OF_ARGUMENTS
from nvccache.machine import process
from nvccache.machine.process import Completed
from nvccache.machine.watchdog import SCRATCH_VARIABLE
from nvccache.values import dataclass

_MARK = "#$ "
_FILTER = "-- Filter Dependencies --"
# In quotes a shell heeds `$` and the backtick, and a backslash only before these two, a quote or another
# backslash; between apostrophes it heeds nothing. Unquoted, each of the characters left out of _PLAIN makes
# it do more than split words.
_QUOTED = r'"([^"\\$`]*(?:\\[^\n][^"\\$`]*)*)"'
_LITERAL = r"'([^'\n]*)'"
_ESCAPED = r"\\([^\n])"
_PLAIN = r"""[^ \t\n"\\$`;&|<>()*?\[\]{}~#!']+"""
_WORD = re.compile(rf"((?:{_PLAIN}|{_QUOTED}|{_LITERAL}|{_ESCAPED})+)[ \t]*")
_QUOTING = re.compile(f"{_QUOTED}|{_LITERAL}|{_ESCAPED}")
_ESCAPE_IN_QUOTES = re.compile(r'\\(["\\$`])')


@dataclass(frozen=True, slots=True)
class Command:
    """One command of the transcript, split into words as `sh` splits them."""

    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DependencyStep:
    """nvcc's own step between the preprocessors and the compilers: write the dependency file."""

    path: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """What nvcc would do."""

    variables: dict[str, str]  # set for every command
    steps: tuple[Command | DependencyStep, ...]
    messages: bytes  # the driver's own lines
    removed: tuple[str, ...] = ()  # files that it would remove

    @property
    def variables_of_commands(self) -> dict[str, str]:
        """The variables but for those that only nvcc itself reads."""
        return {name: value for name, value in self.variables.items() if not name.startswith("NVCC_")}


def of_invocation(
    nvcc: str,
    invocation: Invocation,
    environ: Mapping[str, str],
    scratch: str,
    run: Callable[[Sequence[str], Mapping[str, str]], Completed] = process.run,
) -> Transcript | Bypass:
    """Ask nvcc what it would do for a call."""
    environ = {**environ, SCRATCH_VARIABLE: scratch}
    if invocation.replaces_variables:
        environ = {name: value for name, value in environ.items() if name not in OF_ARGUMENTS}
    return transcribe(nvcc, invocation.dryrun_arguments, scratch, environ, run)


def transcribe(
    nvcc: str,
    arguments: Sequence[str],
    scratch: str,
    environ: Mapping[str, str],
    run: Callable[[Sequence[str], Mapping[str, str]], Completed] = process.run,
) -> Transcript | Bypass:
    """Ask nvcc what it would do for these arguments, with its intermediate files in `scratch`.

    `-keep` gives intermediates names that tell their roles and do not change from run to run.
    """
    argv = [nvcc, "--dryrun", *arguments, "-keep", "-keep-dir", scratch]
    # So that what it leaves behind when it is killed goes with the directory.
    completed = run(argv, {**environ, "TMPDIR": scratch})
    if completed.status != 0:
        return Bypass("dryrun_failed", f"status {completed.status}")
    if completed.stdout:
        return Bypass("unexplained", "the dry run wrote to standard output")
    transcript = read(completed.stderr)
    if isinstance(transcript, Transcript):
        for name in transcript.variables:
            if "\n" in environ.get(name, ""):
                return Bypass("shell_expansion", name)  # the transcript has lost what follows the first line
    return transcript


def read(stderr: bytes) -> Transcript | Bypass:
    """Read what a dry run wrote to its standard error."""
    variables: dict[str, str] = {}
    steps: list[Command | DependencyStep] = []
    messages: list[bytes] = []
    removed: list[str] = []
    for raw_line in io.BytesIO(stderr):  # a carriage return ends no line
        line = os.fsdecode(raw_line)
        if not line.startswith(_MARK):
            if steps:  # between which commands nvcc would say it is not known
                return Bypass("unexplained", f"a message between commands: {line.strip()}")
            messages.append(raw_line)
            continue
        body = line[len(_MARK) :].rstrip("\n")
        name, equals, value = body.partition("=")
        if not steps and equals and name.isidentifier():
            variables[name] = value
        elif body.startswith("rm "):
            removed.append(body.removeprefix("rm "))  # nvcc unlinks these itself
        elif body.startswith(_FILTER):
            steps.append(DependencyStep(body[len(_FILTER) :].removeprefix(" > ")))
        else:
            argv = split_words(_expand_cicc(body, variables))
            if not argv:
                return Bypass("shell_expansion", body)
            steps.append(Command(tuple(argv)))
    return Transcript(variables, tuple(steps), b"".join(messages), tuple(removed))


def _expand_cicc(body: str, variables: Mapping[str, str]) -> str:
    """Replace the one variable reference that nvcc itself writes (13.x: `"$CICC_PATH/cicc"`)."""
    reference = '"$CICC_PATH/'
    if body.startswith(reference) and "CICC_PATH" in variables:
        return f'"{variables["CICC_PATH"]}/{body[len(reference) :]}'
    return body


def split_words(text: str) -> list[str] | None:
    """The words `sh` makes of a command line, or None if it would do more than split it."""
    argv = []
    position = len(text) - len(text.lstrip(" \t"))
    while position < len(text):
        match = _WORD.match(text, position)
        if not match:
            return None
        argv.append(_without_quotes(match.group(1)))
        position = match.end()
    return argv


def _without_quotes(word: str) -> str:
    if "\\" in word or "'" in word:
        return _QUOTING.sub(_plain, word)
    return word.replace('"', "") if '"' in word else word


def _plain(match: re.Match[str]) -> str:
    quoted, literal, escaped = match.groups()
    if quoted is None:
        return literal if escaped is None else escaped
    # Between quotes a backslash is an ordinary character, except before these.
    return _ESCAPE_IN_QUOTES.sub(r"\1", quoted)
