"""The command line as a whole: finds, lists and completes commands, and turns errors into messages.

Even a bug in nvccache ends a command with one sentence; `NVCCACHE_STRICT=1` shows the traceback.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import click

from nvccache import log
from nvccache.cli import COMMANDS
from nvccache.cli.output import Failure, OutputError, WrongUsage, json_option, say, say_json
from nvccache.store.directory import StoreError

# docs/generate/reference.py writes these into docs/reference/commands.md.
STATUSES = {
    0: "done",
    1: "the command failed, or `doctor` found something wrong",
    2: "the command line is wrong",
    130: "^C interrupted the command (its parent sees that SIGINT killed it)",
    141: "the reader of the output exited first, as with `| head`; the command itself succeeded",
}


def run(arguments: list[str] | None = None) -> int:
    """Run one command line; returns its exit status. ^C raises KeyboardInterrupt."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # escapes what the locale cannot encode
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
        if not isinstance(error, OutputError):
            return error.exit_code
        # On exit, Python would try to write the rest again, and report an error.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), sys.stdout.fileno())
        return error.status
    return 0


@contextlib.contextmanager
def in_one_sentence() -> Iterator[None]:
    """Turn any error of a command into one sentence for the user; quoted text is escaped."""
    try:
        yield
    except (Failure, click.exceptions.Exit, click.Abort):
        raise
    except click.UsageError as error:
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            raise  # click then shows the help
        hint = getattr(error.ctx.command, "hint", "") if error.ctx else ""
        raise WrongUsage(error.format_message().rstrip("."), hint, error.ctx) from None
    except click.ClickException as error:
        raise Failure(error.format_message()) from None
    except StoreError as error:
        raise Failure(str(error)) from None
    except OSError as error:
        if f"{os.sep}click{os.sep}" in traceback.extract_tb(error.__traceback__)[-1].filename:
            raise OutputError(error) from None  # click failed to print, for instance the help
        if error.errno == errno.ENOENT and not error.filename:
            raise Failure("the working directory was removed", "change to an existing directory") from None
        name = f"`{os.fsdecode(error.filename)}`: " if error.filename else ""
        raise Failure(f"{name}{error.strerror or error}") from None
    except Exception as fault:
        if os.environ.get("NVCCACHE_STRICT", "") not in ("", "0"):
            raise
        frame = traceback.extract_tb(fault.__traceback__)[-1]
        what = type(fault).__name__ + (f": {fault}" if str(fault) else "")
        raise Failure(
            f"nvccache has a bug: {what}, in {os.path.basename(frame.filename)} line {frame.lineno}",
            "report it with the output of `nvccache doctor`; `NVCCACHE_STRICT=1` shows the traceback",
        ) from None


class LazyGroup(click.Group):
    """Imports a command when it is needed, and suggests the nearest name for an unknown one."""

    def __init__(self, *, modules: Mapping[str, str], hint: str, **others: Any) -> None:
        super().__init__(**others)
        self._modules = modules  # command -> its module
        self.hint = hint  # shown after an unknown command or option

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = self._modules.get(cmd_name)
        return getattr(import_module(module), cmd_name) if module else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first argument names; during shell completion, it may name a compiler."""
        word = args[0]
        if word in self._modules or word[:1] == "-" or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        near = log.did_you_mean(log.nearest(word, self._modules))
        raise WrongUsage(f"no such command `{word}`{near}", self.hint)


class AllCommands(LazyGroup):
    """The commands of `nvccache`; a compiler may stand in place of a command."""

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "NVCC ARGS...")
        formatter.write_usage(ctx.command_path, "COMMAND [OPTIONS] [ARGS]...", " " * len("Usage: "))

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; errors end in one sentence."""
        with in_one_sentence():
            return super().invoke(ctx)

    def make_context(self, *arguments: Any, **others: Any) -> click.Context:
        """Parse the command line; errors end in one sentence."""
        with in_one_sentence():
            return super().make_context(*arguments, **others)


@click.group(
    cls=AllCommands,
    modules=COMMANDS,
    hint="to compile, put nvcc first (in CMake, set `CMAKE_CUDA_COMPILER_LAUNCHER`); see `nvccache --help`",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: nvccache nvcc -c kernel.cu -o kernel.o",
    invoke_without_command=True,
    no_args_is_help=True,
)
@click.option("--version", "wants_version", is_flag=True, help="Show the version and exit.")
@json_option
@click.pass_context
def commands(ctx: click.Context, wants_version: bool, as_json: bool) -> None:
    """A transparent compiler cache for NVIDIA's nvcc.

    If an nvcc comes first, as a path or name, it compiles through the cache.
    """
    if not wants_version and as_json:
        raise WrongUsage("put `--json` after a command, or use it with `--version`")
    if wants_version == bool(ctx.invoked_subcommand):
        raise WrongUsage("give either a command or `--version`")
    if wants_version:
        from nvccache.cli import install

        say_json(install.version()) if as_json else say(install.version_text())
