"""How the commands print: line by line, each with nothing in it that a terminal would obey.

The only module that writes to a stream of a command: what is printed comes from records, file names and
variables, and so from others. Text is for people and may have colours on a terminal; JSON is for scripts.
What cannot be printed ends the command in one sentence, see `OutputError`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys

import click

from nvccache.escaping import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    from rich.console import Console

GREEN, YELLOW, RED, BOLD = "green", "yellow", "red", "bold"

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")


class OutputError(click.ClickException):
    """What a command had to say could not be written; whatever it did is done."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write the output: {error.strerror or error}")
        self.is_unread = error.errno == errno.EPIPE

    @property
    def status(self) -> int:
        """Of `| head`, which has got what it wanted, what shells show of a program that SIGPIPE ended."""
        return 128 + signal.SIGPIPE if self.is_unread else self.exit_code

    def show(self, file: IO[str] | None = None) -> None:
        if not self.is_unread:
            _show_error(self.format_message(), "")


class Failure(click.ClickException):
    """A command cannot do what it was asked for: one sentence, and perhaps a hint on a line of its own."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def show(self, file: IO[str] | None = None) -> None:
        _show_error(self.format_message(), self.hint)


class WrongUsage(click.UsageError):
    """A command line that is not understood; the status is 2."""

    def __init__(self, message: str, hint: str = "", ctx: click.Context | None = None) -> None:
        super().__init__(message, ctx)
        self.hint = hint

    def show(self, file: IO[str] | None = None) -> None:
        path = self.ctx.command_path if self.ctx else "nvccache"
        _show_error(self.format_message(), self.hint or f"`{path} --help` shows what there is")


def say(*lines: str) -> None:
    """Print lines without colours."""
    for line in lines:
        say_parts(line)


def say_parts(*parts: str | tuple[str, str]) -> None:
    """Print one line of parts; (text, colour) is coloured where the terminal and its user want that."""
    is_coloured = has_colours(sys.stdout)
    line = ""
    for part in parts:
        text, colour = part if isinstance(part, tuple) else (part, "")
        text = _encodable(printable(text), sys.stdout.encoding if sys.stdout else None)
        line += _styled(text, colour) if colour and is_coloured else text
    try:
        click.echo(line, color=is_coloured)
    except OSError as error:
        raise OutputError(error) from None


def say_json(document: object, is_one_line: bool = False) -> None:
    """Print one JSON object; all of it is ASCII, so that no locale can spoil it."""
    say(*json.dumps(document, indent=None if is_one_line else 2).splitlines())


def warn(*lines: str) -> None:
    """Tell on standard error what the command's own output is not about."""
    for line in lines:
        _tell(f"nvccache: {line}")


def has_colours(stream: IO[str] | None) -> bool:
    """Whether a stream is a terminal whose user wants colours: NO_COLOR, CLICOLOR, CLICOLOR_FORCE, TERM."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    if os.environ.get("CLICOLOR") == "0" or os.environ.get("TERM", "dumb") == "dumb":
        return False
    return is_terminal(stream)


def is_terminal(stream: IO[str] | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except (OSError, ValueError):
        return False


def console(stream: IO[str]) -> Console:
    """What draws tables and progress bars on a stream, with colours as `has_colours` says."""
    from rich.console import Console

    is_coloured = has_colours(stream)
    return Console(file=stream, no_color=not is_coloured, highlight=False, markup=False, emoji=False)


@contextlib.contextmanager
def escaped_errors() -> Iterator[None]:
    """The sentences in which click ends a command quote what was typed, and what was found."""
    try:
        yield
    except (OutputError, Failure, WrongUsage):
        raise
    except click.ClickException as error:
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            raise  # all of that is ours
        if isinstance(error, click.UsageError):
            raise WrongUsage(_sentence_of(error), ctx=error.ctx) from None
        raise Failure(error.format_message()) from None


def _sentence_of(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption):
        near = next(iter(error.possibilities or ()), "")
        return f"no such option `{error.option_name}`" + (f"; did you mean `{near}`?" if near else "")
    param = getattr(error, "param", None)
    if isinstance(error, click.MissingParameter) and param:
        return f"{param.metavar or param.name} is missing"
    if isinstance(error, click.BadParameter) and param:
        named = param.opts[-1] if isinstance(param, click.Option) else param.metavar or param.name
        return f"`{named}`: {error.message}".rstrip(".")
    return error.format_message().rstrip(".")


def _show_error(message: str, hint: str) -> None:
    _tell(message, "Error: ", RED)
    if hint:
        _tell(hint, "Hint: ", YELLOW)


def _tell(text: str, head: str = "", colour: str = "") -> None:
    """Write a line to standard error; where that cannot be done, nobody can be told."""
    is_coloured = has_colours(sys.stderr)
    shown = _encodable(printable(text), sys.stderr.encoding if sys.stderr else None)
    with contextlib.suppress(OSError):
        click.echo((_styled(head, colour) if is_coloured else head) + shown, err=True, color=is_coloured)


def _styled(text: str, colour: str) -> str:
    if colour == BOLD:
        return click.style(text, bold=True)
    return click.style(text, fg=colour, bold=True) if colour else text


def _encodable(text: str, encoding: str | None) -> str:
    encoding = encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
