"""Writes the stored output of a query to the caller's stdout and stderr.

It is written as nvcc would write it. If that fails, nvcc runs instead, so that it fails in its own way: by
SIGPIPE if the reader has exited, and with or without a message if a disk is full.

Tools always write their diagnostics to a pipe, so these have no colours even on a terminal, as with Ninja.

Part of the hot path of queries.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator

_OUTPUT, _ERROR = 1, 2


def can_be_written(has_output: bool, has_messages: bool) -> bool:
    """Whether stdout and stderr can be replayed as nvcc would write them.

    They cannot if stdout is a terminal, which a wrapper may query; if a descriptor is closed, since a file of
    nvccache may have its number; or if both lead to the same file, since their order is not recorded.
    """
    if sys.stdout is None or sys.stderr is None:
        return False
    if has_output and os.isatty(_OUTPUT):
        return False
    return not (has_output and has_messages and os.path.sameopenfile(_OUTPUT, _ERROR))


def size_and_position() -> tuple[int, int] | None:
    """The size and offset of standard output if it is a regular file; raises OSError."""
    status = os.fstat(_OUTPUT)
    return (status.st_size, os.lseek(_OUTPUT, 0, os.SEEK_CUR)) if stat.S_ISREG(status.st_mode) else None


def restore_output(before: tuple[int, int] | None) -> None:
    """Undo a partial write to standard output; `before` is from `size_and_position`. Raises OSError."""
    if before:
        os.ftruncate(_OUTPUT, before[0])
        os.lseek(_OUTPUT, before[1], os.SEEK_SET)


@contextlib.contextmanager
def silenced_stderr(is_silenced: bool) -> Iterator[None]:
    """Redirect standard error to /dev/null.

    If opendal, the client of remotes, cannot start a thread, it prints a message before it raises an error.
    """
    try:
        saved = os.dup(2) if is_silenced else -1
    except OSError:  # it is closed
        saved = -1
    if saved < 0:
        yield
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
