"""Standard output and error of the caller, as far as a recorded answer can be written there like nvcc's own.

What cannot be written is left to nvcc, which fails in its own way: with SIGPIPE where nobody reads, with a
message or none where a disk is full. Part of the hot path of queries.
"""

from __future__ import annotations

import os
import stat
import sys

_OUTPUT, _ERROR = 1, 2


def are_suited(has_output: bool, has_messages: bool) -> bool:
    """Whether both can be written as nvcc writes them.

    Not to a terminal, which a wrapper may look for, nor where a descriptor was closed, whose number may be
    that of a file of ours now. In one file the order of both would count, which is not recorded.
    """
    if sys.stdout is None or sys.stderr is None:
        return False
    if has_output and os.isatty(_OUTPUT):
        return False
    return not (has_output and has_messages and os.path.sameopenfile(_OUTPUT, _ERROR))


def size_and_place() -> tuple[int, int] | None:
    """Of standard output, where that is a file; raises OSError."""
    status = os.fstat(_OUTPUT)
    return (status.st_size, os.lseek(_OUTPUT, 0, os.SEEK_CUR)) if stat.S_ISREG(status.st_mode) else None


def take_back(before: tuple[int, int] | None) -> None:
    """Have standard output as it was, if it is a file: there was no room for all; raises OSError."""
    if before:
        os.ftruncate(_OUTPUT, before[0])
        os.lseek(_OUTPUT, before[1], os.SEEK_SET)
