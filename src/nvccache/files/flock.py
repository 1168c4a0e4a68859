"""The kernel's `flock` locks on open files.

The kernel releases a lock when the process dies. A lock belongs to the open file, so that it also excludes
another `open` by the same process. `event_totals.fold` uses filelock instead (store/locks.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import os


def take(descriptor: int) -> bool:
    """Lock an open file or directory; False if it is locked already. Raises OSError if locks do not work."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def take_or_close(descriptor: int) -> bool:
    """Like `take`, but closes the file if it raises OSError."""
    try:
        return take(descriptor)
    except OSError:
        os.close(descriptor)
        raise


def release(descriptor: int) -> None:
    """Release a lock and close its file, without reporting errors, for example of a file server."""
    # Closing is not enough, since a tool that is being started has a copy of the descriptor until its exec.
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    with contextlib.suppress(OSError):
        os.close(descriptor)
