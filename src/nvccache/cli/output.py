"""The output of commands: prints lines, with control characters escaped.

No other module writes to a command's streams, since printed text may come from untrusted records, file names
and variables. Formats sizes and times, and parses options such as `--since`. Text is coloured on terminals;
JSON is for scripts. If output cannot be written, OutputError ends the command with one sentence.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import sys
import textwrap
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import IO

import click

from nvccache.config import ConfigError, parse_size
from nvccache.log import printable

Part = str | tuple[str, str]  # a part of a line: text, or (text, colour)

GREEN, YELLOW, RED = "green", "yellow", "red"
GOOD, ODD, BAD = "ok", "note", "bad"  # states of a Finding
_COLOURS = {GOOD: GREEN, ODD: YELLOW, BAD: RED}

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")


class Failure(click.ClickException):
    """A command failed: one sentence, and optionally a hint on a line of its own."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def show(self, file: IO[str] | None = None) -> None:
        for head, text in ((("Error: ", RED), self.message), (("Hint: ", YELLOW), self.hint)):
            if text:
                _warn(head, text)


class WrongUsage(Failure):
    """A wrong command line; by default the hint refers to the help."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "", ctx: click.Context | None = None) -> None:
        ctx = ctx or click.get_current_context(silent=True)
        path = ctx.command_path if ctx else "nvccache"
        super().__init__(message, hint or f"see `{path} --help`")


class OutputError(Failure):
    """The output could not be written; the command itself has succeeded."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write the output: {error.strerror or error}")
        self.is_unread = error.errno == errno.EPIPE

    @property
    def status(self) -> int:
        """The exit status: 1, or what shells report for SIGPIPE if nobody reads the output (`| head`)."""
        return 128 + signal.SIGPIPE if self.is_unread else self.exit_code

    def show(self, file: IO[str] | None = None) -> None:
        if not self.is_unread:
            super().show(file)


def say(*lines: str) -> None:
    """Print lines without colours."""
    for line in lines:
        say_parts(line)


def say_parts(*parts: Part) -> None:
    """Print one line of parts; (text, colour) is coloured if the terminal and its user allow it."""
    try:
        _echo(*parts)
    except OSError as error:
        raise OutputError(error) from None


def say_json(document: object) -> None:
    """Print one JSON object, in ASCII, so that it does not depend on the locale."""
    say(*json.dumps(document, indent=2).splitlines())


def warn(*lines: str) -> None:
    """Print lines to standard error."""
    for line in lines:
        _warn(f"nvccache: {line}")


def _warn(*parts: Part) -> None:
    with contextlib.suppress(OSError):  # if stderr cannot be written to, the message is lost
        _echo(*parts, err=True)


def _echo(*parts: Part, err: bool = False) -> None:
    coloured = [part if isinstance(part, tuple) else (part, "") for part in parts]
    line = "".join(
        click.style(printable(text), fg=colour, bold=True) if colour else printable(text)
        for text, colour in coloured
    )
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
    click.echo(line, err=err, color=False if is_plain else None)  # None: colours on terminals


def wrapped(line: str) -> list[str]:
    """On a terminal, the line wrapped at 80 columns or less; elsewhere, such as for grep, the whole line."""
    if not (width := _width()):
        return [line]
    wrapper = textwrap.TextWrapper(width, subsequent_indent="    ", break_long_words=False)
    wrapper.break_on_hyphens = False
    return wrapper.wrap(printable(line))


def _width() -> int:
    return min(80, shutil.get_terminal_size().columns) if sys.stdout.isatty() else 0


def write_file(path: str, text: str) -> None:
    """Write a file, or to standard output if the path is `-`; raises Failure."""
    try:
        with click.open_file(path, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
    except (OSError, RuntimeError) as error:  # click raises RuntimeError for a closed stream
        raise write_failure(path, error) from None


def write_failure(path: str, error: Exception) -> Failure:
    return Failure(f"cannot write `{path}`: {getattr(error, 'strerror', None) or error}")


@dataclass(frozen=True)
class Finding:
    """One result of `nvccache doctor` and `nvccache remote`."""

    state: str  # GOOD, ODD or BAD
    topic: str
    text: str
    details: tuple[str, ...] = ()  # lines
    fix: tuple[str, ...] = ()  # command lines, each of which fixes it


def show_findings(findings: Iterable[Finding], as_json: bool) -> None:
    """Print each finding as soon as it is known; exits with status 1 if one is bad."""
    found = []
    for finding in findings:
        found.append(finding)
        if as_json:
            continue
        head = f"{finding.state:<5}", _COLOURS[finding.state]
        say_parts(head, f" {finding.topic:<14} {finding.text}")
        lines = [*finding.details, *(f"to fix it: `{command}`" for command in finding.fix)]
        # Further lines may quote any text. Indented, none of them can pass for the first line of a finding.
        say(*[" " * 21 + line for line in lines])
    is_bad = any(finding.state == BAD for finding in found)
    if as_json:
        say_json({"findings": [asdict(finding) for finding in found], "is_bad": is_bad})
    if is_bad:
        sys.exit(1)


LAST_BUILD = "last-build"
_ALL = "all"
SINCE_HELP = f"Count only calls since WHEN: an age such as `2h`, a date and time, `{LAST_BUILD}` or `{_ALL}`."
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_BYTE_UNITS = ("KiB", "MiB", "GiB", "TiB")


def size_option(_: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Callback of an option that takes a size such as `10G`; returns bytes."""
    try:
        size = None if value is None else parse_size(value)
    except ConfigError as error:
        raise click.BadParameter(str(error), param=param) from None
    if size == 0:
        raise click.BadParameter(f"`{value}` would mean no limit; `--all` removes everything", param=param)
    return size


def age_option(_: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Callback of an option that takes a duration such as `30d`; returns seconds."""
    if value is None:
        return None
    seconds = _seconds_of(value)
    if seconds is None:
        raise click.BadParameter(f"`{value}` is not an age such as `30d`, `12h` or `90m`", param=param)
    return seconds


def since_option(_: click.Context, param: click.Parameter, value: str | None) -> float | str | None:
    """Callback of `--since`; returns a Unix time, LAST_BUILD, or None for all calls."""
    if value in (None, _ALL, LAST_BUILD):
        return None if value == _ALL else value
    seconds = _seconds_of(value)
    if seconds is not None:
        return time.time() - seconds
    try:
        return datetime.fromisoformat(value).timestamp()
    except (ValueError, OverflowError, OSError):
        forms = f"an age such as `2h`, a date such as `2026-11-01T09:00`, `{LAST_BUILD}` or `{_ALL}`"
        raise click.BadParameter(f"`{value}` is not {forms}", param=param) from None


def _seconds_of(age: str) -> float | None:
    found = re.fullmatch(r"([0-9]{1,9})([smhdw])", age.strip().lower())
    return float(int(found[1]) * _SECONDS[found[2]]) if found else None


def format_size(size: int) -> str:
    """Bytes as a text: `1536` -> `1.5 KiB`."""
    if size < 1024:
        return f"{size} bytes" if size != 1 else "1 byte"
    amount = float(size)
    for unit in _BYTE_UNITS:
        amount /= 1024
        if amount < 1024 or unit == _BYTE_UNITS[-1]:
            break
    return f"{amount:.1f} {unit}"


def format_seconds(seconds: float) -> str:
    """A duration as a text: `0.0123` -> `12 ms`, `3.14159` -> `3.14 s`, `7384.0` -> `2 h 3 min`."""
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms" if seconds >= 0.0005 else "0 s"
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes = int(seconds) // 60
    if minutes < 60:
        return f"{minutes} min {int(seconds) % 60} s"
    return f"{minutes // 60} h {minutes % 60} min"


def relative_path(path: str) -> str:
    """The path, relative to the working directory if it lies below it."""
    return path.removeprefix(os.path.join(os.getcwd(), ""))


def format_ago(seconds: float) -> str:
    """An age in seconds as a text: `63.4` -> `63 s ago`."""
    if seconds < 2:
        return "just now"
    if seconds < 86400:
        return f"{format_seconds(int(seconds)).replace('.00', '')} ago"
    return f"{format_count(int(seconds // 86400), 'day')} ago"


def format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_time(unix_time: float, form: str = "%Y-%m-%d %H:%M") -> str:
    """A time as a text in local time, by default such as `2026-11-01 09:12`."""
    try:
        return datetime.fromtimestamp(unix_time).strftime(form)
    except (ValueError, OverflowError, OSError):
        return "an unknown time"
