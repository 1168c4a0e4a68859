"""After a fault, all processes of this user and machine leave a remote, or an engine, alone for a minute.

The files are in the pool directory with the user's slots: other machines, and other users with their own
credentials, may not see the same fault. Without a pool directory, each process has to find out by itself.

    outage-<identity>    the word of the fault and a clause, a line each; when it began is the file's date
"""

from __future__ import annotations

import contextlib
import os
import time

from nvccache.files import untrusted
from nvccache.machine import slots
from nvccache.values import dataclass

SECONDS = 60.0
OF_EXECUTOR = "executor-{}"  # the identity of an engine or launcher
OF_WRITING = "{}-rw"  # the identity of a remote for writing: one that is full can still be read
_MOST = 4096  # bytes of a file


@dataclass(slots=True)
class Outage:
    until: float  # a Unix time
    word: str  # of the fault, a key of outcomes.REMOTE_FAULTS or EXECUTOR_FAULTS
    text: str  # a clause for the user


def current(identity: str) -> Outage | None:
    """The outage of a remote, if there is one now. Raises nothing, like all functions here."""
    with contextlib.suppress(OSError, ValueError):
        descriptor = os.open(_path(identity), os.O_RDONLY | untrusted.FILE)
        try:
            began = os.fstat(descriptor).st_mtime
            word, text = os.read(descriptor, _MOST).decode(errors="replace").split("\n")[:2]
        finally:
            os.close(descriptor)
        # A date in the future is that of a clock that was set back.
        if 0 <= time.time() - began < SECONDS:
            return Outage(began + SECONDS, word, text)
    return None


def begin(identity: str, word: str, text: str) -> None:
    temporary = f"{_path(identity)}.{os.getpid()}.{os.urandom(4).hex()}"
    content = f"{word}\n{text}\n".encode(errors="replace")
    with contextlib.suppress(OSError):
        untrusted.write_new(temporary, content, 0o600)
        os.rename(temporary, _path(identity))


def end(identity: str) -> None:
    """The remote works again."""
    untrusted.remove(_path(identity))


def to_json(outage: Outage | None) -> dict[str, object] | None:
    """An outage, in the documented form."""
    return {"until": outage.until, "word": outage.word, "text": outage.text} if outage else None


def _path(identity: str) -> str:
    # Below /dev/null all reads and writes fail.
    return f"{slots.pool_directory() or '/dev/null'}/outage-{identity}"
