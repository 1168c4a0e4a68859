"""The output of commands: prints lines, with control characters escaped.

No other module writes to a command's streams, since printed text may come from untrusted records, file names
and variables. Text is coloured on terminals; JSON is for scripts; output files are replaced atomically;
progress is only shown if standard error is a terminal. Failing to write ends the command with one sentence,
see `OutputError`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import click

from nvccache.log import printable

if TYPE_CHECKING:
    from rich.progress import Progress

OnProgress = Callable[[int, int], None]  # (done, of how many)
Part = str | tuple[str, str]  # of a line: text, or (text, colour)

PATIENCE = 0.4  # seconds after which a progress bar is shown
GREEN, YELLOW, RED = "green", "yellow", "red"
GOOD, ODD, BAD = "ok", "note", "bad"  # states of what `doctor` finds
_COLOURS = {GOOD: GREEN, ODD: YELLOW, BAD: RED}
_TOPIC_WIDTH = 14

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
    """The output could not be written; the command has done its work."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write the output: {error.strerror or error}")
        self.is_unread = error.errno == errno.EPIPE

    @property
    def status(self) -> int:
        """With `| head`, the status that shells report for a program killed by SIGPIPE."""
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
    with contextlib.suppress(OSError):  # there is nowhere else to report it
        _echo(*parts, err=True)


def _echo(*parts: Part, err: bool = False) -> None:
    stream = sys.stderr if err else sys.stdout
    is_coloured = has_colours(stream)
    encoding = (stream.encoding if stream else None) or "utf-8"
    line = ""
    for part in parts:
        text, colour = part if isinstance(part, tuple) else (part, "")
        text = printable(text).encode(encoding, "backslashreplace").decode(encoding)
        line += click.style(text, fg=colour, bold=True) if colour and is_coloured else text
    click.echo(line, err=err, color=is_coloured)


def has_colours(stream: IO[str] | None) -> bool:
    """Whether to colour a stream: as set by variables, NO_COLOR first, else if it is a colour terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    if os.environ.get("CLICOLOR") == "0" or os.environ.get("TERM", "dumb") == "dumb":
        return False
    return is_terminal(stream)


def is_terminal(stream: IO[str] | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def bar(title: str, is_long: bool = False) -> Iterator[OnProgress]:
    """Yield a function that shows progress, if standard error is a terminal.

    If `is_long`, the bar appears at once, even if the function is never called.
    """
    if not is_terminal(sys.stderr) or os.environ.get("TERM", "dumb") == "dumb":
        yield lambda done, total: None
        return
    started = time.monotonic()
    shown = _drawn(title) if is_long else None

    def on_progress(done: int, total: int) -> None:
        nonlocal shown
        if shown is None and time.monotonic() - started >= PATIENCE:
            shown = _drawn(title)
        if shown is not None:
            shown.update(shown.task_ids[0], completed=done, total=total)

    try:
        yield on_progress
    finally:
        if shown is not None:
            shown.stop()


def _drawn(title: str) -> Progress:
    """A visible bar of unknown length."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(file=sys.stderr, no_color=not has_colours(sys.stderr), highlight=False, emoji=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    shown = Progress(*columns, console=console, transient=True)
    shown.add_task(title, total=None)
    shown.start()
    return shown


@contextlib.contextmanager
def replacing(path: str, mode: int | None = None) -> Iterator[IO[bytes]]:
    """A new file that replaces `path` when complete, so that a full disk leaves the old file intact.

    By default it gets the mode of any new file. Raises OSError.
    """
    import tempfile  # takes longer than all other imports of `--version`

    descriptor, new = tempfile.mkstemp(prefix=".nvccache-", dir=os.path.dirname(path) or ".")
    try:
        with open(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(descriptor)
        if mode is None:
            umask = os.umask(0o077)
            os.umask(umask)
            mode = 0o666 & ~umask
        os.chmod(new, mode)
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        raise


def replace_file(path: str, content: str) -> None:
    """Replace a file atomically; raises Failure.

    Devices, pipes and the targets of links are written to directly; `-` is standard output.
    """
    try:
        with _opened(path) as stream:
            stream.write(content.encode("utf-8", "backslashreplace"))
    except OSError as error:
        what = "no process reads this pipe" if error.errno == errno.ENXIO else error.strerror or error
        raise Failure(f"cannot write `{path}`: {what}") from None
    except RuntimeError:  # from click, for a closed stream
        raise Failure("standard output is closed") from None


def _opened(path: str) -> contextlib.AbstractContextManager[IO[bytes]]:
    if path == "-":
        return click.open_file(path, "wb")
    if not os.path.lexists(path) or stat.S_ISREG(os.lstat(path).st_mode):
        return replacing(path)
    # Opening a pipe without a reader would block.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    os.set_blocking(descriptor, True)
    return open(descriptor, "wb")


@dataclass(frozen=True)
class Finding:
    """One result of `nvccache doctor`."""

    state: str  # GOOD, ODD or BAD
    topic: str
    text: str
    details: tuple[str, ...] = ()  # lines
    mend: tuple[str, ...] = ()  # command lines, any one of which fixes it


def show_finding(finding: Finding) -> None:
    state = (f"{finding.state:<5}", _COLOURS[finding.state])
    say_parts(state, f" {finding.topic:<{_TOPIC_WIDTH}} {finding.text}")
    lines = [*finding.details, *(f"to fix it: `{command}`" for command in finding.mend)]
    # Only the first line begins with a state; the others may quote any text, and are indented.
    say(*[f"{'':<5} {'':<{_TOPIC_WIDTH}} {line}" for line in lines])
