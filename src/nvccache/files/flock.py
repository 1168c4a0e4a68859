"""The kernel's locks on open files: the one place that calls `flock`.

Such a lock belongs to the open file: the kernel frees it when its holder dies, and a process that opens the
file once more excludes itself as well. Who evicts, cleans or folds uses filelock (store/locks.py).

    /proc/locks       1: FLOCK  ADVISORY  WRITE 2431 00:1b:54321 0 EOF   process 2431 has locked inode 54321
    /proc/2431/stat   2431 (python3) T …                                 and is stopped
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


def is_held_by_stopped(descriptor: int) -> bool:
    """Whether who holds the lock of an open file has been suspended (^Z), or stopped by a debugger.

    False where that cannot be told: the holder is on another machine or in another container.
    """
    try:
        # The device is left out: file systems on top of others show another one here than fstat does.
        inode = b":%d" % os.fstat(descriptor).st_ino
        with open("/proc/locks", "rb") as locks:
            holders = [line.split() for line in locks if b" FLOCK " in line and b"->" not in line]
        return any(_is_stopped(words[4]) for words in holders if words[5].endswith(inode))
    except (OSError, IndexError):
        return False


def _is_stopped(process: bytes) -> bool:
    try:
        with open(b"/proc/%s/stat" % process, "rb") as stat:
            return stat.read().rpartition(b") ")[2][:1] in (b"T", b"t")
    except OSError:
        return False


def let_go(descriptor: int) -> None:
    """Give a lock up and close its file, whatever becomes of that."""
    # Closing is not enough: a tool that is just being started has the descriptor until its exec.
    # What was done under the lock is done, whatever a file server says of giving it up.
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    with contextlib.suppress(OSError):
        os.close(descriptor)
