"""What a page of the documentation has a reader type, and running it as the reader would.

Of the fenced blocks of a page

    ```LANGUAGE title="NAME"    is a file, written when it is reached
    ```sh                       are commands, which must succeed
    ```console                  are commands after `$ `, and what they print; `...` matches any lines, or
                                the rest of a line

Commands that tests cannot run are in a section that begins with the comment `<!-- not-run -->`, and
docs/development/testing.md says how they were checked; files in such a section are not written. Amounts
(seconds, sizes, shares) and dates differ from run to run and are not compared, counts are.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

NOT_RUN = "<!-- not-run -->"
_FENCE = re.compile(r"```([\w+-]+)(?: title=\"([^\"]+)\")?\s*$")
_UNIT = r" ?(?:(?:ms|s|min|h|bytes|files|[kKMGT]i?B)(?!\w)|%)"
_AMOUNT = re.compile(rf"(?<![\w.])-?\d[\d,]*(?:\.\d+(?:{_UNIT})?|{_UNIT})")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?|\bjust now\b|\b\d+ \w+ ago\b")
_DONE = "@@done@@"


@dataclasses.dataclass
class Block:
    """A fenced block: its language, the file that it is (or empty), its lines, and where they begin."""

    language: str
    title: str
    lines: list[str]
    line: int
    is_run: bool

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)


@dataclasses.dataclass
class Command:
    """A command line as typed, perhaps of several lines, what the page shows of its output, and where."""

    typed: str
    shown: list[str]
    line: int


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    level, not_run_below = 0, 9  # of headings; a section that is not run ends with the next one of its level
    begun: Block | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if begun:
            if line == "```":
                yield begun
                begun = None
            else:
                begun.lines.append(line)
        elif line.startswith("```"):
            found = _FENCE.match(line)
            assert found, f"line {number}: a fence names a language, and perhaps a title: {line}"
            begun = Block(found[1], found[2] or "", [], number + 1, is_run=not_run_below > level)
        elif line.startswith("#"):
            level = len(line) - len(line.lstrip("#"))
            not_run_below = not_run_below if level > not_run_below else 9
        elif line.startswith(NOT_RUN):
            not_run_below = level
    assert not begun, "a fence is not closed"


def commands(block: Block) -> list[Command]:
    """The commands of a block, one after the other."""
    if block.language == "sh":
        return [Command(block.text, ["..."], block.line)]
    found: list[Command] = []
    for number, line in enumerate(block.lines, block.line):
        if line.startswith("$ "):
            found.append(Command(line[2:], [], number))
        elif line.startswith("> ") and found and not found[-1].shown:
            found[-1].typed += f"\n{line[2:]}"
        else:
            assert found, f"line {number}: output before a command"
            found[-1].shown.append(line)
    return found


def steps(text: str) -> list[Block | Command]:
    """What is done for a page: files to write and commands to run."""
    found: list[Block | Command] = []
    for block in blocks(text):
        if not block.is_run:
            continue
        if block.title:
            found.append(block)
        elif block.language in ("sh", "console"):
            found += commands(block)
    return found


def run(text: str, directory: Path, environ: Mapping[str, str]) -> list[tuple[Command, list[str]]]:
    """Do what a page says in one shell; each command with the lines that it printed."""
    found = steps(text)
    typed = [step for step in found if isinstance(step, Command)]
    if not typed:
        return []
    done = subprocess.run(
        ["bash", "-c", _script(found)],
        cwd=directory,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    parts = done.stdout.split(f"{_DONE}\n")
    failed = typed[min(len(parts), len(typed)) - 1]
    assert not done.returncode, f"line {failed.line}: `{failed.typed.strip()}` failed:\n{parts[-1]}"
    outputs = [part.replace(environ["HOME"], "/home/you").splitlines() for part in parts]
    return list(zip(typed, outputs, strict=False))


def _script(found: list[Block | Command]) -> str:
    lines = ["set -e"]
    for step in found:
        if isinstance(step, Block):
            lines += [f'mkdir -p "$(dirname {step.title})"', f"cat >{step.title} <<'@@end@@'"]
            lines += [*step.lines, "@@end@@"]
        else:
            # A reader does not type so fast that a file is as new as the compile that reads it.
            lines += ["sleep 0.1", step.typed, f"printf '%s\\n' {_DONE}"]
    return "\n".join(lines) + "\n"


def is_shown(shown: list[str], printed: list[str]) -> bool:
    """Whether a page shows what was printed, except for amounts and what `...` matches."""
    pattern = ""
    for line in _comparable(shown):
        start, dots, _ = line.partition("...")
        pattern += r"(?:.*\n)*?" if line == "..." else re.escape(start) + (".*" if dots else "") + r"\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _comparable(printed))) is not None


def _comparable(lines: list[str]) -> list[str]:
    """Lines without amounts and the width of columns, which depends on them."""
    stripped = [re.sub(r"\s+", " ", _AMOUNT.sub("#", _TIME.sub("#", line))).strip() for line in lines]
    while stripped and not stripped[-1]:
        stripped.pop()
    return stripped


def with_outputs(text: str, outputs: list[tuple[Command, list[str]]]) -> str:
    """The page with what its commands printed in place of what it shows and they did not print."""
    lines = text.splitlines()
    for command, printed in reversed(outputs):
        if not is_shown(command.shown, printed):
            at = command.line + command.typed.count("\n")
            lines[at : at + len(command.shown)] = printed
    return "\n".join(lines) + "\n"
