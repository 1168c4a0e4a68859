"""What `NVCCACHE_LOG` tells of each stage as it ends."""

from __future__ import annotations

import os
import time

from nvccache import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.compile.tasks import Task


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
            became = f"hit, saves {completed.cpu or completed.seconds:.2f} s"
        else:
            became = f"ran {completed.seconds:.2f} s"
            costs = task.made.costs if task.made else None
            became += f" on another machine ({costs.shown()})" if costs else ""
            became += f" here, where it was sent ({task.why_here})" if task.why_here and not costs else ""
            became += f", after {task.in_vain:.2f} s in vain" if task.in_vain else ""
            became += f", status {completed.status}" if completed.status else ""
        self.note(f"{stage.kind} {written}: {became}")

    def note(self, message: str) -> None:
        """Tell something, with the seconds since the call began."""
        log.write(self._log_path, f"+{time.monotonic() - self._started:.2f} s {message}")
