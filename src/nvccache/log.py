"""The log that `NVCCACHE_LOG` names: what nvccache did, never on a compile's own streams."""

from __future__ import annotations

import os


def write(log_path: str, message: str) -> None:
    """Append one line to the log; a log that cannot be written is not worth a word.

    `log_path` is empty when no log is wanted.
    """
    if not log_path:
        return
    line = f"[{os.getpid()}] {message}\n".encode(errors="surrogateescape")
    try:
        descriptor = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
    except OSError:
        pass
