"""After a fault, all processes of this user on this machine skip a remote, or an engine, for a minute.

The files are in the pool directory with the user's slots: other machines, and other users with their own
credentials, may not see the same fault. Without a pool directory, each process has to find out by itself.

    outage-<identity>    two lines, the word of the fault and a clause; its date is when the outage began
"""

from __future__ import annotations

import contextlib
import os
import time

from nvccache.machine import slots
from nvccache.values import dataclass

SECONDS = 60.0
OF_EXECUTOR = "executor-{}"  # the identity of an engine or launcher
OF_WRITING = "{}-rw"  # the identity of a remote for writing: one that is full can still be read


@dataclass(slots=True)
class Outage:
    until: float  # a Unix time
    word: str  # of the fault, a key of outcomes.REMOTE_FAULTS or EXECUTOR_FAULTS
    text: str  # a clause for the user


def current(identity: str) -> Outage | None:
    """The outage of a remote, if there is one now. Raises nothing, like all functions here."""
    try:
        with open(_path(identity), encoding="utf-8", errors="replace") as stream:
            began = os.fstat(stream.fileno()).st_mtime
            word, text = stream.read().split("\n")[:2]
    except (OSError, ValueError):  # ValueError: it is being written
        return None
    # If the date is in the future, the clock was set back.
    return Outage(began + SECONDS, word, text) if 0 <= time.time() - began < SECONDS else None


def begin(identity: str, word: str, text: str) -> None:
    content = f"{word}\n{text}\n".encode(errors="replace")
    with contextlib.suppress(OSError), open(_path(identity), "wb") as stream:
        stream.write(content)


def end(identity: str) -> None:
    """End an outage: the remote works again."""
    with contextlib.suppress(OSError):
        os.unlink(_path(identity))


def to_json(outage: Outage | None) -> dict[str, object] | None:
    """An outage, in the documented form."""
    return {"until": outage.until, "word": outage.word, "text": outage.text} if outage else None


def _path(identity: str) -> str:
    # Below /dev/null all reads and writes fail.
    return f"{slots.pool_directory() or '/dev/null'}/outage-{identity}"
