"""Runs `nvcc --dryrun` and parses its transcript.

Knows the syntax of the transcript, as found on CUDA 11.2 to 13.5: a line that begins with `#$ ` is a
variable, an internal step of nvcc, or the exact string that nvcc passes to `sh -c`. Any other line is a
message of the driver. Does not interpret commands.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Mapping, Sequence

from nvccache.commandline.invocation import Bypass
from nvccache.machine import process
from nvccache.machine.process import Completed
from nvccache.values import dataclass

_MARK = "#$ "
_FILTER = "-- Filter Dependencies --"
# Within double quotes, only `$`, the backtick, and a backslash before `$`, backtick, quote or backslash are
# special to a shell. Within single quotes, no character is special. Outside quotes, any character that _PLAIN
# excludes makes the shell do more than split words.
_QUOTED = r'"([^"\\$`]*(?:\\[^\n][^"\\$`]*)*)"'
_LITERAL = r"'([^'\n]*)'"
_ESCAPED = r"\\([^\n])"
_PLAIN = r"""[^ \t\n"\\$`;&|<>()*?\[\]{}~#!']+"""
_WORD = re.compile(rf"((?:{_PLAIN}|{_QUOTED}|{_LITERAL}|{_ESCAPED})+)[ \t]*")
_QUOTING = f"{_QUOTED}|{_LITERAL}|{_ESCAPED}"
_ESCAPE_IN_QUOTES = r'\\(["\\$`])'


@dataclass(frozen=True, slots=True)
class Command:
    """One command of the transcript, split as `sh` does."""

    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DependencyStep:
    """nvcc's internal step that writes the depfile, between preprocessing and compiling."""

    path: str


@dataclass(frozen=True, slots=True)
class Transcript:
    variables: dict[str, str]  # environment variables for all commands
    steps: tuple[Command | DependencyStep, ...]
    messages: bytes  # lines that the driver prints
    removed: tuple[str, ...] = ()  # files that nvcc would remove

    @property
    def variables_of_commands(self) -> dict[str, str]:
        """The variables that commands may read. Only nvcc reads those that begin with `NVCC_`."""
        return {name: value for name, value in self.variables.items() if not name.startswith("NVCC_")}


def transcribe(
    nvcc: str,
    arguments: Sequence[str],
    scratch: str,
    environ: Mapping[str, str],
    run: Callable[[Sequence[str], Mapping[str, str]], Completed] = process.run,
) -> Transcript | Bypass:
    """Run a dry run, with nvcc's intermediate files in `scratch`, and return its transcript.

    `-keep` gives intermediates stable names that show their roles.
    """
    argv = [nvcc, "--dryrun", *arguments, "-keep", "-keep-dir", scratch]
    completed = run(argv, environ)
    if completed.status != 0:
        return Bypass("dryrun_failed", f"status {completed.status}")
    if completed.stdout:
        return Bypass("unexplained", "the dry run wrote to standard output")
    transcript = read(completed.stderr)
    if isinstance(transcript, Transcript):
        for name in transcript.variables:
            if "\n" in environ.get(name, ""):
                return Bypass("shell_expansion", name)  # the transcript contains only the first line
    return transcript


def read(stderr: bytes) -> Transcript | Bypass:
    """Parse what a dry run wrote to stderr."""
    variables: dict[str, str] = {}
    steps: list[Command | DependencyStep] = []
    messages: list[bytes] = []
    removed: list[str] = []
    for raw_line in io.BytesIO(stderr):  # unlike `splitlines`, this splits only at line feeds
        line = os.fsdecode(raw_line)
        if not line.startswith(_MARK):
            if steps:  # a replay would not know between which commands to print it
                return Bypass("unexplained", f"nvcc prints a message between commands: {line.strip()}")
            messages.append(raw_line)
            continue
        body = line[len(_MARK) :].rstrip("\n")
        name, equals, value = body.partition("=")
        if not steps and equals and name.isidentifier():
            variables[name] = value
        elif body.startswith("rm "):
            removed.append(body.removeprefix("rm "))  # nvcc removes these without a command
        elif body.startswith(_FILTER):
            steps.append(DependencyStep(body[len(_FILTER) :].removeprefix(" > ")))
        else:
            argv = split_words(_expand_cicc(body, variables))
            if not argv:
                return Bypass("shell_expansion", body)
            steps.append(Command(tuple(argv)))
    return Transcript(variables, tuple(steps), b"".join(messages), tuple(removed))


def _expand_cicc(body: str, variables: Mapping[str, str]) -> str:
    """Expand the only variable that commands of nvcc contain (13.x: `"$CICC_PATH/cicc"`)."""
    reference = '"$CICC_PATH/'
    if body.startswith(reference) and "CICC_PATH" in variables:
        return f'"{variables["CICC_PATH"]}/{body[len(reference) :]}'
    return body


def split_words(text: str) -> list[str] | None:
    """Split a command line as `sh` does; None if `sh` would do more than split it."""
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
        return re.sub(_QUOTING, _plain, word)
    return word.replace('"', "") if '"' in word else word


def _plain(match: re.Match[str]) -> str:
    quoted, literal, escaped = match.groups()
    if quoted is None:
        return literal if escaped is None else escaped
    # Within double quotes, a backslash is ordinary, except before a character of _ESCAPE_IN_QUOTES.
    return re.sub(_ESCAPE_IN_QUOTES, r"\1", quoted)
