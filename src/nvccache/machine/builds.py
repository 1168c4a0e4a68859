"""Which build a call belongs to: the process below the leader of its session from which it was started.

A shell that is typed into leads a session, so that is what was typed: make, ninja or a script, with all that
these start. Part of the hot path; launcher/build.c does the same.
"""

from __future__ import annotations

import os

_MOST_ANCESTORS = 64
_MOST_BYTES = 4096


def build_of_call(proc: str = "/proc") -> str:
    """PID and start of the topmost ancestor below the session's leader, or below process 1.

    Empty if there is none, as for a call that is itself typed into a shell, or if the session has ended
    before, as for one that `setsid` starts. Then events.py groups calls by time.
    """
    build = ""
    try:
        parent, session, _ = _status(proc, "self")
        for _ in range(_MOST_ANCESTORS):
            if parent in (session, "1", "0"):
                return build
            build = parent
            parent, of_session, started = _status(proc, build)
            build = f"{build}-{started}"
            if of_session != session:
                break
    except (OSError, IndexError):
        pass
    return ""


def _status(proc: str, pid: str) -> tuple[str, str, str]:
    """The parent of a process, its session, and its start in ticks."""
    descriptor = os.open(f"{proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        fields = os.read(descriptor, _MOST_BYTES).rpartition(b")")[2].decode().split()
    finally:
        os.close(descriptor)
    return fields[1], fields[3], fields[19]
