"""The commands as a whole: how they are found and completed, and how each ends, by a status or one sentence.

A traceback is never shown: a bug of ours is one sentence, too; `NVCCACHE_STRICT=1` shows where it is.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from nvccache import __version__
from nvccache.cli import names
from nvccache.cli.names import COMMANDS
from nvccache.cli.output import Failure, OutputError, WrongUsage, json_option, say, say_json
from nvccache.store.directory import StoreError
from nvccache.store.events import JournalError

# Told to scripts and people in docs/reference/commands.md, by docs/generate/reference.py.
STATUSES = {
    0: "done",
    1: "it could not be done, or something is wrong with what `doctor` and `verify` look at",
    2: "the command line is not understood",
    130: "interrupted by ^C (to a parent: killed by SIGINT)",
    141: "nobody reads the output any more, as with `| head`; what the command does is done",
}
_BESIDE_CORE = "nvccache.report"  # an installation may do without it
_IS_COMPILING = "nvccache.is_compiling"  # in a context that completes: its first word is no command
SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_NVCCACHE_COMPLETE"


def run(arguments: list[str] | None = None) -> int:
    """Run one command line; its exit status. ^C is left to the caller."""
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
    """Have what could not be written go nowhere: Python would try once more as it ends, and complain."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def in_one_sentence() -> Iterator[None]:
    """Turn what a command ran into into a sentence for its user; what that quotes is escaped."""
    try:
        yield
    except (Failure, click.exceptions.Exit, click.Abort):
        raise
    except click.ClickException as error:
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            raise  # all of that is ours
        if isinstance(error, click.UsageError):
            raise WrongUsage(_sentence_of(error), ctx=error.ctx) from None
        raise Failure(error.format_message()) from None
    except (JournalError, StoreError) as error:
        raise Failure(str(error)) from None
    except OSError as error:
        if _is_of_click(error):  # which prints help by itself
            raise OutputError(error) from None
        if not error.filename and not _has_working_directory():
            raise Failure("the working directory was removed", "`cd` to one that is there") from None
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
        "please report it with what `nvccache --version --verbose` prints; `NVCCACHE_STRICT=1` shows more",
    )


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


class LazyGroup(click.Group):
    """Loads a command when it is asked for, and answers a word that is none with the nearest one."""

    def __init__(self, *, modules: Mapping[str, str] | None = None, hint: str = "", **others: Any) -> None:
        super().__init__(**others)
        self._modules = (
            modules or {}
        )  # command -> the module that holds it, but for those added by decorators
        self._hint = hint  # with a word that is no command

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules) or super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._modules:
            return super().get_command(ctx, cmd_name)
        try:
            command = getattr(import_module(self._modules[cmd_name]), cmd_name)
        except ModuleNotFoundError as error:
            if error.name != _BESIDE_CORE:
                raise
            return _not_installed(cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named first."""
        word, known = args[0], self.list_commands(ctx)
        if word in known or word[:1] == "-" or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        near = names.nearest(word, known)
        meant = f"; did you mean `{near}`?" if near else ""
        raise WrongUsage(f"no such command `{word}`{meant}", self._hint)


class AllCommands(LazyGroup):
    """Those of `nvccache` itself, in whose place a compiler may stand."""

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
        with in_one_sentence():
            return super().invoke(ctx)

    def make_context(self, *arguments: Any, **others: Any) -> click.Context:
        """Understand the command line."""
        with in_one_sentence():
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
    cls=AllCommands,
    modules=COMMANDS,
    hint="`nvccache --help` lists the commands; a compiler is named by a path or a name such as `nvcc`",
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
                raise WrongUsage(f"`{option}` goes with `--version` or behind a command", hint)
        if ctx.invoked_subcommand is None:
            raise WrongUsage("which command?")
        return
    if ctx.invoked_subcommand:
        raise WrongUsage("`--version` goes with no command")
    if verbose:
        from nvccache.cli import about

        about.show(as_json)
    elif as_json:
        say_json({"version": __version__})
    else:
        say(f"nvccache {__version__}")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), required=False, metavar="[bash|zsh|fish]")
@json_option
def completion(shell: str | None, as_json: bool) -> None:
    """Print a script by which a shell completes commands and options.

    Without a word it is the one for `$SHELL`. Save it where the shell looks for it:

    \b
    `nvccache completion bash > ~/.local/share/bash-completion/completions/nvccache`
    `nvccache completion zsh > DIR/_nvccache`, with DIR one of `$fpath`
    `nvccache completion fish > ~/.config/fish/completions/nvccache.fish`
    """
    shell = shell or os.path.basename(os.environ.get("SHELL", ""))
    if shell not in SHELLS:
        raise WrongUsage("which shell: bash, zsh or fish?")
    script = script_of(shell)
    if as_json:
        say_json({"shell": shell, "script": script})
    else:
        say(*script.rstrip("\n").split("\n"))


def script_of(shell: str) -> str:
    kind = get_completion_class(shell)
    assert kind is not None
    completer = kind(commands, {}, "nvccache", VARIABLE)
    # Not `source()`, which for bash runs one to ask for its version, and may not find it.
    script = completer.source_template % completer.source_vars()
    # Where nothing of ours fits, bash is to complete names of files.
    return script.replace("complete -o nosort -F", "complete -o nosort -o default -F")
