"""Reads the event log: one event per call, oldest first.

    $NVCCACHE_DIR/journal/
      calls-v6.log           one line per call, appended with a single write (event_line.py)
      events-v6.<id>.log     closed logs (event_totals.py); the oldest are removed above 32 MiB in all

Owns the JSON form. Other users of the cache may have written anything into a log: lines that are not
complete and well-formed are skipped.
"""

from __future__ import annotations

import os
import re
import time

from nvccache import outcomes
from nvccache.store import directory as directories
from nvccache.store.directory import Directory, UntrustedFileError
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
    from collections.abc import Iterable, Iterator, Sequence
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
        @property
        def outcome(self) -> str: ...
        @property
        def reason(self) -> str: ...
        @property
        def directory(self) -> str: ...
        @property
        def sources(self) -> Sequence[str]: ...

    Call = TypeVar("Call", bound=_Call)

VERSION = 2  # of the JSON form
KEPT = "events-v6."
LARGEST_LOG = 1 << 26  # bytes; a log is folded at 1 MiB
PAUSE_SECONDS = 60.0  # between calls without a build tool, after which a new build begins
# Bypasses that ask nvcc something and compile nothing.
_QUERY_REASONS = ("information", "preprocess_only", "query_streams")
# Where CMake tries the compiler while it configures.
_CONFIGURE_CHECKS = re.compile(r"/CMakeFiles/(?:CMakeScratch|CMakeTmp|[^/]+/CompilerId[A-Z]+)/")
_AHEAD_SECONDS = 3600.0  # by which another machine's clock may be ahead


class JournalError(Exception):
    """The event log is unusable; the message is one sentence for the user."""


def read(cache: str | Directory, since: float = 0.0) -> Iterator[Event]:
    """The events of calls that began at the Unix time `since` or later, in the order in which they ended.

    A missing log has none. Raises JournalError.
    """
    root = directories.at(cache)
    for name in _logs(root):
        for event in parse(_content(root, name)):
            if event.started >= since:
                yield event


def newest(cache: str | Directory, text: str = "") -> Iterator[Event]:
    """The events whose line contains this text, latest first; raises JournalError."""
    root = directories.at(cache)
    wanted = quote(text).encode(errors="surrogateescape")
    for name in reversed(_logs(root)):
        content = _content(root, name)
        for line in reversed(content.split(b"\n") if wanted in content else []):
            event = _event_of(line) if wanted in line else None
            if event:
                yield event


def last_call(cache: str | Directory, product: str = "") -> Event | None:
    """The last call that made this product, or any product; None if there is none in the log."""
    made = (event for event in newest(cache, product) if event.product and product in ("", event.product))
    return next(made, None)


def builds(calls: Iterable[Call], pause: float = PAUSE_SECONDS) -> list[list[Call]]:
    """The calls grouped by build, both ordered by start time.

    All calls of one run of a build tool are a build, whatever pauses it makes. Among calls without a build
    tool, a new build begins after `pause` seconds without a running call, or when a product is made again.
    """
    named: dict[str, list[Call]] = {}
    found: list[list[Call]] = []
    loose: list[Call] = []  # of the current build, without a build tool
    over = 0.0  # when the last of them ended
    made: set[str] = set()  # their products
    # A call recorded under a clock far ahead would belong to the latest build for good.
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


def last_builds(calls: Iterable[Call]) -> list[list[Call]]:
    """The builds that may be "the last build", the latest at the end.

    Builds of nothing but queries are left out, and so are CMake's checks of the compiler, whose build may
    also be that of the compiles after them.
    """
    found = builds(call for call in calls if not _is_configure_check(call))
    return [build for build in found if any(map(is_compile, build))]


def last_build(calls: Iterable[Call]) -> list[Call]:
    """The calls of the latest build."""
    return next(reversed(last_builds(calls)), [])


def is_compile(call: Call) -> bool:
    """Whether a user would call it a compile: no query such as `--version`, and no check of CMake's."""
    if call.outcome == outcomes.BYPASS:
        # `nvcc -v` without files shows where its programs are.
        is_query = call.reason in _QUERY_REASONS or not (call.sources or call.product)
    else:
        is_query = call.outcome in outcomes.QUERIES
    return not is_query and not _is_configure_check(call)


def _is_configure_check(call: Call) -> bool:
    paths = (os.path.join(call.directory, path, "") for path in (".", *call.sources))
    return any(map(_CONFIGURE_CHECKS.search, paths))


def parse(lines: bytes) -> Iterator[Event]:
    """The events in part of a log."""
    for line in lines.partition(CLOSED)[0].split(b"\n"):
        event = _event_of(line)
        if event:
            yield event


class Follower:
    """Returns the events appended from now on, even if the log is folded meanwhile."""

    def __init__(self, cache: str | Directory) -> None:
        self._root = directories.at(cache)
        self._descriptor = -1
        self._rest = b""
        self._open(at_end=True)

    def new(self) -> list[Event]:
        """The events since the last call of this method; raises OSError."""
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
        except (FileNotFoundError, UntrustedFileError):
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


class RemoteCosts(Record):
    """The costs of a stage that ran on another machine; StageEvent.away holds them, separated by blanks."""

    MIN_FIELDS = 7
    queue: float = row(AMOUNT, 0.0, "executor.seconds_queued")
    send: float = row(AMOUNT, 0.0, "executor.seconds_sending")
    run: float = row(AMOUNT, 0.0)  # of a result from the action cache: of the original run
    fetch: float = row(AMOUNT, 0.0, "executor.seconds_fetching")
    sent_bytes: float = row(AMOUNT, 0, "executor.bytes_sent")
    fetched_bytes: float = row(AMOUNT, 0, "executor.bytes_received")
    is_cached: float = row(AMOUNT, 0, "executor.from_action_cache")  # 1 or 0


def to_json(event: Event) -> dict[str, object]:
    """One event in the documented form; `stages` holds one object per stage."""
    return {
        "version": VERSION,
        **_facts(event),
        "wrong_settings": [name for name in event.wrong_settings.split(",") if name],
        "remote": remote_json(event.remote),
        "stages": [
            {**_facts(stage), "away": remote_costs_json(stage), "why_here": why_here(stage)}
            for stage in event.stages
        ],
    }


def remote_json(use: RemoteUse | None) -> dict[str, object] | None:
    """A call's queries to remotes, in the documented form."""
    return {**_facts(use), "faults": list(use.faults)} if use else None


def _facts(record: Record) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in record.FIELDS}


def remote_costs(stage: StageEvent) -> RemoteCosts | None:
    """The costs of a stage that ran on another machine; None for others."""
    if stage.where in ("", LOCAL):
        return None
    try:
        return RemoteCosts.of(stage.away.split(" "))
    except ValueError:
        return None


def remote_costs_json(stage: StageEvent) -> dict[str, float] | None:
    """As `remote_costs`, by name."""
    costs = remote_costs(stage)
    return _facts(costs) if costs else None


def why_here(stage: StageEvent) -> str:
    """Why a stage that was sent to another machine ran here, one word; or empty."""
    return stage.away if stage.where == LOCAL else ""


def tool_spent(stage: StageEvent) -> float:
    """The seconds that a tool ran for a stage, on any machine; 0 for a result from the action cache."""
    costs = remote_costs(stage)
    return 0.0 if stage.is_hit or (costs and costs.is_cached) else stage.cost


def names(root: Directory) -> list[str]:
    """The names of the files in the log's folder; raises JournalError."""
    try:
        return sorted(name for name, _ in root.list(FOLDER))
    except OSError as error:
        raise JournalError(f"cannot read the counts in `{where(root)}`: {cause(error)}") from None


def where(root: Directory) -> str:
    return os.path.join(root.path, FOLDER)


def cause(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def stage_of(text: str) -> StageEvent | None:
    """The inverse of event_line.text_of_hit; None if the text is malformed."""
    try:
        return StageEvent.of(text.split(SEPARATOR))
    except ValueError:
        return None


def _logs(root: Directory) -> list[str]:
    """The logs, newest last: the names of closed ones begin with the time of closing."""
    found = names(root)
    return [*(name for name in found if name.startswith(KEPT)), *(name for name in found if name == LOG)]


def _content(root: Directory, name: str) -> bytes:
    """The content of a log; empty if it does not exist or is not ours."""
    try:
        return root.read(f"{FOLDER}/{name}", LARGEST_LOG)[0].partition(CLOSED)[0]
    except (FileNotFoundError, UntrustedFileError):
        return b""
    except OSError as error:
        raise JournalError(f"cannot read `{where(root)}`: {cause(error)}") from None


def _event_of(line: bytes) -> Event | None:
    *fields, end = os.fsdecode(line).split("\t")
    if end != ".":
        return None
    head = Event.MIN_FIELDS
    while head < len(fields) and SEPARATOR not in fields[head]:
        head += 1  # a field that a later version than the first has added, perhaps one newer than this
    try:
        event = Event.of(fields[:head])
        event.stages = [StageEvent.of(field.split(SEPARATOR)) for field in fields[head:]]
    except ValueError:
        return None
    return event
