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
        "locks: a holder that was suspended",
        "flock.py",
        'in (b"T", b"t")',
        "in ()",
        "test_flock.py",
        "stopped",
    ),
    Guard(
        "claims: a holder that was suspended",
        "inflight.py",
        "if seconds >= _BEAT_SECONDS and flock.is_held_by_stopped(self._descriptor):",
        "if False:",
        "test_inflight.py",
        "suspended or waited_for_once",
    ),
    Guard(
        "claims: what was passed on",
        "inflight.py",
        "if os.fstat(descriptor).st_nlink:",
        "if True:",
        "test_inflight.py",
        "passed_on",
    ),
    Guard(
        "slots: those of other cores",
        "slots.py",
        "numbers = [*share.affinity,",
        "numbers = [*range(len(share.affinity)),",
        "test_slots.py",
        "other_cores",
    ),
    Guard(
        "slots: those below another quota",
        "cgroups.py",
        "self.group = _name(directory)",
        "pass",
        "test_slots.py",
        "one_quota",
    ),
    Guard(
        "leftovers: names of others",
        "leftovers.py",
        "and int(match[1]) == os.geteuid():",
        ":",
        LEFTOVERS,
        "names_of_others",
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
