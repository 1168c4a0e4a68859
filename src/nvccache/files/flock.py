"""The kernel's `flock` locks on open files.

A lock belongs to the open file: the kernel releases it when its holder dies, and a process that opens the
file again excludes itself as well. `event_totals.fold` uses filelock instead (store/locks.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import os


def take(descriptor: int) -> bool:
    """Lock an open file or directory, unless it is locked; raises OSError if locks do not work there."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def take_or_close(descriptor: int) -> bool:
    """As `take`, but closes the file if that raises OSError."""
    try:
        return take(descriptor)
    except OSError:
        os.close(descriptor)
        raise


def release(descriptor: int) -> None:
    """Release a lock and close its file; errors, such as those of a file server, no longer matter."""
    # Closing is not enough: a tool that is being started has a copy of the descriptor until its exec.
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    with contextlib.suppress(OSError):
        os.close(descriptor)
