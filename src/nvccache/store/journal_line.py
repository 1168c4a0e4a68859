"""The record of one call in the journal: appended by every call, without a lock.

Part of the hot path; journal.py owns the form of the lines and reads them.
"""

from __future__ import annotations

import os

from nvccache.store import directory
from nvccache.store.directory import Directory, StrangeFileError

FOLDER = "journal"
LOG = "calls-v3.log"
CLOSED = b"\nclosed\t.\n"  # ends a log: what comes after it is not counted, and its writer knows
LARGE = 1024**2  # bytes of log at which a call folds it: some thousand calls
_APPEND_TRIES = 5


class SecondNameError(StrangeFileError):
    """A log has a name outside the cache as well, as in a backup made of hard links."""


class Call:
    """What became of one call. Seconds are wall-clock seconds.

    `reason` is why it was a bypass, or `outcomes.LINKED`. `stages` holds (stage, hit, seconds): seconds spent
    on a miss, saved on a hit. `product` is the absolute path of what the call makes, empty where that is not
    known. `store_fault` is a word of outcomes.STORE_FAULTS, or empty. `wrong_settings` names the settings
    that are wrong, so that their defaults were in force, with commas between them.
    """

    __slots__ = (
        "outcome",
        "product",
        "reason",
        "seconds",
        "seconds_saved",
        "stages",
        "store_fault",
        "wrong_settings",
    )

    def __init__(
        self,
        outcome: str,
        reason: str = "",
        stages: list[tuple[str, bool, float]] | None = None,
        seconds_saved: float = 0.0,
        seconds: float = 0.0,
    ) -> None:
        self.outcome = outcome
        self.reason = reason
        self.stages = stages if stages is not None else []
        self.seconds_saved = seconds_saved
        self.seconds = seconds
        self.product = ""
        self.store_fault = ""
        self.wrong_settings = ""


def append(place: str | Directory, call: Call) -> None:
    """Record one call; a journal that cannot be written is not worth a word."""
    root = directory.at(place)
    line = _line(call)
    try:
        root.prepare()
        for _ in range(_APPEND_TRIES):
            if _append_line(root, line):
                return
    except OSError:
        pass


def is_large(place: str | Directory) -> bool:
    """Whether the log is to be folded, at the price of one stat."""
    try:
        return directory.at(place).status(f"{FOLDER}/{LOG}").st_size >= LARGE
    except OSError:
        return False


def open_log(root: Directory, path: str, flags: int, make: bool = False) -> int:
    """A descriptor of a log that is written to; raises OSError.

    Not of one with a second name: that may be a file of somebody's outside the cache.
    """
    descriptor, status = root.open(path, flags, make)
    if status.st_nlink > 1:
        os.close(descriptor)
        raise SecondNameError(f"`{path}` has another name elsewhere")
    return descriptor


def _line(call: Call) -> bytes:
    fields = [call.outcome, call.reason, f"{call.seconds:.6f}", f"{call.seconds_saved:.6f}"]
    fields += (_quote(call.product), call.store_fault, call.wrong_settings)
    for stage, hit, seconds in call.stages:
        fields += (stage, "hit" if hit else "miss", f"{seconds:.6f}")
    # The leading newline and the last field keep a line torn by a full disk from
    # spoiling its neighbour or from being read as a shorter one.
    return ("\n" + "\t".join(fields) + "\t.\n").encode(errors="surrogateescape")


def _quote(path: str) -> str:
    return path.replace("%", "%25").replace("\t", "%09").replace("\n", "%0A")


def _append_line(root: Directory, line: bytes) -> bool:
    """Append `line`; False when the log was closed by a fold before the line got into it."""
    path = f"{FOLDER}/{LOG}"
    try:
        descriptor = open_log(root, path, os.O_RDWR | os.O_APPEND, make=True)
    except SecondNameError:
        root.unlink(path)
        descriptor = open_log(root, path, os.O_RDWR | os.O_APPEND, make=True)
    try:
        if os.write(descriptor, line) < len(line):
            return True  # the disk is full: a second try would not help
        ours = os.fstat(descriptor)
        try:
            named = root.status(path)
        except FileNotFoundError:
            named = None
        if named and (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino):
            return True  # a fold renames before it closes, so nothing is closed yet
        start = os.lseek(descriptor, 0, os.SEEK_CUR) - len(line)
        return CLOSED not in os.pread(descriptor, start, 0)
    finally:
        os.close(descriptor)
