"""How a command ends: with its status, or one sentence and the status that goes with it. Never a traceback.

    0    done
    1    it could not be done, or something is wrong (`doctor`, `verify`)
    2    the command line is not understood
    130  interrupted (the process dies of SIGINT)
    141  nobody reads its output any more

A bug of ours is told in one sentence, too; `NVCCACHE_STRICT=1` shows where it is.
"""

from __future__ import annotations

import contextlib
import os
import sys

import click

from nvccache.cli.output import Failure, OutputError
from nvccache.store.directory import StoreError
from nvccache.store.events import JournalError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Told to scripts and people in docs/reference/commands.md, by docs/generate/reference.py.
STATUSES = {
    0: "done",
    1: "it could not be done, or something is wrong with what `doctor` and `verify` look at",
    2: "the command line is not understood",
    130: "interrupted by ^C (to a parent: killed by SIGINT)",
    141: "nobody reads the output any more, as with `| head`; what the command does is done",
}


def run(arguments: list[str] | None = None) -> int:
    """Run one command line; its exit status. ^C is left to the caller."""
    from nvccache.cli.group import commands

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
def told_in_one_sentence() -> Iterator[None]:
    """Turn what a command ran into into a sentence for its user."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
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
        raise _told(fault) from None


def _has_working_directory() -> bool:
    try:
        return bool(os.getcwd())
    except OSError:
        return False


def _is_of_click(error: OSError) -> bool:
    import traceback

    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{os.sep}click{os.sep}" in frame.filename


def _told(fault: Exception) -> Failure:
    import traceback

    frame = traceback.extract_tb(fault.__traceback__)[-1]
    where = f"{os.path.basename(frame.filename)} line {frame.lineno}"
    what = type(fault).__name__ + (f": {fault}" if str(fault) else "")
    return Failure(
        f"nvccache has a bug: {what}, in {where}",
        "please report it with what `nvccache --version --verbose` prints; `NVCCACHE_STRICT=1` shows more",
    )
