"""The event log's record of one call: appended by every call, without a lock.

Part of the hot path; events.py reads the lines again, event_totals.py adds them up. A line is

    started, seconds, outcome, reason, directory, product, sources, cause, pid, store fault, wrong settings,
    wall saved, tool saved, remotes, build, jobs, stage*, `.`

tab separated. Lists are separated by the unit separator: sources; what was asked of remotes (asked, found,
bytes, seconds, faults), or nothing; each stage (kind, architecture, result, why, start, seconds, wall, slot,
where, away, CPU seconds, seconds in vain). What would end a field or a line is percent-encoded.
"""

from __future__ import annotations

import os

from nvccache.store import directory
from nvccache.store.directory import Directory, StrangeFileError

FOLDER = "journal"
LOG = "calls-v6.log"
CLOSED = b"\nclosed\t.\n"  # ends a log: what comes after it is not counted, and its writer knows
LARGE = 1024**2  # bytes of log at which a call folds it: some thousand calls
SEPARATOR = "\x1f"
HIT, RAN, FAILED, SHARED = "hit", "ran", "failed", "shared"  # results of a stage
LOCAL = "local"  # where a stage ran that ran here
# Of a stage that ran on another machine, with blanks between them: seconds in the queue, of sending, running
# and fetching; bytes sent and fetched; whether the engine had the result, 1 or 0.
AWAY = ("queue", "send", "run", "fetch", "sent_bytes", "fetched_bytes", "is_cached")
APPEND_TRIES = 5
TAIL = 1 << 13  # bytes of log: some calls
BUILD_FIELD = 14  # of a line, counted from 0; the next one is that of its jobs
_LONGEST_CLAUSE = 400  # characters; a reason is a clause, and a line is appended in one piece
_MOST_SOURCES = 32
_SPECIAL = {"%": "%25", "\t": "%09", "\n": "%0A", SEPARATOR: "%1F"}


class SecondNameError(StrangeFileError):
    """A log has a name outside the cache as well, as in a backup made of hard links."""


class StageEvent:
    """What became of one stage of a call. Seconds are wall-clock seconds, but for `cpu`.

    `result` is HIT, RAN, FAILED, or SHARED where another process ran it meanwhile; `why` is a clause that
    says why it was not found. It began `start` seconds after the call. `seconds` were spent by the tool, or
    saved, and `cpu` on a CPU, 0 where that is not known; `wall` is its share of the time during which tools
    of the call that ran it did (stage_clock.py). `slot` is the job slot, or -1; `where` it ran is LOCAL, an
    executor as it is shown, or empty for a hit. `away` is what it cost there (AWAY), or why it ran here
    though it was sent, a word of remote_execution/faults.py. `in_vain` are seconds for which its tool ran
    before with a module id that was not nvcc's.
    """

    __slots__ = (
        "architecture",
        "away",
        "cpu",
        "in_vain",
        "kind",
        "result",
        "seconds",
        "slot",
        "start",
        "wall",
        "where",
        "why",
    )

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
        self.why = ""
        self.start = 0.0
        self.seconds = seconds
        self.wall = wall
        self.cpu = cpu
        self.slot = -1
        self.where = "" if result in (HIT, SHARED) else LOCAL
        self.away = ""
        self.in_vain = 0.0

    @property
    def is_hit(self) -> bool:
        return self.result in (HIT, SHARED)

    @property
    def cost(self) -> float:
        """What its tool takes: others that run meanwhile make its seconds more, and not those of a CPU."""
        return self.cpu or self.seconds


class RemoteUse:
    """What a call asked of remotes: for how many names, how many of these were found, the bytes received, the
    seconds waited for them, and words of outcomes.REMOTE_FAULTS for what went wrong, each once."""

    __slots__ = ("asked", "bytes", "faults", "found", "seconds")

    def __init__(
        self, asked: int, found: int, size: int, seconds: float, faults: tuple[str, ...] = ()
    ) -> None:
        self.asked = asked
        self.found = found
        self.bytes = size
        self.seconds = seconds
        self.faults = faults


class Event:
    """What became of one call. Seconds are wall-clock seconds, `started` is a Unix time.

    `reason` is why it was a bypass, or `outcomes.LINKED`. `sources` are the inputs as they were typed;
    `product` is the absolute path of what the call makes, empty where that is not known; `cause` is why the
    call was not replayed, a clause. `wall_saved` is by how much the build became shorter: what the stages
    that did not run took of the wall clock when they ran, less what nvccache itself took, divided by `jobs`,
    those of the `build` that share the clock (machine/callers.py). `tool_saved` is what their tools took.
    `store_fault` is a
    word of outcomes.STORE_FAULTS, or empty. `wrong_settings` names the settings that are wrong, so that
    their defaults were in force, with commas between them. `remote` is None where no remote was asked.
    `replayed` are further stages, as texts.
    """

    __slots__ = (
        "build",
        "cause",
        "directory",
        "jobs",
        "outcome",
        "pid",
        "product",
        "reason",
        "remote",
        "replayed",
        "seconds",
        "sources",
        "stages",
        "started",
        "store_fault",
        "tool_saved",
        "wall_saved",
        "wrong_settings",
    )

    def __init__(self, outcome: str, reason: str = "", started: float = 0.0) -> None:
        self.started = started
        self.seconds = 0.0
        self.outcome = outcome
        self.reason = reason
        self.directory = ""
        self.product = ""
        self.sources: list[str] = []
        self.cause = ""
        self.pid = os.getpid()
        self.store_fault = ""
        self.wrong_settings = ""
        self.wall_saved = 0.0
        self.tool_saved = 0.0
        self.build = ""
        self.jobs = 1
        self.remote: RemoteUse | None = None
        self.stages: list[StageEvent] = []
        self.replayed: list[str] = []

    @property
    def ended(self) -> float:
        return self.started + self.seconds


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
    """The line of an event. Its leading newline and its last field keep one that was torn by a full disk
    from spoiling its neighbour, or from being read as a shorter one."""
    fields = [
        f"{event.started:.6f}",
        f"{event.seconds:.6f}",
        event.outcome,
        event.reason,
        quote(event.directory),
        quote(event.product),
        text_of_sources(event.sources),
        quote(event.cause[:_LONGEST_CLAUSE]),
        str(event.pid),
        event.store_fault,
        event.wrong_settings,
        f"{event.wall_saved:.6f}",
        f"{event.tool_saved:.6f}",
        _text_of_remote(event.remote) if event.remote else "",
        event.build,
        str(event.jobs),
    ]
    fields += map(_text_of_stage, event.stages)
    fields += whole_texts(event.replayed)
    return ("\n" + "\t".join(fields) + "\t.\n").encode(errors="surrogateescape")


def text_of_sources(sources: list[str]) -> str:
    return SEPARATOR.join(map(quote, sources[:_MOST_SOURCES]))


def whole_texts(stages: list[str]) -> list[str]:
    """Stages as texts, without what would be no field of a line."""
    return [text for text in stages if "\t" not in text and "\n" not in text]


def text_of_hit(stage: StageEvent) -> str:
    """A stage as it is in the events of the calls that replay it."""
    hit = StageEvent(stage.kind, HIT, stage.seconds, stage.wall, stage.architecture, stage.cpu)
    return _text_of_stage(hit)


def quote(text: str) -> str:
    """A text as it stands in a line."""
    for special, code in _SPECIAL.items():
        if special in text:
            text = text.replace(special, code)
    return text


def _text_of_remote(use: RemoteUse) -> str:
    numbers = f"{use.asked}\x1f{use.found}\x1f{use.bytes}\x1f{use.seconds:.6f}"
    return f"{numbers}\x1f{','.join(use.faults)}"


def _text_of_stage(stage: StageEvent) -> str:
    why = quote(stage.why[:_LONGEST_CLAUSE])
    return (
        f"{stage.kind}\x1f{stage.architecture}\x1f{stage.result}\x1f{why}\x1f{stage.start:.6f}\x1f"
        f"{stage.seconds:.6f}\x1f{stage.wall:.6f}\x1f{stage.slot}\x1f{stage.where}\x1f{stage.away}\x1f"
        f"{stage.cpu:.6f}\x1f{stage.in_vain:.6f}"
    )


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
