"""The kernel's locks on open files: the one place that calls `flock`.

Such a lock belongs to the open file: the kernel frees it when its holder dies, and a process that opens the
file once more excludes itself as well. Who evicts, cleans or folds uses filelock (store/locks.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import os


def take(descriptor: int, shared: bool = False) -> bool:
    """Lock an open file or directory if nobody else has; raises OSError where that cannot be told."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def take_or_close(descriptor: int) -> bool:
    """As `take`, but a file for which that raises OSError is closed."""
    try:
        return take(descriptor)
    except OSError:
        os.close(descriptor)
        raise


def let_go(descriptor: int) -> None:
    """Give a lock up and close its file, whatever becomes of that."""
    # Closing is not enough: a tool that is just being started has the descriptor until its exec.
    # What was done under the lock is done, whatever a file server says of giving it up.
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    with contextlib.suppress(OSError):
        os.close(descriptor)
