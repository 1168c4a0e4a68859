"""Progress bars for what takes long: on standard error, on terminals only, gone when the work is done."""

from __future__ import annotations

import contextlib
import os
import sys
import time

from nvccache.cli.output import console, is_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress

    Tell = Callable[[int, int], None]  # (done, of how many)

PATIENCE = 0.4  # seconds after which it is long


@contextlib.contextmanager
def bar(title: str, is_long: bool = False) -> Iterator[Tell]:
    """Yield what is told how far the work is; elsewhere than on a terminal it does nothing.

    Work that `is_long` is shown at once, though it may never tell.
    """
    if not is_terminal(sys.stderr) or os.environ.get("TERM", "dumb") == "dumb":
        yield lambda done, total: None
        return
    started = time.monotonic()
    shown = _drawn(title) if is_long else None

    def tell(done: int, total: int) -> None:
        nonlocal shown
        if shown is None and time.monotonic() - started >= PATIENCE:
            shown = _drawn(title)
        if shown is not None:
            shown.update(shown.task_ids[0], completed=done, total=total)

    try:
        yield tell
    finally:
        if shown is not None:
            shown.stop()


def _drawn(title: str) -> Progress:
    """A bar on the screen; of what size it is not known yet."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    shown = Progress(*columns, console=console(sys.stderr), transient=True)
    shown.add_task(title, total=None)
    shown.start()
    return shown
