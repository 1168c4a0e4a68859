"""After a fault, all processes of this user on this machine skip the remote or executor for a minute.

An outage is a file next to the user's slots, and began at the date of the file. It is not shared, since other
machines, and users with other credentials, may not see the same fault. Without a pool directory, each process
has to detect the fault itself.

    outage-<identity> two lines: the word of the fault, and a clause for the user
"""

from __future__ import annotations

import contextlib
import os
import time

from nvccache.machine import slots
from nvccache.values import dataclass

SECONDS = 60.0
OF_EXECUTOR = "executor-{}"  # the identity of an engine or launcher
OF_WRITING = "{}-rw"  # an identity for writing, since a full remote can still be read


@dataclass(slots=True)
class Outage:
    until: float  # a Unix time
    word: str  # names the fault: a key of outcomes.REMOTE_FAULTS or EXECUTOR_FAULTS
    text: str  # a clause for the user


def current(identity: str) -> Outage | None:
    """The present outage of a remote or executor, or None. Like all functions here, raises nothing."""
    try:
        with open(_path(identity), encoding="utf-8", errors="replace") as stream:
            began = os.fstat(stream.fileno()).st_mtime
            word, text = stream.read().split("\n")[:2]
    except (OSError, ValueError):  # ValueError: another process is writing the file
        return None
    # A date in the future means that the clock was set back.
    return Outage(began + SECONDS, word, text) if 0 <= time.time() - began < SECONDS else None


def begin(identity: str, word: str, text: str) -> None:
    content = f"{word}\n{text}\n".encode(errors="replace")
    with contextlib.suppress(OSError), open(_path(identity), "wb") as stream:
        stream.write(content)


def end(identity: str) -> None:
    """End an outage because the remote works again."""
    with contextlib.suppress(OSError):
        os.unlink(_path(identity))


def to_json(outage: Outage | None) -> dict[str, object] | None:
    """The outage for JSON output (docs/reference/json.md); None if there is none."""
    return {"until": outage.until, "word": outage.word, "text": outage.text} if outage else None


def _path(identity: str) -> str:
    # Without a pool directory, the path is below /dev/null, so all reads and writes fail.
    return f"{slots.pool_directory() or '/dev/null'}/outage-{identity}"
