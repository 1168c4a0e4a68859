"""The totals: what all calls so far add up to, folded from the event log by whoever reads them.

    $NVCCACHE_DIR/journal/
      totals-v1.json         named counters, the log folded last, and since when is counted

A fold takes the log out of use, adds it to the totals and keeps it for events.py, which draws the rest of the
folder. Owns the counters and the format of their file; knows nothing of how an outcome came about.
"""

from __future__ import annotations

import contextlib
import os
import time

from nvccache import outcomes
from nvccache.store import directory as directories
from nvccache.store import events
from nvccache.store.directory import Directory, StrangeFileError
from nvccache.store.event_line import CLOSED, FOLDER, LOG, Event, open_log
from nvccache.store.events import FOLDING, FORMER_LOG, KEPT, LARGEST_LOG, JournalError, cause, names, where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager
    from typing import TypedDict

    from nvccache.store.event_line import RemoteUse, StageEvent

    class StageTotals(TypedDict):
        hit: int
        miss: int
        replayed: int
        seconds: float
        seconds_saved: float

    class RemoteTotals(TypedDict):
        calls: int
        asked: int
        found: int
        bytes_received: int
        seconds_waited: float
        faults: dict[str, int]

    class ExecutorTotals(TypedDict):
        sent: int
        came_back: int
        from_action_cache: int
        ran_here: int
        reasons: dict[str, int]
        seconds_queued: float
        seconds_sending: float
        seconds_running: float
        seconds_fetching: float
        seconds_saved: float
        bytes_sent: int
        bytes_received: int

    class InVainTotals(TypedDict):
        runs: int
        seconds: float

    class Totals(TypedDict):
        calls: dict[str, int]
        bypass_reasons: dict[str, int]
        store_faults: dict[str, int]
        wrong_settings: dict[str, int]
        stages: dict[str, StageTotals]
        remote: RemoteTotals
        executor: ExecutorTotals
        in_vain: InVainTotals
        seconds_saved: float
        wall_seconds_saved: float
        seconds: float
        since: float


_TOTALS = "totals-v1.json"
# Of the counters those that are no sums: when the first call counted began, and when they were set to zero.
_FIRST, _ZEROED = "first", "zeroed"
_SNAPSHOT_TRIES = 5
_LOCK_SECONDS = 10.0
_LARGEST_TOTALS = 1 << 24
_MOST_KEPT = 1 << 25  # bytes of events


def read(place: str | Directory, stages: Iterable[str] = ()) -> Totals:
    """What all calls add up to, and of these kinds of stages, new lines folded in; raises JournalError.

    Where nothing may be written the sum is made without folding. A missing journal is all zeros.
    """
    return _totals(_counters(directories.at(place)), stages)


def nothing(stages: Iterable[str] = ()) -> Totals:
    """The totals where calls are counted nowhere."""
    return _totals({}, stages)


def reset(place: str | Directory, stages: Iterable[str] = ()) -> Totals:
    """Set every count to zero and return what was counted until now; raises JournalError."""
    root = directories.at(place)
    if not names(root):
        return _totals({}, stages)
    try:
        with _lock(root, _LOCK_SECONDS):
            folded, counters = _fold(root)
            now = time.time()
            _write_totals(root, folded, {_FIRST: now, _ZEROED: now})
            return _totals(counters, stages)
    except OSError as error:
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
    try:
        with _lock(root, 0.0):
            _fold(root)
    except OSError:
        pass


def is_current(name: str) -> bool:
    """Whether a file of the log's folder is one that this version reads."""
    return name in (FORMER_LOG, LOG, _TOTALS) or name.startswith((FOLDING, KEPT))


def of_events(found: Iterable[Event], stages: Iterable[str] = ()) -> Totals:
    """What some events add up to."""
    counters: dict[str, float] = {}
    for event in found:
        _add(counters, event)
    return _totals(counters, stages)


def _counters(root: Directory) -> dict[str, float]:
    if any(name in (FORMER_LOG, LOG) or name.startswith(FOLDING) for name in names(root)):
        try:
            with _lock(root, _LOCK_SECONDS):
                return _fold(root)[1]
        except OSError:  # read-only or locked for too long: read without folding
            pass
    try:
        return _snapshot(root)
    except OSError as error:
        raise JournalError(f"cannot read the counts in `{where(root)}`: {cause(error)}") from None


def _lock(root: Directory, seconds: float) -> AbstractContextManager[object]:
    """The lock that folds take, waited for at most `seconds`; raises OSError, Timeout included."""
    from nvccache.store import locks

    return locks.held(root, f"{locks.FOLDER}/journal.lock", seconds)


def _fold(root: Directory) -> tuple[str, dict[str, float]]:
    """Add every complete line to the totals; the lock must be held. Raises OSError.

    Returns the name of the log folded last, and the counters. That name is written with the counters in
    one file, so a fold that is killed before it removes the log does not count it twice.
    """
    folded, counters = _read_totals(root)
    for log in (FORMER_LOG, LOG):
        with contextlib.suppress(FileNotFoundError):
            if root.status(f"{FOLDER}/{log}").st_size:
                root.rename(f"{FOLDER}/{log}", f"{FOLDING}{time.time_ns():x}-{os.getpid():x}.log")
    for name in names(root):
        if not name.startswith(FOLDING):
            continue
        if name != folded:
            lines = _close_log(root, name)
            _add_lines(counters, lines)
            folded = name
            _write_totals(root, folded, counters)
        _keep(root, name)
    _drop_oldest(root)
    return folded, counters


def _keep(root: Directory, name: str) -> None:
    """Keep a log for who asks about single calls; under its old name it would be counted again."""
    try:
        root.rename(f"{FOLDER}/{name}", KEPT + name.removeprefix(FOLDING))
    except OSError:
        with contextlib.suppress(IsADirectoryError):
            root.unlink(f"{FOLDER}/{name}")


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


def _snapshot(root: Directory) -> dict[str, float]:
    """The counters as of now, with nothing written; raises OSError."""
    for _ in range(_SNAPSHOT_TRIES):
        before = _read_totals(root)
        folded, counters = before[0], dict(before[1])
        try:
            for name in names(root):
                if name in (FORMER_LOG, LOG) or (name.startswith(FOLDING) and name != folded):
                    content, _ = root.read(f"{FOLDER}/{name}", LARGEST_LOG)
                    _add_lines(counters, content.partition(CLOSED)[0])
        except FileNotFoundError:
            continue  # folded under our eyes
        except StrangeFileError:
            pass
        if _read_totals(root) == before:
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


def _amounts(event: Event) -> list[tuple[str, float]]:
    """What one call adds to which counter."""
    amounts: list[tuple[str, float]] = [
        (f"calls.{event.outcome}", 1),
        ("seconds_saved", event.tool_saved),
        ("wall_seconds_saved", event.wall_saved),
        ("seconds", event.seconds),
    ]
    if event.outcome == outcomes.BYPASS:
        amounts.append((f"bypass_reasons.{event.reason}", 1))
    if event.store_fault:
        amounts.append((f"store_faults.{event.store_fault}", 1))
    amounts += [(f"wrong_settings.{name}", 1) for name in event.wrong_settings.split(",") if name]
    if event.remote:
        amounts += _amounts_of_remote(event.remote)
    is_replayed = event.outcome == outcomes.DIRECT_HIT
    for stage in event.stages:
        result = "replayed" if is_replayed else "hit" if stage.is_hit else "miss"
        amounts += [
            (f"stages.{stage.kind}.{result}", 1),
            (f"stages.{stage.kind}.seconds_saved", stage.cost if stage.is_hit else 0),
            (f"stages.{stage.kind}.seconds", events.tool_spent(stage)),
        ]
        amounts += _amounts_of_executor(stage)
        if stage.in_vain:
            amounts += [("in_vain.runs", 1), ("in_vain.seconds", stage.in_vain)]
    return amounts


def _amounts_of_remote(use: RemoteUse) -> list[tuple[str, float]]:
    return [
        ("remote.calls", int(use.asked > 0)),
        ("remote.asked", use.asked),
        ("remote.found", use.found),
        ("remote.bytes_received", use.bytes),
        ("remote.seconds_waited", use.seconds),
        *((f"remote_faults.{word}", 1) for word in use.faults),
    ]


def _amounts_of_executor(stage: StageEvent) -> list[tuple[str, float]]:
    """What a stage that was sent to another machine adds; nothing for others."""
    word = events.why_here(stage)
    if word:
        return [("executor.sent", 1), ("executor.ran_here", 1), (f"executor_reasons.{word}", 1)]
    costs = events.costs_away(stage)
    if not costs:
        return []
    is_cached = costs["is_cached"] > 0
    return [
        ("executor.sent", 1),
        ("executor.came_back", 1),
        ("executor.from_action_cache", int(is_cached)),
        ("executor.seconds_queued", costs["queue"]),
        ("executor.seconds_sending", costs["send"]),
        # What the engine had took its time when it ran, for whoever sent it then.
        ("executor.seconds_saved" if is_cached else "executor.seconds_running", costs["run"]),
        ("executor.seconds_fetching", costs["fetch"]),
        ("executor.bytes_sent", costs["sent_bytes"]),
        ("executor.bytes_received", costs["fetched_bytes"]),
    ]


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


def _totals(counters: dict[str, float], stages: Iterable[str]) -> Totals:
    """The counters this version and the caller know, all of them present, in the shape that `stats` prints.

    What another version counted stays in the file for that version.
    """

    def amount(name: str) -> float:
        return counters.get(name, 0)

    def amounts(head: str) -> dict[str, int]:
        names = (name for name in sorted(counters) if name.startswith(f"{head}."))
        return {name.partition(".")[2]: int(counters[name]) for name in names}

    return {
        # An outcome of another version counts as a call, as it does in the event log.
        "calls": {**dict.fromkeys(outcomes.OUTCOMES, 0), **amounts("calls")},
        "bypass_reasons": amounts("bypass_reasons"),
        "store_faults": amounts("store_faults"),
        "wrong_settings": amounts("wrong_settings"),
        "stages": {stage: _of_stage(stage, amount) for stage in stages},
        "remote": {
            "calls": int(amount("remote.calls")),
            "asked": int(amount("remote.asked")),
            "found": int(amount("remote.found")),
            "bytes_received": int(amount("remote.bytes_received")),
            "seconds_waited": round(amount("remote.seconds_waited"), 6),
            "faults": amounts("remote_faults"),
        },
        "executor": _of_executor(amount, amounts("executor_reasons")),
        "in_vain": {
            "runs": int(amount("in_vain.runs")),
            "seconds": round(amount("in_vain.seconds"), 6),
        },
        "seconds_saved": round(amount("seconds_saved"), 6),
        "wall_seconds_saved": round(amount("wall_seconds_saved"), 6),
        "seconds": round(amount("seconds"), 6),
        "since": round(amount(_FIRST), 3),
    }


def _of_stage(stage: str, amount: Callable[[str], float]) -> StageTotals:
    return {
        "hit": int(amount(f"stages.{stage}.hit")),
        "miss": int(amount(f"stages.{stage}.miss")),
        "replayed": int(amount(f"stages.{stage}.replayed")),
        "seconds": round(amount(f"stages.{stage}.seconds"), 6),
        "seconds_saved": round(amount(f"stages.{stage}.seconds_saved"), 6),
    }


def _of_executor(amount: Callable[[str], float], reasons: dict[str, int]) -> ExecutorTotals:
    return {
        "sent": int(amount("executor.sent")),
        "came_back": int(amount("executor.came_back")),
        "from_action_cache": int(amount("executor.from_action_cache")),
        "ran_here": int(amount("executor.ran_here")),
        "reasons": reasons,
        "seconds_queued": round(amount("executor.seconds_queued"), 6),
        "seconds_sending": round(amount("executor.seconds_sending"), 6),
        "seconds_running": round(amount("executor.seconds_running"), 6),
        "seconds_fetching": round(amount("executor.seconds_fetching"), 6),
        "seconds_saved": round(amount("executor.seconds_saved"), 6),
        "bytes_sent": int(amount("executor.bytes_sent")),
        "bytes_received": int(amount("executor.bytes_received")),
    }
