"""The totals of all calls.

    $NVCCACHE_DIR/journal/
      totals-v4.json         the totals of the logs before the last two, and since when calls are counted

There are two logs, the current one and an old one, to which no call writes any more. A call that finds the
current log full adds the old log to the file of totals. Then it renames the current log, which thus replaces
the old one. If the call is killed between these steps, the calls in the old log are counted twice. Readers
add both logs to the totals, and write nothing.
"""

from __future__ import annotations

import contextlib
import time

from nvccache import outcomes
from nvccache.store import directory as directories
from nvccache.store import event_line, events, locks
from nvccache.store.directory import Directory, StoreError
from nvccache.store.event_line import FOLDER, LOG, OLD_LOG, Event, RemoteUse
from nvccache.store.events import cause, where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Totals = dict[str, Any]  # nested; the leaves are numbers

_TOTALS = "totals-v4.json"
_LOCK, _LOCK_SECONDS = "journal", 10.0
_NO_STAGES = dict.fromkeys(("hit", "miss", "replayed", "seconds", "seconds_saved"), 0)


class _Stored:
    """The content of the file of totals."""

    def __init__(self) -> None:
        self.totals: Totals = {}
        self.zeroed = 0.0  # Unix time of the last reset, or 0
        self.first = 0.0  # Unix time at which the first counted call began

    def add(self, calls: Iterable[Event]) -> None:
        for event in calls:
            if event.ended >= self.zeroed:
                _add(self.totals, _totals_of_event(event))
                self.first = min(event.started, self.first or event.started)


def read(cache: str | Directory, stages: Iterable[str] = ()) -> Totals:
    """The totals of all calls, with a row for each kind of stage in `stages`; raises StoreError.

    Writes nothing. All totals are 0 if there is no journal.
    """
    root = directories.at(cache)
    try:
        return _document(_current(root), stages)
    except OSError as error:
        raise StoreError(f"cannot read the counts in `{where(root)}`: {cause(error)}") from None


def total(calls: Iterable[Event], stages: Iterable[str] = ()) -> Totals:
    """The totals of these calls, in the same form as from `read`."""
    stored = _Stored()
    stored.add(calls)
    return _document(stored, stages)


def reset(cache: str | Directory, stages: Iterable[str] = ()) -> Totals:
    """Reset all counters and return the totals up to now; raises StoreError."""
    root, before = directories.at(cache), read(cache, stages)
    if not any(root.exists(f"{FOLDER}/{name}") for name in events.LOGS):
        return before
    try:
        with locks.hold(root, _LOCK, _LOCK_SECONDS, locks.with_filelock):
            before, new = _document(_current(root), stages), _Stored()
            new.zeroed = new.first = time.time()
            _write(root, new)
            return before
    except OSError as error:
        raise StoreError(f"cannot reset the counts in `{where(root)}`: {cause(error)}") from None


def since_reset(calls: Iterable[Event], cache: str | Directory) -> list[Event]:
    """The events that the totals include: those of calls that ended after the last reset."""
    try:
        zeroed = _read(directories.at(cache)).zeroed
    except OSError:
        zeroed = 0.0
    return [event for event in calls if event.ended >= zeroed]


def fold(cache: str | Directory) -> None:
    """If the current log is full, add the old log to the totals; the current log then becomes the old log.

    Does nothing if another process is doing so. Raises nothing.
    """
    root = directories.at(cache)
    with contextlib.suppress(OSError, StoreError), locks.hold(root, _LOCK, 0.0, locks.with_filelock):
        if root.status(f"{FOLDER}/{LOG}").st_size < event_line.LARGE:
            return
        stored = _read(root)
        stored.add(events.events_in(root, OLD_LOG))
        _write(root, stored)
        root.rename(f"{FOLDER}/{LOG}", f"{FOLDER}/{OLD_LOG}")


def _current(root: Directory) -> _Stored:
    """The current totals, those of both logs included; writes nothing. Raises OSError and StoreError.

    If another process renames a log at this moment, the calls in that log may be missing.
    """
    stored = _read(root)
    for name in events.LOGS:
        stored.add(events.events_in(root, name))
    return stored


def _totals_of_event(event: Event) -> Totals:
    stages: Totals = {}
    executor: Totals = {"reasons": {}}
    for stage in event.stages:
        result = "miss" if not stage.is_hit else "replayed" if event.outcome == outcomes.DIRECT_HIT else "hit"
        saved = stage.cost if stage.is_hit else 0.0
        _add(stages, {stage.kind: {result: 1, "seconds_saved": saved, "seconds": events.tool_spent(stage)}})
        if events.ran_elsewhere(stage):
            _add(executor, {"sent": 1, "came_back": 1})
        if reason := events.why_here(stage):
            _add(executor, {"sent": 1, "reasons": {reason: 1}})
    return {
        "calls": {event.outcome: 1},
        "bypass_reasons": {event.reason: 1} if event.outcome == outcomes.BYPASS else {},
        "store_faults": {event.store_fault: 1} if event.store_fault else {},
        "seconds_saved": event.tool_saved,
        "seconds_spent": sum(map(events.tool_spent, event.stages)),
        "seconds_overhead": events.overhead(event),
        "remote": _totals_of_remote(event.remote) if event.remote else {},
        "executor": executor,
        "stages": stages,
    }


def _totals_of_remote(use: RemoteUse) -> Totals:
    return {
        "calls": int(use.asked > 0),
        "asked": use.asked,
        "found": use.found,
        "bytes_received": use.bytes,
        "seconds_waited": use.seconds,
        "faults": dict.fromkeys(use.faults, 1),
    }


def _add(totals: Totals, more: Totals) -> None:
    """Add the numbers in `more` to those of the same names in `totals`; raises TypeError for other values."""
    for name, amount in more.items():
        if isinstance(amount, dict):
            _add(totals.setdefault(name, {}), amount)
        else:
            totals[name] = round(totals.get(name, 0) + amount, 6)


def _document(stored: _Stored, stages: Iterable[str]) -> Totals:
    """The totals in the form that `stats` prints, with 0 for what was never counted."""
    document: Totals = {
        "calls": dict.fromkeys(outcomes.OUTCOMES, 0),
        **{name: {} for name in ("bypass_reasons", "store_faults")},
        **dict.fromkeys(("seconds_spent", "seconds_saved", "seconds_overhead"), 0),
        "remote": {**_totals_of_remote(RemoteUse(0, 0, 0, 0)), "faults": {}},
        "executor": {"sent": 0, "came_back": 0, "reasons": {}},
    }
    _add(document, {name: amount for name, amount in stored.totals.items() if name != "stages"})
    counted = stored.totals.get("stages", {})
    document["stages"] = {stage: {**_NO_STAGES, **counted.get(stage, {})} for stage in stages}
    return {**document, "since": round(stored.first, 3)}


def _read(root: Directory) -> _Stored:
    """The content of the file of totals; empty if the file is damaged or missing. Raises OSError."""
    import json

    stored = _Stored()
    try:
        content = json.loads(root.read(f"{FOLDER}/{_TOTALS}")[0])
        _add(stored.totals, content["totals"])
        stored.zeroed, stored.first = float(content["zeroed"]), float(content["first"])
    except FileNotFoundError:
        return stored
    except (ValueError, KeyError, TypeError, AttributeError):
        return _Stored()
    return stored


def _write(root: Directory, stored: _Stored) -> None:
    import json

    root.write(f"{FOLDER}/{_TOTALS}", json.dumps(vars(stored), indent=1, sort_keys=True).encode())
