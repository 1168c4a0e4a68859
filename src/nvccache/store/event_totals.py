"""The totals: what all calls so far add up to.

    $NVCCACHE_DIR/journal/
      totals-v1.json         named counters, the log folded last, and since when is counted

A call that finds the log large folds it: takes it out of use, adds it to the totals and keeps it for
events.py, which draws the rest of the folder. Whoever reads the counts adds what is not in the totals yet,
and writes nothing. Owns the format of the totals, and the sums that no single row of a table makes.
"""

from __future__ import annotations

import contextlib
import os
import time

from nvccache import outcomes
from nvccache.store import directory as directories
from nvccache.store import events, locks
from nvccache.store.directory import Directory, StrangeFileError
from nvccache.store.event_line import CLOSED, FOLDER, LOG, Event, Record, RemoteUse, StageEvent, open_log
from nvccache.store.events import KEPT, LARGEST_LOG, Away, JournalError, cause, names, where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any


_TOTALS = "totals-v1.json"
# Of the counters those that are no sums: when the first call counted began, and when they were set to zero.
_FIRST, _ZEROED = "first", "zeroed"
_SNAPSHOT_TRIES = 50  # a fold comes between once in a MiB of log
_LOCK, _LOCK_SECONDS = f"{locks.FOLDER}/journal.lock", 10.0
_LARGEST_TOTALS = 1 << 24
_MOST_KEPT = 1 << 25  # bytes of events
_TABLES: tuple[type[Record], ...] = (RemoteUse, Away, StageEvent, Event)
# All counters but those of kinds of stages, each with the type of its sum; of words each has a counter.
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
        field.adds: type(field.default) if isinstance(field.default, (int, float)) else str
        for record in _TABLES
        for field in record.FIELDS
        if field.adds
    },
}
_ADDING = {record: [(field.name, field.adds) for field in record.FIELDS if field.adds] for record in _TABLES}
_OF_A_STAGE = {"hit": int, "miss": int, "replayed": int, "seconds": float, "seconds_saved": float}


def read(place: str | Directory, stages: Iterable[str] = ()) -> dict[str, Any]:
    """What all calls add up to, and of these kinds of stages; raises JournalError.

    Nothing is written. A missing journal is all zeros.
    """
    root = directories.at(place)
    try:
        return _totals(_counters(root), stages)
    except OSError as error:
        raise JournalError(f"cannot read the counts in `{where(root)}`: {cause(error)}") from None


def nothing(stages: Iterable[str] = ()) -> dict[str, Any]:
    """The totals where calls are counted nowhere."""
    return _totals({}, stages)


def reset(place: str | Directory, stages: Iterable[str] = ()) -> dict[str, Any]:
    """Set every count to zero and return what was counted until now; raises JournalError."""
    root = directories.at(place)
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
            error = error.__context__  # there is no lock, since none may be made
        raise JournalError(f"cannot reset the counts in `{where(root)}`: {cause(error)}") from None


def counted(found: Iterable[Event], place: str | Directory) -> list[Event]:
    """Those of the events that are in the totals: what ended before these were set to zero is not."""
    try:
        zeroed = _read_totals(directories.at(place))[1].get(_ZEROED, 0)
    except OSError:
        zeroed = 0
    return [event for event in found if event.ended >= zeroed]


def fold(place: str | Directory) -> None:
    """Fold what has been appended, unless somebody else is doing it: one fold is as good as another."""
    root = directories.at(place)
    with contextlib.suppress(OSError), locks.held(root, _LOCK, 0.0):
        _fold(root)


def is_current(name: str) -> bool:
    """Whether a file of the log's folder is one that this version reads."""
    return name in (LOG, _TOTALS) or name.startswith(KEPT)


def of_events(found: Iterable[Event], stages: Iterable[str] = ()) -> dict[str, Any]:
    """What some events add up to."""
    counters: dict[str, float] = {}
    for event in found:
        _add(counters, event)
    return _totals(counters, stages)


def _fold(root: Directory) -> tuple[str, dict[str, float]]:
    """Add every complete line to the totals; the lock must be held. Raises OSError.

    Returns the name of the log folded last, and the counters. That name is written with the counters in
    one file, so what a fold that was killed did not come to add is added by the next one, and once.
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
    """A name for a log after that of the log folded last, even under a clock that was put back."""
    try:
        last = int(_id(folded).partition("-")[0], 16)
    except ValueError:
        last = 0
    return f"{KEPT}{max(time.time_ns(), last + 1):016x}-{os.getpid():x}.log"


def _not_in(folded: str, found: Iterable[str]) -> list[str]:
    """The logs that are out of use and not in the totals yet."""
    return [name for name in found if name.startswith(KEPT) and _id(name) > _id(folded)]


def _id(name: str) -> str:
    return name.partition(".")[2]


def _drop_oldest(root: Directory) -> None:
    """Keep the events bounded; what cannot be removed is no reason not to count."""
    kept = 0
    for name, status in sorted(root.list(FOLDER), reverse=True):
        if name.startswith(KEPT):
            kept += status.st_size
            if kept > _MOST_KEPT:
                with contextlib.suppress(OSError):
                    root.unlink(f"{FOLDER}/{name}")


def _close_log(root: Directory, name: str) -> bytes:
    """Close the log to writers that still have it open, and return what got into it before.

    One that cannot be ours is not written to, and holds nothing that counts.
    """
    try:
        descriptor = open_log(root, f"{FOLDER}/{name}", os.O_RDWR | os.O_APPEND)
    except StrangeFileError:
        return b""
    with open(descriptor, "rb") as log:
        if os.write(descriptor, CLOSED) < len(CLOSED):
            raise OSError("the disk is full")
        os.lseek(descriptor, 0, os.SEEK_SET)
        return log.read(LARGEST_LOG).partition(CLOSED)[0]


def _counters(root: Directory) -> dict[str, float]:
    """The counters as of now, with nothing written; raises OSError and JournalError."""
    for _ in range(_SNAPSHOT_TRIES):
        before = _read_totals(root), names(root)
        (folded, known), found = before
        counters = dict(known)
        try:
            for name in [*_not_in(folded, found), *(name for name in found if name == LOG)]:
                content, _ = root.read(f"{FOLDER}/{name}", LARGEST_LOG)
                _add_lines(counters, content.partition(CLOSED)[0])
        except FileNotFoundError:
            continue  # folded under our eyes
        except StrangeFileError:
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
    """What one call adds to which counter."""
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
    """What the tables say of its fields."""
    for name, adds in _ADDING[type(record)]:
        value = getattr(record, name)
        if isinstance(value, (int, float)):
            if value:
                yield adds, value
        else:
            words = value.split(",") if isinstance(value, str) else value
            yield from ((f"{adds}.{word}", 1) for word in words if word)


def _of_executor(stage: StageEvent) -> Iterator[tuple[str, float]]:
    """What a stage that was sent to another machine adds; nothing for others."""
    if word := events.why_here(stage):
        yield from (("executor.sent", 1), ("executor.ran_here", 1), (f"executor.reasons.{word}", 1))
    if costs := events.away(stage):
        yield from (("executor.sent", 1), ("executor.came_back", 1))
        yield f"executor.seconds_{'saved' if costs.is_cached else 'running'}", costs.run
        yield from _of_fields(costs)


def _read_totals(root: Directory) -> tuple[str, dict[str, float]]:
    """The log folded last and the counters; nothing of a damaged file is kept. Raises OSError."""
    import json

    try:
        stored = json.loads(root.read(f"{FOLDER}/{_TOTALS}", _LARGEST_TOTALS)[0])
        counters = {str(name): _amount(value) for name, value in stored["counters"].items()}
        return str(stored["folded"]), counters
    except (FileNotFoundError, StrangeFileError):
        return "", {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "", {}


def _amount(value: float) -> float:
    """The value itself, an int kept an int; raises ValueError or TypeError for what cannot be a sum."""
    if not -1e15 < value < 1e15:
        raise ValueError(value)
    return value


def _write_totals(root: Directory, folded: str, counters: dict[str, float]) -> None:
    import json

    text = json.dumps({"folded": folded, "counters": counters}, indent=1, sort_keys=True)
    root.write(f"{FOLDER}/{_TOTALS}", text.encode())


def _totals(counters: dict[str, float], stages: Iterable[str]) -> dict[str, Any]:
    """The counters this version and the caller know, all of them present, in the shape that `stats` prints.

    What another version counted stays in the file for that version.
    """

    def shown(name: str, kind: type) -> object:
        if kind is str:
            words = (counter for counter in sorted(counters) if counter.startswith(f"{name}."))
            return {counter.removeprefix(f"{name}."): int(counters[counter]) for counter in words}
        return int(counters.get(name, 0)) if kind is int else round(counters.get(name, 0), 6)

    made: dict[str, Any] = {}
    for counter, kind in _COUNTERS.items():
        section, _, name = counter.rpartition(".")
        (made.setdefault(section, {}) if section else made)[name] = shown(counter, kind)
    # An outcome of another version counts as a call, as it does in the event log.
    made["calls"] = {**dict.fromkeys(outcomes.OUTCOMES, 0), **made["calls"]}
    made["stages"] = {
        stage: {name: shown(f"stages.{stage}.{name}", kind) for name, kind in _OF_A_STAGE.items()}
        for stage in stages
    }
    made["since"] = round(counters.get(_FIRST, 0), 3)
    return made
