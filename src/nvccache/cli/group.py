"""The click group: finds each command's module when the command is asked for, and words its errors."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from nvccache import __version__
from nvccache.cli.names import COMMANDS
from nvccache.cli.output import escaped_errors
from nvccache.store.directory import StoreError
from nvccache.store.events import JournalError


class LazyGroup(click.Group):
    """A group whose commands are the modules that `names` lists."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[cmd_name]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; what its user can mend ends in one sentence, not in a traceback."""
        with escaped_errors():
            try:
                return super().invoke(ctx)
            except (JournalError, StoreError) as error:
                raise click.ClickException(str(error)) from None

    def make_context(self, *arguments: Any, **others: Any) -> click.Context:
        """Understand the command line."""
        with escaped_errors():
            return super().make_context(*arguments, **others)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`nvccache NVCC ARGS...`, with a path or name of an nvcc first, compiles through the cache.",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def commands() -> None:
    """A transparent compiler cache for NVIDIA's nvcc."""
