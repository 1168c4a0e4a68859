"""The totals of all calls.

    $NVCCACHE_DIR/journal/
      totals-v1.json         named counters, the last folded log, and since when calls are counted

A call that finds the log large folds it: closes it, adds it to the totals and keeps it for events.py, which
draws the rest of the folder. Readers add the logs that are not in the totals yet, and write nothing. Owns
the format of the totals, and the counters that do not belong to a single field.
"""

from __future__ import annotations

import contextlib
import os
import time

from nvccache import outcomes
from nvccache.store import directory as directories
from nvccache.store import events, locks
from nvccache.store.directory import Directory, UntrustedFileError
from nvccache.store.event_line import CLOSED, FOLDER, LOG, Event, Record, RemoteUse, StageEvent, open_log
from nvccache.store.events import KEPT, LARGEST_LOG, JournalError, RemoteCosts, cause, names, where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any


_TOTALS = "totals-v1.json"
# Counters that are not sums: when the first counted call began, and when all were reset.
_FIRST, _ZEROED = "first", "zeroed"
_SNAPSHOT_TRIES = 50  # a fold interferes once per MiB of log
_LOCK, _LOCK_SECONDS = f"{locks.FOLDER}/journal.lock", 10.0
_LARGEST_TOTALS = 1 << 24
_MOST_KEPT = 1 << 25  # bytes of events
_TABLES: tuple[type[Record], ...] = (RemoteUse, RemoteCosts, StageEvent, Event)
# All counters except those by kind of stage. The type is that of the sum; `str` has a counter for each word.
_COUNTERS: dict[str, type] = {
    "calls": str,
    "bypass_reasons": str,
    "remote.calls": int,
    "executor.sent": int,
    "executor.came_back": int,
    "executor.ran_here": int,
    "executor.reasons": str,
    "executor.seconds_running": float,
    "executor.seconds_saved": float,
    "in_vain.runs": int,
    **{
        field.counter: type(field.default) if isinstance(field.default, (int, float)) else str
        for record in _TABLES
        for field in record.FIELDS
        if field.counter
    },
}
_SUMMED = {
    table: [(field.name, field.counter) for field in table.FIELDS if field.counter] for table in _TABLES
}
_STAGE_COUNTERS = {"hit": int, "miss": int, "replayed": int, "seconds": float, "seconds_saved": float}


def read(cache: str | Directory, stages: Iterable[str] = ()) -> dict[str, Any]:
    """The totals of all calls, and of these kinds of stages; raises JournalError.

    Writes nothing. All zeros if there is no journal.
    """
    root = directories.at(cache)
    try:
        return _totals(_counters(root), stages)
    except OSError as error:
        raise JournalError(f"cannot read the counts in `{where(root)}`: {cause(error)}") from None


def zeros(stages: Iterable[str] = ()) -> dict[str, Any]:
    """Totals without any call."""
    return _totals({}, stages)


def reset(cache: str | Directory, stages: Iterable[str] = ()) -> dict[str, Any]:
    """Reset all counters and return the totals until now; raises JournalError."""
    root = directories.at(cache)
    if not names(root):
        return _totals({}, stages)
    try:
        with locks.held(root, _LOCK, _LOCK_SECONDS):
            folded, counters = _fold(root)
            now = time.time()
            _write_totals(root, folded, {_FIRST: now, _ZEROED: now})
            return _totals(counters, stages)
    except OSError as error:
        if isinstance(error.__context__, PermissionError):
            error = error.__context__  # the lock file could not be created
        raise JournalError(f"cannot reset the counts in `{where(root)}`: {cause(error)}") from None


def counted(found: Iterable[Event], cache: str | Directory) -> list[Event]:
    """The events that are in the totals: those of calls that ended after the last reset."""
    try:
        zeroed = _read_totals(directories.at(cache))[1].get(_ZEROED, 0)
    except OSError:
        zeroed = 0
    return [event for event in found if event.ended >= zeroed]


def fold(cache: str | Directory) -> None:
    """Fold the log, unless another process is doing so."""
    root = directories.at(cache)
    with contextlib.suppress(OSError), locks.held(root, _LOCK, 0.0):
        _fold(root)


def is_current(name: str) -> bool:
    """Whether a file in the log's folder belongs to this version."""
    return name in (LOG, _TOTALS) or name.startswith(KEPT)


def of_events(found: Iterable[Event], stages: Iterable[str] = ()) -> dict[str, Any]:
    """The totals of these events."""
    counters: dict[str, float] = {}
    for event in found:
        _add(counters, event)
    return _totals(counters, stages)


def _fold(root: Directory) -> tuple[str, dict[str, float]]:
    """Add every complete line to the totals; the lock must be held. Raises OSError.

    Returns the name of the last folded log, and the counters. Both are in one file, so a fold after one that
    was killed adds what is missing, and nothing twice.
    """
    folded, counters = _read_totals(root)
    with contextlib.suppress(FileNotFoundError):
        if root.status(f"{FOLDER}/{LOG}").st_size:
            root.rename(f"{FOLDER}/{LOG}", _name_after(folded))
    new = _not_in(folded, names(root))
    for name in new:
        _add_lines(counters, _close_log(root, name))
        folded = name
    if new:
        _write_totals(root, folded, counters)
    _drop_oldest(root)
    return folded, counters


def _name_after(folded: str) -> str:
    """A name that sorts after the last folded log, even if the clock was set back."""
    try:
        last = int(_id(folded).partition("-")[0], 16)
    except ValueError:
        last = 0
    return f"{KEPT}{max(time.time_ns(), last + 1):016x}-{os.getpid():x}.log"


def _not_in(folded: str, found: Iterable[str]) -> list[str]:
    """The closed logs that are not in the totals yet."""
    return [name for name in found if name.startswith(KEPT) and _id(name) > _id(folded)]


def _id(name: str) -> str:
    return name.partition(".")[2]


def _drop_oldest(root: Directory) -> None:
    """Limit the size of closed logs; counting goes on even if one cannot be removed."""
    kept = 0
    for name, status in sorted(root.list(FOLDER), reverse=True):
        if name.startswith(KEPT):
            kept += status.st_size
            if kept > _MOST_KEPT:
                with contextlib.suppress(OSError):
                    root.unlink(f"{FOLDER}/{name}")


def _close_log(root: Directory, name: str) -> bytes:
    """Close a log to writers that still have it open, and return its content; empty if it is not ours."""
    try:
        descriptor = open_log(root, f"{FOLDER}/{name}", os.O_RDWR | os.O_APPEND)
    except UntrustedFileError:
        return b""
    with open(descriptor, "rb") as log:
        if os.write(descriptor, CLOSED) < len(CLOSED):
            raise OSError("the disk is full")
        os.lseek(descriptor, 0, os.SEEK_SET)
        return log.read(LARGEST_LOG).partition(CLOSED)[0]


def _counters(root: Directory) -> dict[str, float]:
    """The counters as of now; writes nothing. Raises OSError and JournalError."""
    for _ in range(_SNAPSHOT_TRIES):
        before = _read_totals(root), names(root)
        (folded, known), found = before
        counters = dict(known)
        try:
            for name in [*_not_in(folded, found), *(name for name in found if name == LOG)]:
                content, _ = root.read(f"{FOLDER}/{name}", LARGEST_LOG)
                _add_lines(counters, content.partition(CLOSED)[0])
        except FileNotFoundError:
            continue  # a concurrent fold renamed it
        except UntrustedFileError:
            pass
        if (_read_totals(root), names(root)) == before:
            break
    return counters


def _add_lines(counters: dict[str, float], lines: bytes) -> None:
    for event in events.parse(lines):
        _add(counters, event)


def _add(counters: dict[str, float], event: Event) -> None:
    for name, amount in _amounts(event):
        counters[name] = counters.get(name, 0) + amount
    if event.started > 0:
        counters[_FIRST] = min(event.started, counters.get(_FIRST) or event.started)


def _amounts(event: Event) -> Iterator[tuple[str, float]]:
    """The counters that one call adds to, with amounts."""
    yield from _of_fields(event)
    if event.outcome == outcomes.BYPASS:
        yield f"bypass_reasons.{event.reason}", 1
    if event.remote:
        yield "remote.calls", int(event.remote.asked > 0)
        yield from _of_fields(event.remote)
    is_replayed = event.outcome == outcomes.DIRECT_HIT
    for stage in event.stages:
        result = "replayed" if is_replayed else "hit" if stage.is_hit else "miss"
        yield f"stages.{stage.kind}.{result}", 1
        yield f"stages.{stage.kind}.seconds_saved", stage.cost if stage.is_hit else 0
        yield f"stages.{stage.kind}.seconds", events.tool_spent(stage)
        if stage.in_vain:
            yield "in_vain.runs", 1
        yield from _of_fields(stage)
        if stage.away:
            yield from _of_executor(stage)


def _of_fields(record: Record) -> Iterator[tuple[str, float]]:
    """The counters of its fields, with amounts."""
    for name, counter in _SUMMED[type(record)]:
        value = getattr(record, name)
        if isinstance(value, (int, float)):
            if value:
                yield counter, value
        else:
            members = value.split(",") if isinstance(value, str) else value
            yield from ((f"{counter}.{member}", 1) for member in members if member)


def _of_executor(stage: StageEvent) -> Iterator[tuple[str, float]]:
    """The counters of a stage that was sent to another machine, with amounts; nothing for others."""
    if reason := events.why_here(stage):
        yield from (("executor.sent", 1), ("executor.ran_here", 1), (f"executor.reasons.{reason}", 1))
    if costs := events.remote_costs(stage):
        yield from (("executor.sent", 1), ("executor.came_back", 1))
        yield f"executor.seconds_{'saved' if costs.is_cached else 'running'}", costs.run
        yield from _of_fields(costs)


def _read_totals(root: Directory) -> tuple[str, dict[str, float]]:
    """The last folded log and the counters; empty if the file is damaged. Raises OSError."""
    import json

    try:
        stored = json.loads(root.read(f"{FOLDER}/{_TOTALS}", _LARGEST_TOTALS)[0])
        counters = {str(name): _amount(value) for name, value in stored["counters"].items()}
        return str(stored["folded"]), counters
    except (FileNotFoundError, UntrustedFileError):
        return "", {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "", {}


def _amount(value: float) -> float:
    """The value, of unchanged type; raises ValueError or TypeError for what cannot be a sum."""
    if not -1e15 < value < 1e15:
        raise ValueError(value)
    return value


def _write_totals(root: Directory, folded: str, counters: dict[str, float]) -> None:
    import json

    text = json.dumps({"folded": folded, "counters": counters}, indent=1, sort_keys=True)
    root.write(f"{FOLDER}/{_TOTALS}", text.encode())


def _totals(counters: dict[str, float], stages: Iterable[str]) -> dict[str, Any]:
    """All counters that this version and the caller know, in the shape that `stats` prints.

    Counters of other versions stay in the file, but are not returned.
    """

    def total(name: str, kind: type) -> object:
        if kind is str:
            members = (counter for counter in sorted(counters) if counter.startswith(f"{name}."))
            return {counter.removeprefix(f"{name}."): int(counters[counter]) for counter in members}
        return int(counters.get(name, 0)) if kind is int else round(counters.get(name, 0), 6)

    made: dict[str, Any] = {}
    for counter, kind in _COUNTERS.items():
        section, _, name = counter.rpartition(".")
        (made.setdefault(section, {}) if section else made)[name] = total(counter, kind)
    # Outcomes of other versions are kept, so that `calls` agrees with the event log.
    made["calls"] = {**dict.fromkeys(outcomes.OUTCOMES, 0), **made["calls"]}
    made["stages"] = {
        stage: {name: total(f"stages.{stage}.{name}", kind) for name, kind in _STAGE_COUNTERS.items()}
        for stage in stages
    }
    made["since"] = round(counters.get(_FIRST, 0), 3)
    return made
