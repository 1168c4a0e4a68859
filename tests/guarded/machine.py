"""Checks of `machine`."""

from __future__ import annotations

from guarded.table import LEFTOVERS, TERMINALS, Guard

GUARDS = [
    Guard(
        "figures: a build tool of another session",
        "callers.py",
        "if of_session != session:",
        "if False:",
        "test_callers.py",
        "another_session",
    ),
    Guard(
        "figures: jobs that cannot be counted",
        "callers.py",
        "return min(most, cores) if all(counted) else cores",
        "return min(most, cores)",
        "test_callers.py",
        "cannot_be_counted",
    ),
    Guard(
        "terminals: its width", "terminals.py", "size_of(2).hex(), size_of(0).hex(), ", "", TERMINALS, "wide"
    ),
    Guard(
        "the watchdog has left the process group",
        "watchdog.py",
        "if not _is_ready(ours, pid):",
        "if False:",
        "test_watchdog_kills.py",
        "left_the_process_group",
    ),
    Guard(
        "leftovers: what is in use",
        "leftovers.py",
        "if flock.take(descriptor):",
        "if True:",
        LEFTOVERS,
        "in_use",
    ),
    Guard(
        "locks: given up although a child has the file",
        "flock.py",
        "fcntl.flock(descriptor, fcntl.LOCK_UN)",
        "pass",
        "test_flock.py",
        "child_has",
    ),
    Guard(
        "leftovers: what others left",
        "leftovers.py",
        "if found.st_uid != os.geteuid():",
        "if False:",
        LEFTOVERS,
        "others_left",
    ),
    Guard(
        "leftovers: what other machines left",
        "leftovers.py",
        "if not is_from_here and",
        "if False and",
        LEFTOVERS,
        "another_machine",
    ),
    Guard(
        "leftovers: what is swept before it is locked",
        "leftovers.py",
        "if is_ours and os.path.samestat(os.stat(path), os.fstat(descriptor)):",
        "if True:",
        LEFTOVERS,
        "before_it_is",
    ),
]
