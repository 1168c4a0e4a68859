"""The event log, read: one event a call, oldest first.

    $NVCCACHE_DIR/journal/
      calls-v6.log           one line a call, appended with a single write (event_line.py)
      folding-v6.<id>.log    a log taken out of use, on its way into the totals (event_totals.py)
      events-v6.<id>.log     logs that are in the totals, kept until they have 32 MiB together

Those of version 5 are read as well, whose lines have no build, no jobs and no CPU seconds. Owns the inverse
of event_line.py and the JSON form. Whoever shares the cache may have written anything into a log: what is no
whole line of ours is passed over.
"""

from __future__ import annotations

import os
import re
import time

from nvccache.store import directory as directories
from nvccache.store.directory import Directory, StrangeFileError
from nvccache.store.event_line import (
    AWAY,
    CLOSED,
    FAILED,
    FOLDER,
    HIT,
    LOCAL,
    LOG,
    RAN,
    SEPARATOR,
    SHARED,
    Event,
    RemoteUse,
    StageEvent,
    quote,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Protocol, TypeVar

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
FOLDING, KEPT = "folding-v6.", "events-v6."
FORMER_LOG, _FORMER_KEPT = "calls-v5.log", "events-v5."
LARGEST_LOG = 1 << 26  # bytes; a log is folded when it has one MiB
PAUSE_SECONDS = 60.0  # without any call that belongs to no build, after which the next one begins another
_AHEAD_SECONDS = 3600.0  # by which the clock of another machine may be ahead
_FORMER_HEAD, _HEAD = 14, 16  # fields before those of the stages
_FORMER_STAGE = 10  # fields of one
_RESULTS = (HIT, RAN, FAILED, SHARED)
_LARGEST_SECONDS, _LARGEST_TIME, _LARGEST_BYTES = 1e9, 1e11, 1e15
_CODE = re.compile("%(25|09|0A|1F)")


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


def to_json(event: Event) -> dict[str, object]:
    """One event in the documented form; `stages` holds one object a stage."""
    made: dict[str, object] = {"version": VERSION}
    for name in (
        *("started", "seconds", "outcome", "reason", "directory", "sources", "product", "cause", "pid"),
        *("build", "jobs", "store_fault", "wrong_settings", "wall_saved", "tool_saved"),
    ):
        made[name] = getattr(event, name)
    made["wrong_settings"] = [name for name in event.wrong_settings.split(",") if name]
    made["remote"] = remote_json(event.remote)
    made["stages"] = [
        {
            **{
                name: getattr(stage, name)
                for name in (
                    *("kind", "architecture", "result", "why", "start", "seconds", "cpu", "wall", "slot"),
                    "where",
                )
            },
            "away": costs_away(stage),
            "why_here": why_here(stage),
            "in_vain": stage.in_vain,
        }
        for stage in event.stages
    ]
    return made


def remote_json(use: RemoteUse | None) -> dict[str, object] | None:
    """What a call asked of remotes, in the documented form."""
    if use is None:
        return None
    counts = {name: getattr(use, name) for name in ("asked", "found", "bytes", "seconds")}
    return {**counts, "faults": list(use.faults)}


def costs_away(stage: StageEvent) -> dict[str, float] | None:
    """What a stage cost that ran on another machine, by the names of AWAY; None for others."""
    words = stage.away.split(" ")
    if stage.where in ("", LOCAL) or len(words) != len(AWAY):
        return None
    try:
        return {name: _number(word, _LARGEST_BYTES) for name, word in zip(AWAY, words, strict=True)}
    except ValueError:
        return None


def why_here(stage: StageEvent) -> str:
    """Why a stage ran here though it was sent, a word; or empty."""
    return stage.away if stage.where == LOCAL else ""


def tool_spent(stage: StageEvent) -> float:
    """The seconds that a tool took for a stage, on whatever machine; none where the engine had the result."""
    costs = costs_away(stage)
    return 0.0 if stage.is_hit or (costs and costs["is_cached"]) else stage.cost


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
        return _stage_of(text)
    except ValueError:
        return None


def _logs(root: Directory) -> list[str]:
    """The logs, the newest last: their names begin with when they were taken out of use."""
    found = names(root)
    return [
        *(name for name in found if name.startswith(_FORMER_KEPT)),
        *(name for name in found if name.startswith(KEPT)),
        *(name for name in found if name.startswith(FOLDING)),
        *(name for name in found if name in (FORMER_LOG, LOG)),
    ]


def _content(root: Directory, name: str) -> bytes:
    """What is in a log; nothing if there is none, or none of ours."""
    # A log that is being folded is under another name a moment later.
    for tried in (name, name.replace(FOLDING, KEPT)):
        try:
            return root.read(f"{FOLDER}/{tried}", LARGEST_LOG)[0].partition(CLOSED)[0]
        except (FileNotFoundError, StrangeFileError):
            continue
        except OSError as error:
            raise JournalError(f"cannot read `{where(root)}`: {cause(error)}") from None
    return b""


def _event_of(line: bytes) -> Event | None:
    fields = os.fsdecode(line).split("\t")
    if len(fields) <= _FORMER_HEAD or fields[-1] != ".":
        return None
    is_former = fields[_FORMER_HEAD] == "." or SEPARATOR in fields[_FORMER_HEAD]
    try:
        if is_former:
            fields[_FORMER_HEAD:_FORMER_HEAD] = ["", "1"]
        event = Event(fields[2], fields[3], _number(fields[0], _LARGEST_TIME))
        if event.started < 0:
            return None  # no call began before 1970, and `--since` would see it as little as the report does
        event.seconds = _number(fields[1])
        event.directory, event.product, event.cause = map(_unquote, (fields[4], fields[5], fields[7]))
        event.sources = _list(fields[6])
        event.pid = int(fields[8][:20])
        event.store_fault, event.wrong_settings = fields[9], fields[10]
        event.wall_saved, event.tool_saved = _number(fields[11]), _number(fields[12])
        event.remote = _remote_of(fields[13]) if fields[13] else None
        event.build, event.jobs = fields[14], max(1, int(fields[15][:20]))
        event.stages = [_stage_of(field) for field in fields[_HEAD:-1]]
    except ValueError:
        return None
    return event


def _remote_of(field: str) -> RemoteUse:
    """Raises ValueError."""
    asked, found, size, seconds, faults = field.split(SEPARATOR)
    words = tuple(word for word in faults.split(",") if word)
    names, there, received = (int(_number(number, _LARGEST_BYTES)) for number in (asked, found, size))
    return RemoteUse(names, there, received, _number(seconds), words)


def _stage_of(field: str) -> StageEvent:
    """Raises ValueError."""
    parts = field.split(SEPARATOR)
    if len(parts) == _FORMER_STAGE:
        parts += "0", "0"
    kind, architecture, result, why, start, seconds, wall, slot, ran, away, cpu, in_vain = parts
    if result not in _RESULTS:
        raise ValueError(result)
    stage = StageEvent(kind, result, _number(seconds), _number(wall), architecture, _number(cpu))
    stage.why, stage.start, stage.slot, stage.where = _unquote(why), _number(start), int(slot[:20]), ran
    stage.away = away
    stage.in_vain = _number(in_vain)
    return stage


def _list(field: str) -> list[str]:
    return [_unquote(part) for part in field.split(SEPARATOR)] if field else []


def _unquote(text: str) -> str:
    return _CODE.sub(lambda code: chr(int(code[1], 16)), text) if "%" in text else text


def _number(text: str, largest: float = _LARGEST_SECONDS) -> float:
    """Raises ValueError for what cannot be a time, nan included: it would swallow every sum."""
    value = float(text)
    if not -largest < value < largest:
        raise ValueError(text)
    return value
