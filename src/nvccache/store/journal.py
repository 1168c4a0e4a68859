"""The journal: one record a call, appended without a lock, folded into totals by whoever reads them.

    $NVCCACHE_DIR/journal/
      calls-v3.log           one line a call, appended with a single write
      folding-v3.<id>.log    a log taken out of use, on its way into the totals
      recent-v3.log          the last lines folded, for `nvccache explain`
      totals-v1.json         what the lines folded so far add up to: named counters

A line is `outcome, reason, seconds, seconds_saved, product, store fault, wrong settings, (stage, hit|miss,
seconds)*, .`, tab separated; the product is an absolute path, percent-encoded where it would end a field;
wrong settings are names with commas. Owns the format of all of them; knows nothing of how an outcome came
about.
"""

from __future__ import annotations

import contextlib
import os

from nvccache import outcomes
from nvccache.store import directory as directories
from nvccache.store.directory import Directory, StrangeFileError
from nvccache.store.journal_line import CLOSED, FOLDER, LARGE, LOG, Call, open_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager
    from typing import TypedDict

    class StageTotals(TypedDict):
        hit: int
        miss: int
        seconds: float
        seconds_saved: float

    class Totals(TypedDict):
        calls: dict[str, int]
        bypass_reasons: dict[str, int]
        store_faults: dict[str, int]
        wrong_settings: dict[str, int]
        stages: dict[str, StageTotals]
        seconds_saved: float


_FOLDING = "folding-v3."
_RECENT = "recent-v3.log"
_TOTALS = "totals-v1.json"
_HEAD = 7  # fields before those of the stages
_SNAPSHOT_TRIES = 5
_LOCK_SECONDS = 10.0
_LARGEST_LOG = 1 << 26  # bytes; a log is folded when it has one MiB
_LARGEST_TOTALS = 1 << 24


class JournalError(Exception):
    """The journal cannot be used; the message is one sentence for the user."""


def totals(place: str | Directory, stages: Iterable[str] = ()) -> Totals:
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
    if not _names(root):
        return _totals({}, stages)
    try:
        with _lock(root, _LOCK_SECONDS):
            folded, counters = _fold(root)
            _write_totals(root, folded, {})
            return _totals(counters, stages)
    except OSError as error:
        raise JournalError(f"cannot reset the counts in `{_where(root)}`: {_cause(error)}") from None


def fold(place: str | Directory) -> None:
    """Fold what has been appended, unless somebody else is doing it: one fold is as good as another."""
    root = directories.at(place)
    try:
        with _lock(root, 0.0):
            _fold(root)
    except OSError:
        pass


def is_current(name: str) -> bool:
    """Whether a file of the journal is one that this version reads."""
    return name in (LOG, _RECENT, _TOTALS) or name.startswith(_FOLDING)


def last_call(place: str | Directory, product: str = "") -> Call | None:
    """The last call that made this product, or the last of all that made one; None if it is not known."""
    root = directories.at(place)
    try:
        logs = [name for name in _names(root) if name.startswith(_FOLDING)]
        lines = b"".join(_read(root, name) for name in (_RECENT, *logs, LOG))
    except OSError as error:
        raise JournalError(f"cannot read `{_where(root)}`: {_cause(error)}") from None
    for line in reversed(os.fsdecode(lines).split("\n")):
        call = _call_of(line.split("\t"))
        if call and call.product and product in ("", call.product):
            return call
    return None


def _call_of(fields: list[str]) -> Call | None:
    if not _is_whole(fields):
        return None
    try:
        call = Call(fields[0], fields[1], seconds=_seconds(fields[2]), seconds_saved=_seconds(fields[3]))
        for index in range(_HEAD, len(fields) - 1, 3):
            call.stages.append((fields[index], fields[index + 1] == "hit", _seconds(fields[index + 2])))
    except ValueError:
        return None
    call.product = _unquote(fields[4])
    call.store_fault, call.wrong_settings = fields[5], fields[6]
    return call


def _is_whole(fields: list[str]) -> bool:
    return len(fields) > _HEAD and (len(fields) - _HEAD) % 3 == 1 and fields[-1] == "."


def _unquote(path: str) -> str:
    return path.replace("%0A", "\n").replace("%09", "\t").replace("%25", "%")


def _counters(root: Directory) -> dict[str, float]:
    if any(name == LOG or name.startswith(_FOLDING) for name in _names(root)):
        try:
            with _lock(root, _LOCK_SECONDS):
                return _fold(root)[1]
        except OSError:  # read-only or locked for too long: read without folding
            pass
    try:
        return _snapshot(root)
    except OSError as error:
        raise JournalError(f"cannot read the counts in `{_where(root)}`: {_cause(error)}") from None


def _where(root: Directory) -> str:
    return os.path.join(root.path, FOLDER)


def _names(root: Directory) -> list[str]:
    try:
        return sorted(name for name, _ in root.list(FOLDER))
    except OSError as error:
        raise JournalError(f"cannot read the counts in `{_where(root)}`: {_cause(error)}") from None


def _cause(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def _lock(root: Directory, seconds: float) -> AbstractContextManager[object]:
    """The lock that folds take, waited for at most `seconds`; raises OSError, Timeout included."""
    from nvccache.store import locks

    return locks.held(root, f"{locks.FOLDER}/journal.lock", seconds)


def _fold(root: Directory) -> tuple[str, dict[str, float]]:
    """Add every complete line to the totals; the lock must be held. Raises OSError.

    Returns the name of the log folded last, and the counters. That name is written with the counters in
    one file, so a fold that is killed before it removes the log does not count it twice.
    """
    import time

    folded, counters = _read_totals(root)
    try:
        if root.status(f"{FOLDER}/{LOG}").st_size:
            root.rename(f"{FOLDER}/{LOG}", f"{_FOLDING}{time.time_ns():x}-{os.getpid():x}.log")
    except FileNotFoundError:
        pass
    for name in _names(root):
        if not name.startswith(_FOLDING):
            continue
        if name != folded:
            lines = _close_log(root, name)
            _add_lines(counters, lines)
            _keep_recent(root, lines)
            folded = name
            _write_totals(root, folded, counters)
        with contextlib.suppress(IsADirectoryError):
            root.unlink(f"{FOLDER}/{name}")
    return folded, counters


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
        return log.read(_LARGEST_LOG).partition(CLOSED)[0]


def _keep_recent(root: Directory, lines: bytes) -> None:
    """Keep the last lines for who asks about one call; losing them is no harm."""
    with contextlib.suppress(OSError):
        root.write(f"{FOLDER}/{_RECENT}", (_read(root, _RECENT) + lines)[-LARGE:])


def _read(root: Directory, name: str) -> bytes:
    """What is in a log; nothing if there is none, or none of ours."""
    try:
        return root.read(f"{FOLDER}/{name}", _LARGEST_LOG)[0]
    except (FileNotFoundError, StrangeFileError):
        return b""


def _snapshot(root: Directory) -> dict[str, float]:
    """The counters as of now, with nothing written; raises OSError."""
    for _ in range(_SNAPSHOT_TRIES):
        before = _read_totals(root)
        folded, counters = before[0], dict(before[1])
        try:
            for name in _names(root):
                if name == LOG or (name.startswith(_FOLDING) and name != folded):
                    content, _ = root.read(f"{FOLDER}/{name}", _LARGEST_LOG)
                    _add_lines(counters, content.partition(CLOSED)[0])
        except FileNotFoundError:
            continue  # folded under our eyes
        except StrangeFileError:
            pass
        if _read_totals(root) == before:
            break
    return counters


def _add_lines(counters: dict[str, float], lines: bytes) -> None:
    for line in lines.decode(errors="replace").split("\n"):
        fields = line.split("\t")
        if not _is_whole(fields):
            continue
        try:
            amounts = _amounts(fields)
        except ValueError:
            continue
        for name, amount in amounts:
            counters[name] = counters.get(name, 0) + amount


def _amounts(fields: list[str]) -> list[tuple[str, float]]:
    """What one line adds to which counter; raises ValueError."""
    outcome, reason, seconds, saved = fields[:4]
    _seconds(seconds)
    amounts: list[tuple[str, float]] = [(f"calls.{outcome}", 1), ("seconds_saved", _seconds(saved))]
    if outcome == outcomes.BYPASS:
        amounts.append((f"bypass_reasons.{reason}", 1))
    if fields[5]:
        amounts.append((f"store_faults.{fields[5]}", 1))
    amounts += [(f"wrong_settings.{name}", 1) for name in fields[6].split(",") if name]
    for index in range(_HEAD, len(fields) - 1, 3):
        stage, result, seconds = fields[index : index + 3]
        if result not in ("hit", "miss"):
            raise ValueError(result)
        kind = "seconds_saved" if result == "hit" else "seconds"
        amounts += ((f"stages.{stage}.{result}", 1), (f"stages.{stage}.{kind}", _seconds(seconds)))
    return amounts


def _seconds(text: str) -> float:
    value = float(text)
    if not -1e9 < value < 1e9:  # also refuses nan, which would swallow every sum
        raise ValueError(text)
    return value


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
        "calls": {outcome: int(amount(f"calls.{outcome}")) for outcome in outcomes.OUTCOMES},
        "bypass_reasons": amounts("bypass_reasons"),
        "store_faults": amounts("store_faults"),
        "wrong_settings": amounts("wrong_settings"),
        "stages": {
            stage: {
                "hit": int(amount(f"stages.{stage}.hit")),
                "miss": int(amount(f"stages.{stage}.miss")),
                "seconds": round(amount(f"stages.{stage}.seconds"), 6),
                "seconds_saved": round(amount(f"stages.{stage}.seconds_saved"), 6),
            }
            for stage in stages
        },
        "seconds_saved": round(amount("seconds_saved"), 6),
    }
