"""The totals of all calls.

    $NVCCACHE_DIR/journal/
      totals-v2.json         counters, the last log in them, and since when calls are counted

The call that finds the log large renames it, and adds the log renamed before to the totals: nobody writes to
that one any more. Logs before that one are removed. Readers add the logs that are not in the totals yet, and
write nothing.
"""

from __future__ import annotations

import contextlib
import time

from nvccache import outcomes
from nvccache.store import directory as directories
from nvccache.store import event_line, events, locks
from nvccache.store.directory import Directory
from nvccache.store.event_line import FOLDER, LOG, LOGS, Event
from nvccache.store.events import JournalError, cause, where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    Counters = dict[str, float]

_TOTALS = "totals-v2.json"
# Counters that are not sums: when the first counted call began, and when all were reset.
_FIRST, _ZEROED = "first", "zeroed"
_SNAPSHOT_TRIES = 5
_LOCK, _LOCK_SECONDS = f"{locks.FOLDER}/journal.lock", 10.0
_LARGEST_TOTALS = 1 << 24
# All counters except those by kind of stage; those of words have one for each word.
_WORDS = "calls bypass_reasons store_faults wrong_settings remote.faults executor.reasons".split()
_COUNTS = (
    "remote.calls remote.asked remote.found remote.bytes_received executor.sent executor.came_back"
    " executor.ran_here executor.bytes_sent executor.bytes_received executor.from_action_cache in_vain.runs"
).split()
_SECONDS = (
    "seconds_spent seconds_saved remote.seconds_waited executor.seconds_queued executor.seconds_sending"
    " executor.seconds_running executor.seconds_fetching executor.seconds_saved in_vain.seconds"
).split()
_COUNTERS: dict[str, type] = {
    **dict.fromkeys(_WORDS, str),
    **dict.fromkeys(_COUNTS, int),
    **dict.fromkeys(_SECONDS, float),
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
    if not events.logs(root):
        return zeros(stages)
    try:
        with locks.held(root, _LOCK, _LOCK_SECONDS):
            counters, now = _counters(root), time.time()
            _write_totals(root, _read_totals(root)[0], {_FIRST: now, _ZEROED: now})
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
    """Begin another log, and add the one before the last to the totals; not if another process does so."""
    root = directories.at(cache)
    with contextlib.suppress(OSError, JournalError), locks.held(root, _LOCK, 0.0):
        if root.status(f"{FOLDER}/{LOG}").st_size < event_line.LARGE:
            return
        folded, counters = _read_totals(root)
        renamed = [name for name in events.logs(root) if name != LOG]
        for name in (name for name in renamed if name > folded):
            _add_all(counters, events.of_log(root, name))
            folded = name
        _write_totals(root, folded, counters)
        for name in (name for name in renamed if name < folded):
            root.unlink(f"{FOLDER}/{name}")
        # After all others, even if the clock was set back.
        last = int(renamed[-1].removeprefix(LOGS)[:16], 16) if renamed else 0
        root.rename(f"{FOLDER}/{LOG}", f"{FOLDER}/{LOGS}{max(time.time_ns(), last + 1):016x}.log")


def is_current(name: str) -> bool:
    """Whether a file in the log's folder belongs to this version."""
    return name == _TOTALS or name.startswith(LOGS)


def of_events(found: Iterable[Event], stages: Iterable[str] = ()) -> dict[str, Any]:
    """The totals of these events."""
    counters: Counters = {}
    _add_all(counters, found)
    return _totals(counters, stages)


def _counters(root: Directory) -> Counters:
    """The counters as of now; writes nothing. Raises OSError and JournalError."""
    for _ in range(_SNAPSHOT_TRIES):
        folded, counters = _read_totals(root)
        found = events.logs(root)
        for name in (name for name in found if name > folded):
            _add_all(counters, events.of_log(root, name))
        if events.logs(root) == found:  # else one was renamed meanwhile, perhaps unread
            break
    return counters


def _add_all(counters: Counters, found: Iterable[Event]) -> None:
    for event in found:
        if event.ended >= counters.get(_ZEROED, 0):
            for name, amount in _amounts(event):
                counters[name] = counters.get(name, 0) + amount
            counters[_FIRST] = min(event.started, counters.get(_FIRST) or event.started)


def _amounts(event: Event) -> Iterator[tuple[str, float]]:
    """The counters that one call adds to, with amounts."""
    yield f"calls.{event.outcome}", 1
    yield "seconds_saved", event.tool_saved
    if event.outcome == outcomes.BYPASS:
        yield f"bypass_reasons.{event.reason}", 1
    if event.store_fault:
        yield f"store_faults.{event.store_fault}", 1
    yield from ((f"wrong_settings.{name}", 1) for name in event.wrong_settings.split(",") if name)
    if use := event.remote:
        yield "remote.calls", int(use.asked > 0)
        yield from (("remote.asked", use.asked), ("remote.found", use.found))
        yield from (("remote.bytes_received", use.bytes), ("remote.seconds_waited", use.seconds))
        yield from ((f"remote.faults.{word}", 1) for word in use.faults)
    for stage in event.stages:
        is_replayed = event.outcome == outcomes.DIRECT_HIT
        result = "replayed" if is_replayed else "hit" if stage.is_hit else "miss"
        yield f"stages.{stage.kind}.{result}", 1
        yield f"stages.{stage.kind}.seconds_saved", stage.cost if stage.is_hit else 0
        yield f"stages.{stage.kind}.seconds", events.tool_spent(stage)
        yield "seconds_spent", events.tool_spent(stage)
        if stage.in_vain:
            yield from (("in_vain.runs", 1), ("in_vain.seconds", stage.in_vain))
        if reason := events.why_here(stage):
            yield from (("executor.sent", 1), ("executor.ran_here", 1), (f"executor.reasons.{reason}", 1))
        if costs := events.remote_costs(stage):
            yield from (("executor.sent", 1), ("executor.came_back", 1))
            yield f"executor.seconds_{'saved' if costs.is_cached else 'running'}", costs.run
            yield from (("executor.seconds_queued", costs.queue), ("executor.seconds_sending", costs.send))
            yield from (("executor.seconds_fetching", costs.fetch), ("executor.bytes_sent", costs.sent_bytes))
            yield "executor.bytes_received", costs.fetched_bytes
            yield "executor.from_action_cache", costs.is_cached


def _read_totals(root: Directory) -> tuple[str, Counters]:
    """The last log in the totals and the counters; empty if the file is damaged. Raises OSError."""
    import json

    try:
        stored = json.loads(root.read(f"{FOLDER}/{_TOTALS}", _LARGEST_TOTALS)[0])
        return str(stored["folded"]), {name: float(value) for name, value in stored["counters"].items()}
    except FileNotFoundError:
        return "", {}
    except (ValueError, KeyError, TypeError, AttributeError):
        return "", {}


def _write_totals(root: Directory, folded: str, counters: Counters) -> None:
    import json

    text = json.dumps({"folded": folded, "counters": counters}, indent=1, sort_keys=True)
    root.write(f"{FOLDER}/{_TOTALS}", text.encode())


def _totals(counters: Counters, stages: Iterable[str]) -> dict[str, Any]:
    """The counters that this version and the caller know, in the shape that `stats` prints."""

    def total(name: str, kind: type) -> object:
        if kind is str:
            members = (counter for counter in sorted(counters) if counter.startswith(f"{name}."))
            return {counter.removeprefix(f"{name}."): int(counters[counter]) for counter in members}
        return int(counters.get(name, 0)) if kind is int else round(counters.get(name, 0), 6)

    made: dict[str, Any] = {}
    for counter, kind in _COUNTERS.items():
        section, _, name = counter.rpartition(".")
        (made.setdefault(section, {}) if section else made)[name] = total(counter, kind)
    made["calls"] = {**dict.fromkeys(outcomes.OUTCOMES, 0), **made["calls"]}
    made["stages"] = {
        stage: {name: total(f"stages.{stage}.{name}", kind) for name, kind in _STAGE_COUNTERS.items()}
        for stage in stages
    }
    made["since"] = round(counters.get(_FIRST, 0), 3)
    return made
