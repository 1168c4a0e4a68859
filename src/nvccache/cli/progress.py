"""Progress bars for what takes long: on standard error, on terminals only, gone when the work is done."""

from __future__ import annotations

import contextlib
import os
import sys

from nvccache.cli.output import console, is_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Tell = Callable[[int, int], None]  # (done, of how many)


@contextlib.contextmanager
def bar(title: str) -> Iterator[Tell]:
    """Yield what is told how far the work is; elsewhere than on a terminal it does nothing."""
    if not is_terminal(sys.stderr) or os.environ.get("TERM", "dumb") == "dumb":
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(sys.stderr), transient=True) as shown:
        task = shown.add_task(title, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)
