"""The log that `NVCCACHE_LOG` names: what nvccache did, never on a compile's own streams.

Only its owner can read it, since it tells of command lines: a file that is there already keeps its mode.
Nothing in it is obeyed by a terminal, and no message can pass for two.
"""

from __future__ import annotations

import os

from nvccache.escaping import printable


def write(log_path: str, *lines: str) -> None:
    """Append one message of one or more lines to the log; a log that cannot be written is not worth a word.

    `log_path` is empty when no log is wanted.
    """
    if not log_path:
        return
    text = "".join([f"[{os.getpid()}] {printable(line)}\n" for line in lines])
    # A FIFO that nobody reads must not hold up a compile.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(log_path, flags, 0o600)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
    except OSError:
        pass
