"""The click group: finds each command's module when the command is asked for, and words its errors."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from nvccache import __version__
from nvccache.cli.ending import told_in_one_sentence
from nvccache.cli.names import COMMANDS
from nvccache.cli.output import Failure, WrongUsage, escaped_errors, json_option, say, say_json
from nvccache.cli.suggesting import SuggestingGroup

_BESIDE_CORE = "nvccache.report"  # an installation may do without it
_IS_COMPILING = "nvccache.is_compiling"  # in a context that completes: its first word is no command


class LazyGroup(SuggestingGroup):
    """A group whose commands are the modules that `names` lists."""

    hint = "`nvccache --help` lists the commands; a compiler is named by a path or a name such as `nvcc`"

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        try:
            command = getattr(import_module(COMMANDS[cmd_name]), cmd_name)
        except ModuleNotFoundError as error:
            if error.name != _BESIDE_CORE:
                raise
            return _not_installed(cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named first; where words are completed it may be a compiler."""
        if ctx.resilient_parsing and args[0] not in COMMANDS:
            ctx.meta[_IS_COMPILING] = True
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """What Tab offers: commands first, and files behind a compiler."""
        if ctx.meta.get(_IS_COMPILING) or "/" in incomplete:
            return [CompletionItem(incomplete, type="file")]
        return super().shell_complete(ctx, incomplete)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; what its user can mend ends in one sentence, not in a traceback."""
        with escaped_errors(), told_in_one_sentence():
            return super().invoke(ctx)

    def make_context(self, *arguments: Any, **others: Any) -> click.Context:
        """Understand the command line."""
        with escaped_errors(), told_in_one_sentence():
            return super().make_context(*arguments, **others)


def _not_installed(name: str) -> click.Command:
    def refuse(_: tuple[str, ...]) -> None:
        raise Failure(
            f"`nvccache {name}` is not installed: there is no package `{_BESIDE_CORE}`",
            "`pip install --force-reinstall nvccache` brings it; `nvccache events --json` has what it shows",
        )

    words = click.Argument(["_"], nargs=-1, type=click.UNPROCESSED)
    anything = {"ignore_unknown_options": True}
    return click.Command(name, anything, refuse, [words], help="Not installed.", add_help_option=False)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`nvccache NVCC ARGS...`, with a path or name of an nvcc first, compiles through the cache.",
    invoke_without_command=True,
    no_args_is_help=True,
)
@click.option("--version", "wants_version", is_flag=True, help="Show the version and exit.")
@click.option("--verbose", is_flag=True, help="With `--version`: all that a report of a bug should tell.")
@json_option
@click.pass_context
def commands(ctx: click.Context, wants_version: bool, verbose: bool, as_json: bool) -> None:
    """A transparent compiler cache for NVIDIA's nvcc."""
    if not wants_version:
        for option, is_given in (("--verbose", verbose), ("--json", as_json)):
            if is_given:
                hint = f"`nvccache --version {option}`, or `nvccache COMMAND {option}`"
                raise WrongUsage(f"`{option}` goes with `--version` or behind a command", hint, ctx)
        if ctx.invoked_subcommand is None:
            raise WrongUsage("which command?", ctx=ctx)
        return
    if ctx.invoked_subcommand:
        raise WrongUsage("`--version` goes with no command", ctx=ctx)
    if verbose:
        from nvccache.cli import about

        about.show(as_json)
    elif as_json:
        say_json({"version": __version__})
    else:
        say(f"nvccache {__version__}")
