"""The command line as a whole: finds, lists and completes commands, and turns errors into messages.

An error is one sentence, never a traceback, even for a bug in nvccache; `NVCCACHE_STRICT=1` shows more.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from nvccache import hints
from nvccache.cli import names, removed
from nvccache.cli.names import COMMANDS
from nvccache.cli.output import Failure, OutputError, WrongUsage, json_option, say, say_json
from nvccache.store.directory import StoreError
from nvccache.store.events import JournalError

# Documented in docs/reference/commands.md, by docs/generate/reference.py.
STATUSES = {
    0: "done",
    1: "the command failed, or `doctor` found something wrong",
    2: "the command line is not understood",
    130: "interrupted by ^C (to a parent: killed by SIGINT)",
    141: "the reader of the output is gone, as with `| head`; the command has done its work",
}
_OPTIONAL = "nvccache.report"  # an installation may lack it
_IS_COMPILING = "nvccache.is_compiling"  # in the context of a completion: the first word is not a command
_WIDEST = 100  # columns of help


def run(arguments: list[str] | None = None) -> int:
    """Run one command line; returns its exit status. ^C is left to the caller."""
    try:
        commands.main(args=arguments, prog_name="nvccache", standalone_mode=False)
    except click.exceptions.Exit as end:
        return end.exit_code
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        error.show()
        if isinstance(error, OutputError):
            _give_up_output()
            return error.status
        return error.exit_code
    return 0


def _give_up_output() -> None:
    """Discard output that could not be written: on exit, Python would try again and report an error."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def in_one_sentence() -> Iterator[None]:
    """Turn any error of a command into one sentence for its user; quoted text is escaped."""
    try:
        yield
    except (Failure, click.exceptions.Exit, click.Abort):
        raise
    except click.ClickException as error:
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            raise  # it shows our own help text
        if isinstance(error, click.UsageError):
            raise WrongUsage(_sentence_of(error), ctx=error.ctx) from None
        raise Failure(error.format_message()) from None
    except (JournalError, StoreError) as error:
        raise Failure(str(error)) from None
    except OSError as error:
        if _is_of_click(error):  # click prints help without `say`
            raise OutputError(error) from None
        if not error.filename and not _has_working_directory():
            raise Failure("the working directory was removed", "`cd` to one that exists") from None
        name = os.fsdecode(error.filename or "")
        raise Failure(f"`{name}`: {error.strerror or error}" if name else str(error)) from None
    except Exception as fault:
        if os.environ.get("NVCCACHE_STRICT", "") not in ("", "0"):
            raise
        raise _bug(fault) from None


def _has_working_directory() -> bool:
    try:
        return bool(os.getcwd())
    except OSError:
        return False


def _is_of_click(error: OSError) -> bool:
    import traceback

    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{os.sep}click{os.sep}" in frame.filename


def _bug(fault: Exception) -> Failure:
    import traceback

    frame = traceback.extract_tb(fault.__traceback__)[-1]
    where = f"{os.path.basename(frame.filename)} line {frame.lineno}"
    what = type(fault).__name__ + (f": {fault}" if str(fault) else "")
    return Failure(
        f"nvccache has a bug: {what}, in {where}",
        "please report it with the output of `nvccache --version --verbose`; `NVCCACHE_STRICT=1` shows more",
    )


def _sentence_of(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption):
        command = error.ctx.command_path.partition(" ")[2] if error.ctx else ""
        words = f"{command} {error.option_name}".lstrip()
        near = hints.did_you_mean(next(iter(error.possibilities or ()), ""))
        hint = removed.instead_of(words, removed.OPTIONS) or near
        return f"no such option `{error.option_name}`{hint}"
    param = getattr(error, "param", None)
    if isinstance(error, click.MissingParameter) and param:
        return f"{param.metavar or param.name} is missing"
    if isinstance(error, click.BadParameter) and param:
        named = param.opts[-1] if isinstance(param, click.Option) else param.metavar or param.name
        return f"`{named}`: {error.message}".rstrip(".")
    return error.format_message().rstrip(".")


class _Help(click.HelpFormatter):
    """Fits help texts to the terminal, down to 40 columns; click's own stops at 50."""

    def __init__(self, **_: object) -> None:
        super().__init__(width=max(38, min(shutil.get_terminal_size().columns, _WIDEST) - 2))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write terms and their texts; a term wider than a third of the width gets a line of its own."""
        super().write_dl(rows, min(col_max, self.width // 3), col_spacing)


class _Context(click.Context):
    formatter_class = _Help


class LazyGroup(click.Group):
    """Imports a command when it is needed, and suggests the nearest name for an unknown one."""

    context_class = _Context

    def __init__(self, *, modules: Mapping[str, str] | None = None, hint: str = "", **others: Any) -> None:
        super().__init__(**others)
        self._modules = modules or {}  # command -> its module, except commands added by decorators
        self._hint = hint  # for an unknown command

    def sections(self, ctx: click.Context) -> Mapping[str, Iterable[str]]:
        """The headings of the help, with the commands under each."""
        return {"Commands": self.list_commands(ctx)}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands. A long summary is wrapped, not truncated as by click."""
        width = max(map(len, self.list_commands(ctx)))
        for title, names_of_section in self.sections(ctx).items():
            found = [(name, self.get_command(ctx, name)) for name in names_of_section]
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{name:<{width}}", one.get_short_help_str(_WIDEST)) for name, one in found if one]
                )

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules) or super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._modules:
            command = super().get_command(ctx, cmd_name)
        else:
            try:
                command = getattr(import_module(self._modules[cmd_name]), cmd_name)
            except ModuleNotFoundError as error:
                if error.name != _OPTIONAL:
                    raise
                return _not_installed(cmd_name)
        if command:
            command.context_class = _Context
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command named by the first argument."""
        word, known = args[0], self.list_commands(ctx)
        if word in known or word[:1] == "-" or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        instead = removed.instead_of(f"{ctx.command_path} {word}".partition(" ")[2], removed.COMMANDS)
        instead = instead or hints.did_you_mean(names.nearest(word, known))
        raise WrongUsage(f"no such command `{word}`{instead}", self._hint)


class AllCommands(LazyGroup):
    """The commands of `nvccache` itself. A compiler may be given instead of one."""

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "NVCC ARGS...")
        formatter.write_usage(ctx.command_path, "COMMAND [OPTIONS] [ARGS]...", " " * len("Usage: "))

    def sections(self, ctx: click.Context) -> Mapping[str, Iterable[str]]:
        return names.GROUPS

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command named by the first argument, which may be a compiler during completion."""
        if ctx.resilient_parsing and args[0] not in COMMANDS:
            ctx.meta[_IS_COMPILING] = True
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completions: commands, or files after a compiler."""
        if ctx.meta.get(_IS_COMPILING) or "/" in incomplete:
            return [CompletionItem(incomplete, type="file")]
        return super().shell_complete(ctx, incomplete)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; errors end in one sentence."""
        with in_one_sentence():
            return super().invoke(ctx)

    def make_context(self, *arguments: Any, **others: Any) -> click.Context:
        """Parse the command line; errors end in one sentence."""
        with in_one_sentence():
            return super().make_context(*arguments, **others)


def _not_installed(name: str) -> click.Command:
    def refuse(_: tuple[str, ...]) -> None:
        raise Failure(
            f"`nvccache {name}` is not installed: there is no package `{_OPTIONAL}`",
            "`pip install --force-reinstall nvccache` adds it; `nvccache events --json` has the same data",
        )

    arguments = click.Argument(["_"], nargs=-1, type=click.UNPROCESSED)
    context = {"ignore_unknown_options": True}
    return click.Command(name, context, refuse, [arguments], help="Not installed.", add_help_option=False)


@click.group(
    cls=AllCommands,
    modules=COMMANDS,
    hint="`nvccache --help` lists the commands; to compile, name an nvcc first",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: nvccache nvcc -c kernel.cu -o kernel.o",
    invoke_without_command=True,
    no_args_is_help=True,
)
@click.option("--version", "wants_version", is_flag=True, help="Show the version and exit.")
@click.option("--verbose", is_flag=True, help="With `--version`: add what a bug report needs.")
@json_option
@click.pass_context
def commands(ctx: click.Context, wants_version: bool, verbose: bool, as_json: bool) -> None:
    """A transparent compiler cache for NVIDIA's nvcc.

    With a path or name of an nvcc first, it compiles through the cache.
    """
    if not wants_version:
        for option, is_given in (("--verbose", verbose), ("--json", as_json)):
            if is_given:
                hint = f"`nvccache --version {option}`, or `nvccache COMMAND {option}`"
                raise WrongUsage(f"`{option}` needs `--version` or a command before it", hint)
        if ctx.invoked_subcommand is None:
            raise WrongUsage("a command is missing")
        return
    if ctx.invoked_subcommand:
        raise WrongUsage("`--version` takes no command")
    from nvccache.cli import about

    if verbose:
        about.show(as_json)
    elif as_json:
        say_json(about.version())
    else:
        say(about.version_text())
