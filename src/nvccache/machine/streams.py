"""The caller's standard output and error: replaying output to them, and the properties of a terminal there.

Output is replayed as nvcc would write it. If it cannot be written, nvcc runs instead and fails in its own
way: by SIGPIPE if the reader is gone, with or without a message if a disk is full.

Compilers colour and wrap diagnostics if standard error is a terminal. So the tools get a terminal too
(process.py), and results with diagnostics are recorded for the properties of that terminal (record.py).
Results without diagnostics are the same everywhere. Builds by Ninja or in CI have a pipe there.
The relevant properties were determined with g++ 12, clang 14 and the EDG front ends (cudafe++, cicc) of CUDA
11.8 to 13.5: environment variables, and the width of standard error or standard input.

Part of the hot path of queries.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_OUTPUT, _ERROR = 1, 2
_VARIABLES = tuple(
    """
    CLICOLOR CLICOLOR_FORCE COLORTERM COLUMNS EDG_COLORS FORCE_COLOR GCC_COLORS GCC_URLS KONSOLE_VERSION
    LINES NOCOLOR NO_COLOR STY TERM TERMINFO TERM_PROGRAM TERM_PROGRAM_VERSION TERM_URLS TMUX
    VTE_VERSION WT_SESSION
    """.split()
)
_NO_SIZE = bytes(8)  # of struct winsize: four numbers of two bytes


def can_be_written(has_output: bool, has_messages: bool) -> bool:
    """Whether stdout and stderr can be replayed as nvcc would write them.

    Not stdout to a terminal, which a wrapper may query; not to a closed descriptor, whose number one of our
    files may have now; not both to one file, since their order is not recorded.
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
    """Undo a partial write to standard output, if that is a regular file; raises OSError."""
    if before:
        os.ftruncate(_OUTPUT, before[0])
        os.lseek(_OUTPUT, before[1], os.SEEK_SET)


@contextlib.contextmanager
def silenced_stderr(is_silenced: bool) -> Iterator[None]:
    """Redirect standard error to /dev/null, unless it is a terminal, whose size tools query.

    The Rust client of remotes prints a message there if it cannot start a thread, before it raises an error.
    """
    try:
        kept = os.dup(2) if is_silenced and not os.isatty(2) else -1
    except OSError:  # it is closed
        kept = -1
    if kept < 0:
        yield
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def describe(environ: Mapping[str, str]) -> str:
    """The properties of the terminal at standard error, to be compared; never empty."""
    named = [f"{name}={environ[name]}" for name in _VARIABLES if name in environ]
    return "\0".join(["terminal", size_of(2).hex(), size_of(0).hex(), *named])


def size_of(descriptor: int) -> bytes:
    import fcntl
    import termios

    try:
        return fcntl.ioctl(descriptor, termios.TIOCGWINSZ, _NO_SIZE)
    except OSError:
        return b""


class Pseudoterminal:
    """A terminal for the standard error of one tool, like the one that this process has."""

    def __init__(self) -> None:
        """Raises OSError if the system has no pseudoterminal left."""
        import fcntl
        import pty
        import termios

        self.our_end, self.tool_end = pty.openpty()
        modes = termios.tcgetattr(self.tool_end)
        modes[1] &= ~termios.OPOST  # keep line ends unchanged
        termios.tcsetattr(self.tool_end, termios.TCSANOW, modes)
        size = size_of(2)
        if size:
            fcntl.ioctl(self.tool_end, termios.TIOCSWINSZ, size)
        self._is_tool_end_closed = False

    def close_tool_end(self) -> None:
        """Close this process's copy, once the tool has its own."""
        self._is_tool_end_closed = True
        os.close(self.tool_end)

    def close(self) -> None:
        if not self._is_tool_end_closed:
            os.close(self.tool_end)
        os.close(self.our_end)
