"""A line of the event log: how it describes a call, and how it is appended without a lock.

A line consists of these fields, separated by tabs:

    the fields of Event, one field for each stage, `.`

The first three fields of Event are known only when the call ends. For a replay, the launcher writes these
three fields, then the rest of the line, which Python has prepared. Separators in texts are percent-encoded.

Event, StageEvent and RemoteUse are tables: each annotated name is a field, and the type of its default says
how it is written. If you change a table, change the version in the names of the logs, because lines of other
versions are not read. Also change the version of store.REPLAY, because replay records contain the end of a
line. If you change StageEvent, change the version of store.RECORD as well, because results contain stages.

events.py reads logs, and event_totals.py adds them up. Direct hits load this module, so it is part of the hot
path.
"""

from __future__ import annotations

import os

from nvccache.store import directory
from nvccache.store.directory import Directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, ClassVar, TypeVar

    R = TypeVar("R", bound="Record")

FOLDER = "journal"
LOG, OLD_LOG = "calls-v12.log", "calls-v12.old.log"
LARGE = 4 * 1024**2  # bytes at which a log is full; it then has some thousand calls
PARTS, ITEMS = "\x1f", "\x1e"  # separate the fields of a nested table, and the items of a list
HIT, RAN, FAILED, SHARED = "hit", "ran", "failed", "shared"  # values of `result` for a stage
LOCAL = "local"  # the value of `where` for a stage that ran on this machine
CACHED = "cached"  # the value of `away` for a stage whose result the executor already had
_LONGEST_TEXT, _MOST_ITEMS = 4096, 32
_SPECIAL = {"%": "%25", "\t": "%09", "\n": "%0A", PARTS: "%1F", ITEMS: "%1E"}


class Record:
    """The base class of the tables."""

    FIELDS: ClassVar[dict[str, object]] = {}  # names and default values

    def __init_subclass__(cls) -> None:
        cls.FIELDS = {name: getattr(cls, name) for name in cls.__annotations__}

    def __init__(self, *values: Any) -> None:
        for name, value in zip(self.FIELDS, values, strict=False):
            setattr(self, name, value)

    def values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.FIELDS}

    def texts(self) -> list[str]:
        return list(map(_text, self.values().values()))

    @classmethod
    def parse(cls: type[R], texts: Sequence[str]) -> R:
        """The inverse of `texts`; raises ValueError."""
        record = cls.__new__(cls)
        for (name, default), text in zip(cls.FIELDS.items(), texts, strict=True):
            setattr(record, name, _READERS[type(default)](text))
        return record


def quote(text: str) -> str:
    """Percent-encode the separators in a text."""
    for special, code in _SPECIAL.items():
        if special in text:
            text = text.replace(special, code)
    return text


def _unquoted(text: str) -> str:
    if "%" in text:
        for special, code in reversed(_SPECIAL.items()):  # the percent sign must be decoded last
            text = text.replace(code, special)
    return text


def _text(value: Any) -> str:
    if isinstance(value, str):
        return quote(value[:_LONGEST_TEXT])
    if isinstance(value, float):
        return f"{value:.6f}"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Record):
        return PARTS.join(value.texts())
    return ITEMS.join(quote(item[:_LONGEST_TEXT]) for item in value[:_MOST_ITEMS]) if value else ""


class RemoteUse(Record):
    asked: int = 0  # the number of objects queried
    found: int = 0
    bytes: int = 0
    seconds: float = 0.0
    faults: tuple[str, ...] = ()  # words of outcomes.REMOTE_FAULTS, without duplicates


class StageEvent(Record):
    kind: str = ""
    architecture: str = ""
    result: str = RAN  # SHARED if another process ran it
    start: float = 0.0  # seconds after the start of the call
    seconds: float = 0.0  # how long the tool ran, in this call or when the result was made
    slot: int = -1  # the job slot in which it ran, or -1
    where: str = ""  # where it ran: LOCAL, the executor's display name, or empty for a hit
    away: str = ""  # CACHED, or why it ran here after it had been sent away: a key of EXECUTOR_FAULTS
    cpu: float = 0.0  # CPU seconds of the tool; 0 if unknown

    def __init__(
        self, kind: str, result: str, seconds: float, architecture: str = "", cpu: float = 0.0
    ) -> None:
        self.kind = kind
        self.architecture = architecture
        self.result = result
        self.seconds = seconds
        self.cpu = cpu
        self.where = "" if result in (HIT, SHARED) else LOCAL

    @property
    def is_hit(self) -> bool:
        return self.result in (HIT, SHARED)

    @property
    def cost(self) -> float:
        """The tool's CPU seconds or, if unknown, elapsed seconds, which also depend on the machine's load."""
        return self.cpu or self.seconds


class Event(Record):
    started: float = 0.0  # Unix time
    seconds: float = 0.0  # from the start to the end of the call
    pid: int = 0
    outcome: str = ""
    reason: str = ""  # why the call was bypassed, or empty
    directory: str = ""
    product: str = ""  # the absolute path of the first product, empty if unknown
    sources: Sequence[str] = ()  # the inputs as typed
    cause: str = ""  # why the call was not replayed
    details: Sequence[str] = ()  # further causes
    store_fault: str = ""  # a word of outcomes.STORE_FAULTS, or empty
    tool_saved: float = 0.0  # CPU seconds of the tools that did not have to run
    overhead: float = 0.0  # CPU seconds of nvccache itself; always 0 for a replay: use `seconds`
    remote: RemoteUse | None = None  # None if no remote was queried

    def __init__(self, outcome: str = "", reason: str = "", started: float = 0.0) -> None:
        self.outcome = outcome
        self.reason = reason
        self.started = started
        self.pid = os.getpid()
        self.stages: list[StageEvent] = []
        self.replayed: Sequence[str] = ()  # stages of a recorded call, as they are encoded in its record

    @property
    def ended(self) -> float:
        return self.started + self.seconds


_OF_LAUNCHER = 3  # the number of fields that the launcher writes (launcher/event.c)
_READERS: dict[type, Callable[[str], Any]] = {
    str: _unquoted,
    int: int,
    float: float,
    tuple: lambda text: list(map(_unquoted, text.split(ITEMS))) if text else [],
    type(None): lambda text: RemoteUse.parse(text.split(PARTS)) if text else None,
}


def append(cache: str | Directory, event: Event) -> bool:
    """Append the event of one call to the log; returns whether the log is full. Ignores errors.

    Only users who can write to the cache may read the log, because it names what was compiled.
    """
    root = directory.at(cache)
    try:
        flags = os.O_WRONLY | os.O_APPEND
        descriptor, status = root.open(f"{FOLDER}/{LOG}", flags, make=True)
        try:
            os.write(descriptor, format_line(event))
        finally:
            os.close(descriptor)
    except OSError:
        return False
    return status.st_size >= LARGE


def format_line(event: Event) -> bytes:
    """The line of an event. It begins with a newline, in case a full disk has cut off the line before."""
    first = "\t".join(event.texts()[:_OF_LAUNCHER])
    return os.fsencode(f"\n{first}\t{end_of_line(event)}")


def end_of_line(event: Event) -> str:
    """The line of an event, without the first fields, which are known only when the call ends."""
    # These texts may come from a record of a remote, so they must not end the field or the line.
    replayed = (text for text in event.replayed if "\t" not in text and "\n" not in text)
    stages = [*map(_text, event.stages), *replayed]
    return "\t".join([*event.texts()[_OF_LAUNCHER:], *stages, ".\n"])


def text_of_hit(stage: StageEvent) -> str:
    """A stage as it is encoded in the events of calls that need not run it."""
    return _text(StageEvent(stage.kind, HIT, stage.seconds, stage.architecture, stage.cpu))


def parse_line(line: bytes) -> Event | None:
    """The event of a line; None if the line is damaged or was cut off."""
    *fields, end = os.fsdecode(line).split("\t")
    if end != ".":
        return None
    try:
        event = Event.parse(fields[: len(Event.FIELDS)])
        event.replayed = ()
        event.stages = [StageEvent.parse(field.split(PARTS)) for field in fields[len(Event.FIELDS) :]]
    except ValueError:
        return None
    return event
