"""Terminals: compilers colour and fold what they say where standard error is one.

So the tools are given one as well (process.py), and a result with diagnostics is kept by what the terminal
was like (keys.py). A result without diagnostics looks the same everywhere. Builds through Ninja, or in
continuous integration, have a pipe there.

What decides was seen with g++ 12, clang 14 and the EDG front ends (cudafe++, cicc) of CUDA 11.8 to 13.5:
variables, and how wide standard error or standard input is.
"""

from __future__ import annotations

import fcntl
import os
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_VARIABLES = (
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORTERM",
    "COLUMNS",
    "EDG_COLORS",
    "FORCE_COLOR",
    "GCC_COLORS",
    "GCC_URLS",
    "KONSOLE_VERSION",
    "LINES",
    "NOCOLOR",
    "NO_COLOR",
    "STY",
    "TERM",
    "TERMINFO",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TERM_URLS",
    "TMUX",
    "VTE_VERSION",
    "WT_SESSION",
)
_NO_SIZE = bytes(8)  # of struct winsize: four numbers of two bytes


def describe(environ: Mapping[str, str]) -> str:
    """What the terminal at standard error is like; nothing like it is empty."""
    named = [f"{name}={environ[name]}" for name in _VARIABLES if name in environ]
    return "\0".join(["terminal", size_of(2).hex(), size_of(0).hex(), *named])


def size_of(descriptor: int) -> bytes:
    try:
        return fcntl.ioctl(descriptor, termios.TIOCGWINSZ, _NO_SIZE)
    except OSError:
        return b""


class Pseudoterminal:
    """A terminal for the standard error of one tool, like the one that this process has.

    What is written to `tools` can be read from `ours`.
    """

    def __init__(self) -> None:
        """Raises OSError where the system has no terminal left."""
        import pty

        self.ours, self.tools = pty.openpty()
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
