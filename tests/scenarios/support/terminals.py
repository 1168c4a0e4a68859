"""Commands whose streams are a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Sequence

from workspaces import Result, Workspace

MILLISECONDS = re.compile(rb"[0-9.]+ ms")


def on_terminal(
    workspace: Workspace,
    argv: Sequence[str],
    variables: dict[str, str],
    columns: int = 80,
    is_output: bool = False,
) -> Result:
    """Run a command whose standard error, and output if that is said, is a terminal so many columns wide."""
    ours, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    received = bytearray()
    reader = threading.Thread(target=_read_all, args=(ours, received))
    with subprocess.Popen(
        argv,
        cwd=workspace.directory,
        env={**workspace.environ, **variables},
        stdin=terminal,  # gcc 12 asks it how wide lines may be, though it writes to the other
        stdout=terminal if is_output else subprocess.PIPE,
        stderr=terminal,
    ) as child:
        os.close(terminal)
        reader.start()
        stdout, _ = child.communicate()
    reader.join()
    os.close(ours)
    return Result(child.returncode, stdout or b"", MILLISECONDS.sub(b"# ms", bytes(received)))


def _read_all(descriptor: int, received: bytearray) -> None:
    while True:
        try:
            received += os.read(descriptor, 65536)
        except OSError:  # the last writer has gone
            return
