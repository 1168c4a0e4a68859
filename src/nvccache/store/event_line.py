"""The event log's record of one call: what it consists of, and how every call appends one, without a lock.

Part of the hot path; events.py reads logs, event_totals.py adds them up. A line is

    the fields of Event, then those of each stage, `.`

tab separated. The unit separator is between parts of a list, of a stage, and of what was asked of remotes.
What would end a field or a line is percent-encoded.

Event, RemoteUse and StageEvent are tables with a row for each fact: its name, its type, how it is written and
read, what it is where it is not told, and the counter of the totals that it adds to. **A new fact is a row at
the end of its table**, of Event one whose text has no unit separator: in a line that was written without it,
it has its default, and who reads a line with more facts than it knows passes these over.
"""

from __future__ import annotations

import os

from nvccache.store import directory
from nvccache.store.directory import Directory, StrangeFileError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    R = TypeVar("R", bound="Record")

FOLDER = "journal"
LOG = "calls-v6.log"
CLOSED = b"\nclosed\t.\n"  # ends a log: what comes after it is not counted, and its writer knows
LARGE = 1024**2  # bytes of log at which a call folds it: some thousand calls
SEPARATOR = "\x1f"
GAP = "\x1a"  # stands before a letter of GAPS, in a line that the launcher completes
HIT, RAN, FAILED, SHARED = "hit", "ran", "failed", "shared"  # results of a stage
LOCAL = "local"  # where a stage ran that ran here
APPEND_TRIES = 5
TAIL = 1 << 13  # bytes of log: some calls
_LONGEST_CLAUSE = 400  # characters; a reason is a clause, and a line is appended in one piece
_MOST_SOURCES = 32
_SPECIAL = {"%": "%25", "\t": "%09", "\n": "%0A", SEPARATOR: "%1F", GAP: "%1A"}
_LARGEST_SECONDS, _LARGEST_TIME, _LARGEST_BYTES = 1e9, 1e11, 1e15


class SecondNameError(StrangeFileError):
    """A log has a name outside the cache as well, as in a backup made of hard links."""


class Field:
    """One fact of an event, a row of the tables below.

    `write` makes its text, and `read` its value again, or raises ValueError. `adds` is a counter of
    event_totals.py: a number itself is added, and of words one to the counter of each; `default` says which
    it is. `gap` marks what only the launcher knows of a call that it replays.
    """

    __slots__ = ("adds", "default", "gap", "name", "read", "write")

    def __init__(
        self, kind: tuple[Callable[[Any], str], Callable[[str], Any]], default: object, adds: str, gap: bool
    ) -> None:
        self.write, self.read = kind
        self.default = default
        self.adds = adds
        self.gap = gap

    def __set_name__(self, _: type, name: str) -> None:
        self.name = name


class Record:
    """What has the fields of a table. LEAST are how many of them lines of any version have."""

    FIELDS: tuple[Field, ...] = ()
    LEAST = 0

    def __init_subclass__(cls) -> None:
        """Gather the rows; in their place stand the defaults, for what an instance is not told."""
        cls.FIELDS = tuple(value for value in vars(cls).values() if isinstance(value, Field))
        for field in cls.FIELDS:
            setattr(cls, field.name, field.default)

    def texts(self) -> list[str]:
        return [field.write(getattr(self, field.name)) for field in self.FIELDS]

    @classmethod
    def of(cls: type[R], texts: Sequence[str]) -> R:
        """The inverse of `texts`; raises ValueError."""
        if len(texts) < cls.LEAST:
            raise ValueError(texts)
        made = cls.__new__(cls)
        for field, text in zip(cls.FIELDS, texts, strict=False):
            setattr(made, field.name, field.read(text))
        return made


def row(
    kind: tuple[Callable[[Any], str], Callable[[str], Any]],
    default: object = "",
    adds: str = "",
    gap: bool = False,
) -> Any:
    """A row of a table, whose value is of the type that its annotation says."""
    return Field(kind, default, adds, gap)


def quote(text: str) -> str:
    """A text as it stands in a line."""
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
    """Raises ValueError for what cannot be a time, nan included: it would swallow every sum."""
    value = float(text)
    if not -largest < value < largest:
        raise ValueError(text)
    return value


def _moment(text: str) -> float:
    """No call began before 1970, and `--since` would see it as little as the report does."""
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


# Of each kind of fact how it is written and how it is read.
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
    """What a call asked of remotes."""

    LEAST = 5
    asked: int = row(COUNT, 0, "remote.asked")  # names
    found: int = row(COUNT, 0, "remote.found")  # of these
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
    """What became of one stage of a call. Seconds are wall-clock seconds, but for `cpu`."""

    LEAST = 12
    kind: str = row(WORD)
    architecture: str = row(WORD)
    result: str = row(RESULT)  # SHARED where another process ran it meanwhile
    why: str = row(CLAUSE)  # why it was not found
    start: float = row(SECONDS, 0.0)  # after that of the call
    seconds: float = row(SECONDS, 0.0)  # spent by the tool, or saved
    wall: float = row(SECONDS, 0.0)  # its share of the time in which tools of its call ran (StageClock)
    slot: int = row(INTEGER, -1)  # the job slot, or -1
    where: str = row(WORD)  # LOCAL, an executor as it is shown, or empty for a hit
    # What it cost there (events.Away), or why it ran here though it was sent, of outcomes.EXECUTOR_FAULTS.
    away: str = row(WORD)
    cpu: float = row(SECONDS, 0.0)  # seconds on a CPU, 0 where that is not known
    # For which its tool ran before with a module id that was not nvcc's.
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
        """What its tool takes: others that run meanwhile make its seconds more, and not those of a CPU."""
        return self.cpu or self.seconds


class Event(Record):
    """What became of one call. Seconds are wall-clock seconds."""

    LEAST = 16
    started: float = row(MOMENT, 0.0, gap=True)
    seconds: float = row(SECONDS, 0.0, "seconds", gap=True)
    outcome: str = row(WORD, adds="calls")
    reason: str = row(WORD)  # why it was a bypass, or `outcomes.LINKED`
    directory: str = row(TEXT)
    product: str = row(TEXT)  # the absolute path of what the call makes, empty where that is not known
    sources: Sequence[str] = row(TEXTS, ())  # the inputs as they were typed
    cause: str = row(CLAUSE)  # why the call was not replayed
    pid: int = row(INTEGER, 0, gap=True)
    store_fault: str = row(WORD, adds="store_faults")  # of outcomes.STORE_FAULTS, or empty
    # The settings that are wrong, so that their defaults were in force, with commas between them.
    wrong_settings: str = row(WORD, adds="wrong_settings")
    # By how much the build became shorter: what the stages that did not run took of the wall clock when they
    # ran, less what nvccache itself took, divided by `jobs`.
    wall_saved: float = row(SECONDS, 0.0, "wall_seconds_saved", gap=True)
    tool_saved: float = row(SECONDS, 0.0, "seconds_saved")  # what the tools of these stages took
    remote: RemoteUse | None = row(REMOTE, None)  # None where no remote was asked
    build: str = row(WORD, gap=True)  # see machine/callers.py, as of the next
    jobs: int = row(AT_LEAST_ONE, 1, gap=True)  # of the build, that share the clock

    stages: list[StageEvent]
    replayed: Sequence[str] = ()  # further stages, as texts

    def __init__(self, outcome: str = "", reason: str = "", started: float = 0.0) -> None:
        self.outcome = outcome
        self.reason = reason
        self.started = started
        self.pid = os.getpid()
        self.stages = []

    @property
    def ended(self) -> float:
        return self.started + self.seconds


# The letters of what only the launcher knows, in a line that it completes.
GAPS = {name: chr(97 + at) for at, name in enumerate(field.name for field in Event.FIELDS if field.gap)}
BUILD_FIELD = [field.name for field in Event.FIELDS].index("build")  # the next one is that of its jobs


def append(place: str | Directory, event: Event) -> None:
    """Record one call; an event log that cannot be written is not worth a word."""
    root = directory.at(place)
    line = line_of(event)
    try:
        root.prepare()
        for _ in range(APPEND_TRIES):
            if _append_line(root, line):
                return
    except OSError:
        pass


def jobs_seen(place: str | Directory, build: str) -> int:
    """The most jobs that the last calls of a build have seen; 0 where the log does not tell."""
    try:
        descriptor, status = directory.at(place).open(f"{FOLDER}/{LOG}")
        try:
            tail = os.pread(descriptor, TAIL, max(0, status.st_size - TAIL))
        finally:
            os.close(descriptor)
    except OSError:
        return 0
    lines = (line.split(b"\t") for line in tail.split(b"\n") if line.endswith(b"\t."))
    wanted = build.encode()
    told = (line[BUILD_FIELD + 1][:9] for line in lines if line[BUILD_FIELD : BUILD_FIELD + 1] == [wanted])
    return max((int(jobs) for jobs in told if jobs.isdigit()), default=0)


def is_large(place: str | Directory) -> bool:
    """Whether the log is to be folded, at the price of one stat."""
    try:
        return directory.at(place).status(f"{FOLDER}/{LOG}").st_size >= LARGE
    except OSError:
        return False


def open_log(root: Directory, path: str, flags: int, make: bool = False) -> int:
    """A descriptor of a log that is written to; raises OSError.

    Not of one with a second name: that may be a file of somebody's outside the cache. It names what was
    compiled, which concerns nobody but those who share the cache.
    """
    descriptor, status = root.open(path, flags, make, for_writers=True)
    if status.st_nlink > 1:
        os.close(descriptor)
        raise SecondNameError(f"`{path}` has another name elsewhere")
    return descriptor


def line_of(event: Event) -> bytes:
    return _line(event.texts(), event).encode(errors="surrogateescape")


def replayed_line(event: Event) -> str:
    """The line of the calls that the launcher replays, with gaps for what only it knows."""
    texts = zip(event.FIELDS, event.texts(), strict=True)
    return _line([GAP + GAPS[field.name] if field.gap else text for field, text in texts], event)


def _line(texts: list[str], event: Event) -> str:
    """A line. Its leading newline and its last field keep one that was torn by a full disk from spoiling its
    neighbour, or from being read as a shorter one."""
    stages = [*map(_text_of_stage, event.stages), *filter(_is_field, event.replayed)]
    return "\n" + "\t".join([*texts, *stages, ".\n"])


def _is_field(text: str) -> bool:
    return not ("\t" in text or "\n" in text or GAP in text)


def text_of_hit(stage: StageEvent) -> str:
    """A stage as it is in the events of the calls that replay it."""
    return _text_of_stage(
        StageEvent(stage.kind, HIT, stage.seconds, stage.wall, stage.architecture, stage.cpu)
    )


def _text_of_stage(stage: StageEvent) -> str:
    return SEPARATOR.join(stage.texts())


def _append_line(root: Directory, line: bytes) -> bool:
    """Append `line`; False when the log was closed by a fold before the line got into it."""
    path = f"{FOLDER}/{LOG}"
    try:
        descriptor = open_log(root, path, os.O_RDWR | os.O_APPEND, make=True)
    except StrangeFileError:  # planted, or a link of a backup: it goes, and what it leads to stays as it is
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
