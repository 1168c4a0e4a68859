"""One line of the event log: the fields of a call's event, and how a call appends it without a lock.

Part of the hot path; events.py reads logs, event_totals.py adds them up. A line is

    the fields of Event, one field per stage, `.`

separated by tabs. The unit separator is between the items of a list, the fields of a stage, and those of
RemoteUse. Separators in texts are percent-encoded.

Event, RemoteUse and StageEvent are tables with a row for each field: name, type, encoding, default, and the
counter of the totals that it adds to. **Add a new field at the end of its table**; in Event its text must not
contain a unit separator. Fields missing from an older line have their defaults; unknown fields of a newer
line are skipped.
"""

from __future__ import annotations

import os

from nvccache.store import directory
from nvccache.store.directory import Directory, UntrustedFileError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    R = TypeVar("R", bound="Record")

FOLDER = "journal"
LOG = "calls-v6.log"
CLOSED = b"\nclosed\t.\n"  # ends a log; a writer that finds its line behind this appends it to the next log
LARGE = 1024**2  # bytes at which a call folds the log: some thousand calls
SEPARATOR = "\x1f"
GAP = "\x1a"  # before a letter of GAPS, in a line that the launcher completes
HIT, RAN, FAILED, SHARED = "hit", "ran", "failed", "shared"  # results of a stage
LOCAL = "local"  # `where` of a stage that ran on this machine
APPEND_TRIES = 5
TAIL = 1 << 13  # bytes at the end of the log: several calls
_LONGEST_CLAUSE = 400  # characters of a reason; keeps lines short enough for a single write
_MOST_SOURCES = 32
_SPECIAL = {"%": "%25", "\t": "%09", "\n": "%0A", SEPARATOR: "%1F", GAP: "%1A"}
_LARGEST_SECONDS, _LARGEST_TIME, _LARGEST_BYTES = 1e9, 1e11, 1e15


class SecondNameError(UntrustedFileError):
    """A log has a second hard link, such as one made by a backup program."""


class Field:
    """One field of an event, a row of the tables below.

    `write` encodes a value as text; `read` decodes it, or raises ValueError. `counter` names a counter of
    event_totals.py: numbers are added to it, and words are counted under their own names; the type of
    `default` decides. `gap` marks fields that the launcher fills in when it replays a call.
    """

    __slots__ = ("counter", "default", "gap", "name", "read", "write")

    def __init__(
        self,
        kind: tuple[Callable[[Any], str], Callable[[str], Any]],
        default: object,
        counter: str,
        gap: bool,
    ) -> None:
        self.write, self.read = kind
        self.default = default
        self.counter = counter
        self.gap = gap

    def __set_name__(self, _: type, name: str) -> None:
        self.name = name


class Record:
    """Base of the tables. Lines of every version have the first MIN_FIELDS fields."""

    FIELDS: tuple[Field, ...] = ()
    MIN_FIELDS = 0

    def __init_subclass__(cls) -> None:
        """Collect the rows, and replace them by their defaults as class attributes."""
        cls.FIELDS = tuple(value for value in vars(cls).values() if isinstance(value, Field))
        for field in cls.FIELDS:
            setattr(cls, field.name, field.default)

    def texts(self) -> list[str]:
        return [field.write(getattr(self, field.name)) for field in self.FIELDS]

    @classmethod
    def of(cls: type[R], texts: Sequence[str]) -> R:
        """The inverse of `texts`; raises ValueError."""
        if len(texts) < cls.MIN_FIELDS:
            raise ValueError(texts)
        made = cls.__new__(cls)
        for field, text in zip(cls.FIELDS, texts, strict=False):
            setattr(made, field.name, field.read(text))
        return made


def row(
    kind: tuple[Callable[[Any], str], Callable[[str], Any]],
    default: object = "",
    counter: str = "",
    gap: bool = False,
) -> Any:
    """A row of a table; returns Any because the annotation gives the type of the value."""
    return Field(kind, default, counter, gap)


def quote(text: str) -> str:
    """Percent-encode the separators in a text."""
    for special, code in _SPECIAL.items():
        if special in text:
            text = text.replace(special, code)
    return text


def _unquoted(text: str) -> str:
    if "%" in text:
        for special, code in reversed(_SPECIAL.items()):  # the percent sign last
            text = text.replace(code, special)
    return text


def _number(text: str, largest: float = _LARGEST_SECONDS) -> float:
    """Raises ValueError for impossible values, and for nan, which would spoil every sum."""
    value = float(text)
    if not -largest < value < largest:
        raise ValueError(text)
    return value


def _moment(text: str) -> float:
    """Raises ValueError for times before 1970, which neither `--since` nor the report could show."""
    if (value := _number(text, _LARGEST_TIME)) < 0:
        raise ValueError(text)
    return value


def _amount(text: str) -> float:
    return _number(text, _LARGEST_BYTES)


def _integer(text: str) -> int:
    return int(text[:20])


def _result(text: str) -> str:
    if text not in (HIT, RAN, FAILED, SHARED):
        raise ValueError(text)
    return text


# The kinds of fields: encoder and decoder.
WORD = (str, str)
WORDS = (",".join, lambda text: tuple(word for word in text.split(",") if word))
TEXT = (quote, _unquoted)
CLAUSE = (lambda text: quote(text[:_LONGEST_CLAUSE]), _unquoted)
TEXTS = (
    lambda texts: SEPARATOR.join(map(quote, texts[:_MOST_SOURCES])),
    lambda text: list(map(_unquoted, text.split(SEPARATOR))) if text else [],
)
SECONDS = ("{:.6f}".format, _number)
MOMENT = ("{:.6f}".format, _moment)  # a Unix time
INTEGER = (str, _integer)
AT_LEAST_ONE = (str, lambda text: max(1, _integer(text)))
COUNT = (str, lambda text: int(_amount(text)))
AMOUNT = (str, _amount)
RESULT = (str, _result)
REMOTE = (
    lambda use: SEPARATOR.join(use.texts()) if use else "",
    lambda text: RemoteUse.of(text.split(SEPARATOR)) if text else None,
)


class RemoteUse(Record):
    """A call's queries to remotes."""

    MIN_FIELDS = 5
    asked: int = row(COUNT, 0, "remote.asked")  # names queried
    found: int = row(COUNT, 0, "remote.found")
    bytes: int = row(COUNT, 0, "remote.bytes_received")
    seconds: float = row(SECONDS, 0.0, "remote.seconds_waited")
    faults: tuple[str, ...] = row(WORDS, (), "remote.faults")  # of outcomes.REMOTE_FAULTS, each once

    def __init__(
        self, asked: int, found: int, size: int, seconds: float, faults: tuple[str, ...] = ()
    ) -> None:
        self.asked = asked
        self.found = found
        self.bytes = size
        self.seconds = seconds
        self.faults = faults


class StageEvent(Record):
    """One stage of a call. Seconds are wall-clock seconds, except `cpu`."""

    MIN_FIELDS = 12
    kind: str = row(WORD)
    architecture: str = row(WORD)
    result: str = row(RESULT)  # SHARED if another process ran it
    why: str = row(CLAUSE)  # the cause of a miss
    start: float = row(SECONDS, 0.0)  # after the start of the call
    seconds: float = row(SECONDS, 0.0)  # spent by the tool, or saved
    wall: float = row(SECONDS, 0.0)  # its share of the time in which tools of its call ran (StageClock)
    slot: int = row(INTEGER, -1)  # the job slot, or -1
    where: str = row(WORD)  # LOCAL, the executor's display name, or empty for a hit
    # The costs on another machine (events.RemoteCosts), or why it ran here instead, of EXECUTOR_FAULTS.
    away: str = row(WORD)
    cpu: float = row(SECONDS, 0.0)  # CPU seconds, 0 if unknown
    # Spent on an earlier run of its tool, with a module id that turned out not to be nvcc's.
    in_vain: float = row(SECONDS, 0.0, "in_vain.seconds")

    def __init__(
        self,
        kind: str,
        result: str,
        seconds: float,
        wall: float = 0.0,
        architecture: str = "",
        cpu: float = 0.0,
    ) -> None:
        self.kind = kind
        self.architecture = architecture
        self.result = result
        self.seconds = seconds
        self.wall = wall
        self.cpu = cpu
        self.where = "" if result in (HIT, SHARED) else LOCAL

    @property
    def is_hit(self) -> bool:
        return self.result in (HIT, SHARED)

    @property
    def cost(self) -> float:
        """CPU seconds if known: wall-clock seconds grow with the load of the machine."""
        return self.cpu or self.seconds


class Event(Record):
    """One call. Seconds are wall-clock seconds."""

    MIN_FIELDS = 16
    started: float = row(MOMENT, 0.0, gap=True)
    seconds: float = row(SECONDS, 0.0, "seconds", gap=True)
    outcome: str = row(WORD, counter="calls")
    reason: str = row(WORD)  # of a bypass, or `outcomes.LINKED`
    directory: str = row(TEXT)
    product: str = row(TEXT)  # the absolute path, empty if unknown
    sources: Sequence[str] = row(TEXTS, ())  # the inputs as typed
    cause: str = row(CLAUSE)  # why the call was not replayed
    pid: int = row(INTEGER, 0, gap=True)
    store_fault: str = row(WORD, counter="store_faults")  # of outcomes.STORE_FAULTS, or empty
    # The invalid settings, replaced by their defaults; separated by commas.
    wrong_settings: str = row(WORD, counter="wrong_settings")
    # By how much the build became shorter: the wall-clock time that the skipped stages took when they ran,
    # less the time of nvccache itself, divided by `jobs`.
    wall_saved: float = row(SECONDS, 0.0, "wall_seconds_saved", gap=True)
    tool_saved: float = row(SECONDS, 0.0, "seconds_saved")  # what the tools of the skipped stages took
    remote: RemoteUse | None = row(REMOTE, None)  # None if no remote was queried
    build: str = row(WORD, gap=True)  # see machine/callers.py, also for `jobs`
    jobs: int = row(AT_LEAST_ONE, 1, gap=True)  # of the build that share the clock

    stages: list[StageEvent]
    replayed: Sequence[str] = ()  # further stages, encoded

    def __init__(self, outcome: str = "", reason: str = "", started: float = 0.0) -> None:
        self.outcome = outcome
        self.reason = reason
        self.started = started
        self.pid = os.getpid()
        self.stages = []

    @property
    def ended(self) -> float:
        return self.started + self.seconds


# The letters of the fields that the launcher fills in.
GAPS = {name: chr(97 + at) for at, name in enumerate(field.name for field in Event.FIELDS if field.gap)}
BUILD_FIELD = [field.name for field in Event.FIELDS].index("build")  # `jobs` is the next one


def append(cache: str | Directory, event: Event) -> None:
    """Append the event of one call; a log that cannot be written is ignored."""
    root = directory.at(cache)
    line = line_of(event)
    try:
        root.prepare()
        for _ in range(APPEND_TRIES):
            if _append_line(root, line):
                return
    except OSError:
        pass


def most_jobs(cache: str | Directory, build: str) -> int:
    """The highest number of jobs in a build's latest events; 0 if the log has none."""
    try:
        descriptor, status = directory.at(cache).open(f"{FOLDER}/{LOG}")
        try:
            tail = os.pread(descriptor, TAIL, max(0, status.st_size - TAIL))
        finally:
            os.close(descriptor)
    except OSError:
        return 0
    lines = (line.split(b"\t") for line in tail.split(b"\n") if line.endswith(b"\t."))
    wanted = build.encode()
    found = (line[BUILD_FIELD + 1][:9] for line in lines if line[BUILD_FIELD : BUILD_FIELD + 1] == [wanted])
    return max((int(jobs) for jobs in found if jobs.isdigit()), default=0)


def is_large(cache: str | Directory) -> bool:
    """Whether the log should be folded; costs one stat."""
    try:
        return directory.at(cache).status(f"{FOLDER}/{LOG}").st_size >= LARGE
    except OSError:
        return False


def open_log(root: Directory, path: str, flags: int, make: bool = False) -> int:
    """Open a log for writing; raises OSError.

    Refuses a log with a second hard link, which may be a file outside the cache. Logs name what was compiled,
    so only users who can write to the cache may read them.
    """
    descriptor, status = root.open(path, flags, make, for_writers=True)
    if status.st_nlink > 1:
        os.close(descriptor)
        raise SecondNameError(f"`{path}` has another hard link")
    return descriptor


def line_of(event: Event) -> bytes:
    return _line(event.texts(), event).encode(errors="surrogateescape")


def replayed_line(event: Event) -> str:
    """The line for replays of a call, with gaps that the launcher fills in."""
    texts = zip(event.FIELDS, event.texts(), strict=True)
    return _line([GAP + GAPS[field.name] if field.gap else text for field, text in texts], event)


def _line(texts: list[str], event: Event) -> str:
    """A line. If the one before was cut off by a full disk, the leading newline separates it from this one;
    without its last field `.`, it is not taken for a shorter line."""
    stages = [*map(_text_of_stage, event.stages), *filter(_is_field, event.replayed)]
    return "\n" + "\t".join([*texts, *stages, ".\n"])


def _is_field(text: str) -> bool:
    return not ("\t" in text or "\n" in text or GAP in text)


def text_of_hit(stage: StageEvent) -> str:
    """A stage as encoded in the events of calls that replay it."""
    return _text_of_stage(
        StageEvent(stage.kind, HIT, stage.seconds, stage.wall, stage.architecture, stage.cpu)
    )


def _text_of_stage(stage: StageEvent) -> str:
    return SEPARATOR.join(stage.texts())


def _append_line(root: Directory, line: bytes) -> bool:
    """Append `line`; False if a fold closed the log before."""
    path = f"{FOLDER}/{LOG}"
    try:
        descriptor = open_log(root, path, os.O_RDWR | os.O_APPEND, make=True)
    except UntrustedFileError:  # planted, or linked by a backup: only this name is removed
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
            return True  # a fold renames the log before it closes it, so this one is still open
        start = os.lseek(descriptor, 0, os.SEEK_CUR) - len(line)
        return CLOSED not in os.pread(descriptor, start, 0)
    finally:
        os.close(descriptor)
