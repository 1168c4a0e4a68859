"""Standard output and error of the caller: what may be written there, and what the terminal there is like.

A recorded answer is written there as nvcc writes its own. What cannot be written is left to nvcc, which fails
in its own way: with SIGPIPE where nobody reads, with a message or none where a disk is full.

Compilers colour and fold what they say where standard error is a terminal. So the tools are given one as well
(process.py), and a result with diagnostics is kept by what the terminal was like (record.py). A result
without diagnostics looks the same everywhere. Builds through Ninja, or in continuous integration, have a pipe
there.
What decides was seen with g++ 12, clang 14 and the EDG front ends (cudafe++, cicc) of CUDA 11.8 to 13.5:
variables, and how wide standard error or standard input is.

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


@contextlib.contextmanager
def silenced_stderr(is_silenced: bool) -> Iterator[None]:
    """Have standard error lead nowhere in a block, unless it is a terminal, whose size tools ask for.

    The client of remotes, which is written in Rust, tells there of a thread that it cannot have, before it
    raises what can be caught.
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
    """What the terminal at standard error is like; nothing like it is empty."""
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
        """Raises OSError where the system has no terminal left."""
        import fcntl
        import pty
        import termios

        self.ours, self.tools = pty.openpty()  # what is written to the tool's end can be read from ours
        modes = termios.tcgetattr(self.tools)
        modes[1] &= ~termios.OPOST  # line ends stay as they are
        termios.tcsetattr(self.tools, termios.TCSANOW, modes)
        size = size_of(2)
        if size:
            fcntl.ioctl(self.tools, termios.TIOCSWINSZ, size)
        self._is_ours_alone = False

    def begin(self) -> None:
        """The tool has its end now, and this process gives up its own."""
        self._is_ours_alone = True
        os.close(self.tools)

    def end(self) -> None:
        if not self._is_ours_alone:
            os.close(self.tools)
        os.close(self.ours)
