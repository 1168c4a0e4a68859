"""The log that `NVCCACHE_LOG` names: what nvccache did, never on a compile's own streams.

Only its owner can read it, since it tells of command lines: a file that is there already keeps its mode.
Nothing in it is obeyed by a terminal, and no message can pass for two.
"""

from __future__ import annotations

import os
import time

from nvccache.escaping import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.schedule import Task


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


class Progress:
    """Tells in the log, for people who wait, what became of each stage as it ends."""

    def __init__(self, log_path: str) -> None:
        self._log_path = log_path
        self._started = time.monotonic()

    def ended(self, task: Task) -> None:
        if not self._log_path or not task.completed:
            return
        stage, completed = task.stage, task.completed
        read_later = [out.path for out in stage.outputs if out.role not in stage.grammar.unread]
        written = os.path.basename(read_later[0]) if read_later else ""
        if task.is_hit:
            became = f"hit, saves {completed.seconds:.2f} s"
        else:
            became = f"ran {completed.seconds:.2f} s"
            became += f", status {completed.status}" if completed.status else ""
        self.note(f"{stage.kind} {written}: {became}")

    def note(self, message: str) -> None:
        """Tell something, with the seconds since the call began."""
        write(self._log_path, f"+{time.monotonic() - self._started:.2f} s {message}")
