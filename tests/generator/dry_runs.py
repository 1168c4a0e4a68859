"""What plain nvcc's dry run says, read without any of nvccache's code: a shell splits the commands.

Names of temporary files are replaced by numbers in the order in which they occur, so that dry runs with
different temporary files can be compared.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

MARK = b"#$ "
_VARIABLE = re.compile(rb"([A-Za-z_]\w*)=(.*)\Z", re.DOTALL)
_FILTER = b"-- Filter Dependencies --"
_REDIRECTED = re.compile(rb'tmpxft_\S+_stderr"?\s*$', re.MULTILINE)
_NAME = r'(?P<name>.*?)(?="?\Z)'  # to the end of the word, or the quote there
# These name a temporary file without its directory.
_NAMING = ("--stub_file_name", "--include_file_name", "--include_alt_file_name")
_SIZE = b"words-of-a-command"


@dataclasses.dataclass(frozen=True)
class DryRun:
    """A dry run of plain nvcc's.

    `is_scattered` says that -t has several commands run at once: their lines are then in any order, and run
    into each other.
    """

    status: int
    stdout: bytes
    messages: bytes
    variables: dict[str, str]
    lines: tuple[bytes, ...]  # the commands, as a shell gets them
    dependency_files: tuple[str, ...]
    is_scattered: bool


def ask(
    nvcc: str, arguments: Sequence[str], environ: Mapping[str, str], directory: Path, temporary: Path
) -> DryRun:
    """The dry run of these very arguments."""
    done = subprocess.run(
        [nvcc, "--dryrun", *arguments],
        cwd=directory,
        env={**environ, "TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    variables: dict[str, str] = {}
    lines: list[bytes] = []
    filters: list[str] = []
    messages = b""
    for raw in re.findall(rb"[^\n]*\n|[^\n]+\Z", done.stderr):
        if not raw.startswith(MARK):
            messages += raw
            continue
        line = raw[len(MARK) :].rstrip(b"\n")
        variable = _VARIABLE.match(line)
        if variable and not lines and not filters:
            variables[variable[1].decode()] = os.fsdecode(variable[2])
        elif line.startswith(_FILTER):
            filters.append(os.fsdecode(line[len(_FILTER) :].removeprefix(b" > ")))
        elif not line.startswith(b"rm "):
            lines.append(line)
    is_scattered = _REDIRECTED.search(done.stderr) is not None
    return DryRun(
        done.returncode, done.stdout, messages, variables, tuple(lines), tuple(filters), is_scattered
    )


def split_by_shell(run: DryRun, directory: Path) -> list[tuple[str, ...]]:
    """The words that `sh` makes of each command."""
    printing = b"\nprintf '%s\\0' " + _SIZE + b' "$#" "$@"\n'
    script = b"".join(b"set -- " + line + printing for line in run.lines)
    environ = {**run.variables, "PATH": "/nonexistent"}
    # Standard input, since a script can be longer than an argument may be.
    done = subprocess.run(
        ["/bin/sh", "-s"], cwd=directory, env=environ, input=script, capture_output=True, check=False
    )
    argv = os.fsdecode(done.stdout).split("\0")[:-1]
    found = []
    while argv:
        assert argv[0] == os.fsdecode(_SIZE), done.stderr
        size = int(argv[1])
        found.append(tuple(argv[2 : 2 + size]))
        argv = argv[2 + size :]
    return found


class TemporaryNames:
    """Numbers in place of the names that temporary files have in one dry run.

    `pattern` finds a temporary file's path in a word; its group `name` tells files apart.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern, re.DOTALL)
        self._numbers: dict[str, int] = {}

    @classmethod
    def of_nvcc(cls, temporary: Path) -> TemporaryNames:
        return cls(rf"(?:{re.escape(str(temporary))}/)?tmpxft_[0-9a-f]{{8}}_[0-9a-f]{{8}}-{_NAME}")

    @classmethod
    def within(cls, directory: str) -> TemporaryNames:
        return cls(rf"{re.escape(directory)}/{_NAME}")

    def numbered(self, command: Sequence[str]) -> tuple[str, ...]:
        """The command's words; call it for each command of a dry run, in order."""
        found = []
        naming = False
        for word in command:
            if naming and not self._pattern.search(word):
                found.append(self._number(word))
            else:
                found.append(self._pattern.sub(lambda match: self._number(match["name"]), word))
            naming = word in _NAMING
        return tuple(found)

    def _number(self, name: str) -> str:
        return f"<{self._numbers.setdefault(name, len(self._numbers))}>"
