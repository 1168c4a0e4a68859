"""A terminal for the standard error of one tool, like the one that this process has."""

from __future__ import annotations

import fcntl
import os
import pty
import termios
import threading

from nvccache.machine import terminals


class Pseudoterminal:
    """What a tool writes to it is collected."""

    def __init__(self) -> None:
        """Raises OSError where the system has no terminal left."""
        self._ours, self.tools = pty.openpty()
        modes = termios.tcgetattr(self.tools)
        modes[1] &= ~termios.OPOST  # line ends stay as they are
        termios.tcsetattr(self.tools, termios.TCSANOW, modes)
        size = terminals.size_of(2)
        if size:
            fcntl.ioctl(self.tools, termios.TIOCSWINSZ, size)
        self._told = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def begin(self) -> None:
        """The tool has its end now, and this process gives up its own."""
        os.close(self.tools)
        self._reader.start()

    def told(self) -> bytes:
        """All that was written, once nobody can write any more."""
        self._reader.join()
        return bytes(self._told)

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self._ours, 65536)
            except OSError:  # EIO: the last writer has gone
                break
            if not part:
                break
            self._told += part
        os.close(self._ours)
