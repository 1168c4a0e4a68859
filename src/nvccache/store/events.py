"""The event log, read: one event a call, oldest first.

    $NVCCACHE_DIR/journal/
      calls-v6.log           one line a call, appended with a single write (event_line.py)
      events-v6.<id>.log     logs out of use (event_totals.py), kept until they have 32 MiB together

Owns the JSON form. Whoever shares the cache may have written anything into a log: what is no whole line of
ours is passed over.
"""

from __future__ import annotations

import os
import time

from nvccache.store import directory as directories
from nvccache.store.directory import Directory, StrangeFileError
from nvccache.store.event_line import (
    AMOUNT,
    CLOSED,
    FOLDER,
    LOCAL,
    LOG,
    SEPARATOR,
    Event,
    Record,
    RemoteUse,
    StageEvent,
    quote,
    row,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Protocol, TypeVar

    class _Call(Protocol):
        @property
        def started(self) -> float: ...
        @property
        def ended(self) -> float: ...
        @property
        def build(self) -> str: ...
        @property
        def product(self) -> str: ...

    Call = TypeVar("Call", bound=_Call)

VERSION = 2  # of the JSON form
KEPT = "events-v6."
LARGEST_LOG = 1 << 26  # bytes; a log is folded when it has one MiB
PAUSE_SECONDS = 60.0  # without any call that belongs to no build, after which the next one begins another
_AHEAD_SECONDS = 3600.0  # by which the clock of another machine may be ahead


class JournalError(Exception):
    """The event log cannot be used; the message is one sentence for the user."""


def read(place: str | Directory, since: float = 0.0) -> Iterator[Event]:
    """The events that began at the Unix time `since` or later; raises JournalError.

    They come in the order in which the calls ended. A missing log has none.
    """
    root = directories.at(place)
    for name in _logs(root):
        for event in parse(_content(root, name)):
            if event.started >= since:
                yield event


def newest(place: str | Directory, text: str = "") -> Iterator[Event]:
    """The events, the last call first, as far as their line holds this text; raises JournalError."""
    root = directories.at(place)
    wanted = quote(text).encode(errors="surrogateescape")
    for name in reversed(_logs(root)):
        content = _content(root, name)
        for line in reversed(content.split(b"\n") if wanted in content else []):
            event = _event_of(line) if wanted in line else None
            if event:
                yield event


def last_call(place: str | Directory, product: str = "") -> Event | None:
    """The last call that made this product, or the last of all that made one; None if it is not known."""
    made = (event for event in newest(place, product) if event.product and product in ("", event.product))
    return next(made, None)


def builds(calls: Iterable[Call], pause: float = PAUSE_SECONDS) -> list[list[Call]]:
    """The calls of each build, the oldest first, by when they began.

    A build is what one run of a build tool calls, however long that pauses. Of calls that none has made,
    another build begins after `pause` seconds in which none was under way, and where a product is made again.
    """
    named: dict[str, list[Call]] = {}
    found: list[list[Call]] = []
    loose: list[Call] = []
    over = 0.0  # when the last of the loose calls ended
    made: set[str] = set()  # their products
    # A call under a clock that was wrong would be of the last build for ever.
    latest = time.time() + _AHEAD_SECONDS
    past = (call for call in calls if call.started <= latest)
    for call in sorted(past, key=lambda call: (call.started, call.ended)):
        if call.build:
            if call.build not in named:
                named[call.build] = []
                found.append(named[call.build])
            named[call.build].append(call)
            continue
        if not loose or call.started > over + pause or call.product in made:
            loose, over, made = [], 0.0, set()
            found.append(loose)
        loose.append(call)
        over = max(over, call.ended)
        made |= {call.product} - {""}
    return found


def last_build(calls: Iterable[Call], pause: float = PAUSE_SECONDS) -> list[Call]:
    """The calls of the build that began last."""
    return next(reversed(builds(calls, pause)), [])


def parse(lines: bytes) -> Iterator[Event]:
    """The events in a piece of a log."""
    for line in lines.partition(CLOSED)[0].split(b"\n"):
        event = _event_of(line)
        if event:
            yield event


class Follower:
    """Yields what is appended from now on, also after the log was folded."""

    def __init__(self, place: str | Directory) -> None:
        self._root = directories.at(place)
        self._descriptor = -1
        self._rest = b""
        self._open(at_end=True)

    def new(self) -> list[Event]:
        """The events since the last question; raises OSError."""
        found = self._read()
        if self._is_folded():
            found += self._read()
            os.close(self._descriptor)
            self._descriptor, self._rest = -1, b""
        if self._descriptor < 0 and self._open(at_end=False):
            found += self._read()
        return found

    def _open(self, at_end: bool) -> bool:
        try:
            self._descriptor, _ = self._root.open(f"{FOLDER}/{LOG}")
        except (FileNotFoundError, StrangeFileError):
            return False
        os.lseek(self._descriptor, 0, os.SEEK_END if at_end else os.SEEK_SET)
        return True

    def _read(self) -> list[Event]:
        if self._descriptor < 0:
            return []
        chunks = [self._rest]
        while chunk := os.read(self._descriptor, 1 << 20):
            chunks.append(chunk)
        whole, newline, self._rest = b"".join(chunks).rpartition(b"\n")
        return list(parse(whole + newline))

    def _is_folded(self) -> bool:
        if self._descriptor < 0:
            return False
        try:
            named = self._root.status(f"{FOLDER}/{LOG}")
        except FileNotFoundError:
            return True
        ours = os.fstat(self._descriptor)
        return (named.st_dev, named.st_ino) != (ours.st_dev, ours.st_ino)


class Away(Record):
    """What a stage cost that ran on another machine, as StageEvent.away has it, with blanks between."""

    LEAST = 7
    queue: float = row(AMOUNT, 0.0, "executor.seconds_queued")
    send: float = row(AMOUNT, 0.0, "executor.seconds_sending")
    run: float = row(AMOUNT, 0.0)  # of what the engine had: when it ran, for whoever sent it then
    fetch: float = row(AMOUNT, 0.0, "executor.seconds_fetching")
    sent_bytes: float = row(AMOUNT, 0, "executor.bytes_sent")
    fetched_bytes: float = row(AMOUNT, 0, "executor.bytes_received")
    is_cached: float = row(AMOUNT, 0, "executor.from_action_cache")  # 1 if the engine had the result, or 0


def to_json(event: Event) -> dict[str, object]:
    """One event in the documented form; `stages` holds one object a stage."""
    return {
        "version": VERSION,
        **_facts(event),
        "wrong_settings": [name for name in event.wrong_settings.split(",") if name],
        "remote": remote_json(event.remote),
        "stages": [
            {**_facts(stage), "away": costs_away(stage), "why_here": why_here(stage)}
            for stage in event.stages
        ],
    }


def remote_json(use: RemoteUse | None) -> dict[str, object] | None:
    """What a call asked of remotes, in the documented form."""
    return {**_facts(use), "faults": list(use.faults)} if use else None


def _facts(record: Record) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in record.FIELDS}


def away(stage: StageEvent) -> Away | None:
    """What a stage cost that ran on another machine; None for others."""
    if stage.where in ("", LOCAL):
        return None
    try:
        return Away.of(stage.away.split(" "))
    except ValueError:
        return None


def costs_away(stage: StageEvent) -> dict[str, float] | None:
    """The same by name."""
    costs = away(stage)
    return _facts(costs) if costs else None


def why_here(stage: StageEvent) -> str:
    """Why a stage ran here though it was sent, a word; or empty."""
    return stage.away if stage.where == LOCAL else ""


def tool_spent(stage: StageEvent) -> float:
    """The seconds that a tool took for a stage, on whatever machine; none where the engine had the result."""
    costs = away(stage)
    return 0.0 if stage.is_hit or (costs and costs.is_cached) else stage.cost


def names(root: Directory) -> list[str]:
    """The files of the log's folder; raises JournalError."""
    try:
        return sorted(name for name, _ in root.list(FOLDER))
    except OSError as error:
        raise JournalError(f"cannot read the counts in `{where(root)}`: {cause(error)}") from None


def where(root: Directory) -> str:
    return os.path.join(root.path, FOLDER)


def cause(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def stage_of(text: str) -> StageEvent | None:
    """The inverse of event_line.text_of_hit; None for what is no stage."""
    try:
        return StageEvent.of(text.split(SEPARATOR))
    except ValueError:
        return None


def _logs(root: Directory) -> list[str]:
    """The logs, the newest last: their names begin with when they were taken out of use."""
    found = names(root)
    return [*(name for name in found if name.startswith(KEPT)), *(name for name in found if name == LOG)]


def _content(root: Directory, name: str) -> bytes:
    """What is in a log; nothing if there is none, or none of ours."""
    try:
        return root.read(f"{FOLDER}/{name}", LARGEST_LOG)[0].partition(CLOSED)[0]
    except (FileNotFoundError, StrangeFileError):
        return b""
    except OSError as error:
        raise JournalError(f"cannot read `{where(root)}`: {cause(error)}") from None


def _event_of(line: bytes) -> Event | None:
    *fields, end = os.fsdecode(line).split("\t")
    if end != ".":
        return None
    head = Event.LEAST
    while head < len(fields) and SEPARATOR not in fields[head]:
        head += 1  # a fact of a version after the first, perhaps of one after this
    try:
        event = Event.of(fields[:head])
        event.stages = [StageEvent.of(field.split(SEPARATOR)) for field in fields[head:]]
    except ValueError:
        return None
    return event
