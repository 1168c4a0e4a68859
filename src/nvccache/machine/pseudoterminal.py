"""A terminal for the standard error of one tool, like the one that this process has."""

from __future__ import annotations

import fcntl
import os
import pty
import termios

from nvccache.machine import terminals


class Pseudoterminal:
    """What is written to `tools` can be read from `ours`."""

    def __init__(self) -> None:
        """Raises OSError where the system has no terminal left."""
        self.ours, self.tools = pty.openpty()
        modes = termios.tcgetattr(self.tools)
        modes[1] &= ~termios.OPOST  # line ends stay as they are
        termios.tcsetattr(self.tools, termios.TCSANOW, modes)
        size = terminals.size_of(2)
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
