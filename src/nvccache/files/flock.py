"""The kernel's `flock` locks on open files.

A lock belongs to the open file: the kernel releases it when its holder dies, and a process that opens the
file again excludes itself as well. Eviction, cleaning and folding use filelock (store/locks.py).

    /proc/locks       1: FLOCK  ADVISORY  WRITE 2431 00:1b:54321 0 EOF   process 2431 has locked inode 54321
    /proc/2431/stat   2431 (python3) T …                                 and is stopped
"""

from __future__ import annotations

import contextlib
import fcntl
import os


def take(descriptor: int, shared: bool = False) -> bool:
    """Lock an open file or directory, unless it is locked; raises OSError if locks do not work there."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
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


def is_held_by_stopped(descriptor: int) -> bool:
    """Whether the process that holds the lock is suspended (^Z) or stopped by a debugger.

    False if that is unknown, since the process is on another machine or in another container.
    """
    try:
        # The device is ignored: stacked file systems show another one here than fstat does.
        inode = b":%d" % os.fstat(descriptor).st_ino
        with open("/proc/locks", "rb") as locks:
            holders = [line.split() for line in locks if b" FLOCK " in line and b"->" not in line]
        return any(_is_stopped(fields[4]) for fields in holders if fields[5].endswith(inode))
    except (OSError, IndexError):
        return False


def _is_stopped(process: bytes) -> bool:
    try:
        with open(b"/proc/%s/stat" % process, "rb") as stat:
            return stat.read().rpartition(b") ")[2][:1] in (b"T", b"t")
    except OSError:
        return False


def release(descriptor: int) -> None:
    """Release a lock and close its file. Errors, such as a file server's, do not matter any more."""
    # Closing is not enough: a tool that is being started has a copy of the descriptor until its exec.
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    with contextlib.suppress(OSError):
        os.close(descriptor)
