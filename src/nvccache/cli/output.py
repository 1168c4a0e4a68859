"""How the commands print: line by line, each with nothing in it that a terminal would obey.

The only module that writes to a stream of a command: what is printed comes from records, file names and
variables, and so from others.
"""

from __future__ import annotations

import contextlib
import sys

import click

from nvccache.escaping import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def say(*lines: str) -> None:
    for line in lines:
        click.echo(_encodable(printable(line), sys.stdout.encoding))


def warn(*lines: str) -> None:
    """Tell on standard error what the command's own output is not about."""
    for line in lines:
        click.echo(_encodable(f"nvccache: {printable(line)}", sys.stderr.encoding), err=True)


@contextlib.contextmanager
def escaped_errors() -> Iterator[None]:
    """The sentences in which click ends a command quote what was typed, and what was found."""
    try:
        yield
    except click.ClickException as error:
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            raise  # all of that is ours
        said = _encodable(printable(error.format_message()), sys.stderr.encoding)
        if isinstance(error, click.UsageError):
            raise click.UsageError(said, error.ctx) from None
        raise click.ClickException(said) from None


def _encodable(text: str, encoding: str | None) -> str:
    encoding = encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
