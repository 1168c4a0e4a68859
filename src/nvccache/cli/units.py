"""Parses and formats sizes, durations and times for users."""

from __future__ import annotations

import os
import re
import time
from datetime import datetime

import click

from nvccache.config import ConfigError, parse_size
from nvccache.store import events
from nvccache.store.event_line import Event

LAST_BUILD = "last-build"
_ALL = "all"
SINCE_HELP = f"Only calls since WHEN: an age such as `2h`, a date and time, `{LAST_BUILD}` or `{_ALL}`."
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_BYTE_UNITS = ("KiB", "MiB", "GiB", "TiB")


def size_option(_: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Callback of an option that takes a size such as `10G`: its bytes."""
    try:
        size = None if value is None else parse_size(value)
    except ConfigError as error:
        raise click.BadParameter(str(error), param=param) from None
    if size == 0:
        raise click.BadParameter(f"`{value}` means no limit; `--all` removes everything", param=param)
    return size


def age_option(_: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Callback of an option that takes a duration such as `30d`: its seconds."""
    if value is None:
        return None
    seconds = _seconds_of(value)
    if seconds is None:
        raise click.BadParameter(f"`{value}` is not an age such as `30d`, `12h` or `90m`", param=param)
    return seconds


def since_option(_: click.Context, param: click.Parameter, value: str | None) -> float | str | None:
    """Callback of the option: a Unix time, LAST_BUILD, or None for all calls."""
    if value in (None, _ALL, LAST_BUILD):
        return None if value == _ALL else value
    seconds = _seconds_of(value)
    if seconds is not None:
        return time.time() - seconds
    try:
        return datetime.fromisoformat(value).timestamp()
    except (ValueError, OverflowError, OSError):
        forms = f"an age such as `2h`, a date such as `2026-11-01T09:00`, `{LAST_BUILD}` nor `{_ALL}`"
        raise click.BadParameter(f"`{value}` is neither {forms}", param=param) from None


def _seconds_of(age: str) -> float | None:
    found = re.fullmatch(r"([0-9]{1,9})([smhdw])", age.strip().lower())
    return float(int(found[1]) * _SECONDS[found[2]]) if found else None


def format_size(size: int) -> str:
    """`1536` -> `1.5 KiB`."""
    if size < 1024:
        return f"{size} bytes" if size != 1 else "1 byte"
    amount = float(size)
    for unit in _BYTE_UNITS:
        amount /= 1024
        if amount < 1024 or unit == _BYTE_UNITS[-1]:
            break
    return f"{amount:.1f} {unit}"


def format_seconds(seconds: float) -> str:
    """`3.14159` -> `3.14 s`, `7384.0` -> `2 h 3 min`."""
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes = int(seconds) // 60
    if minutes < 60:
        return f"{minutes} min {int(seconds) % 60} s"
    return f"{minutes // 60} h {minutes % 60} min"


def shown_path(path: str) -> str:
    """A path, relative to the working directory if it is below that."""
    return path.removeprefix(os.path.join(os.getcwd(), ""))


def format_ago(seconds: float) -> str:
    """`63.4` -> `63 s ago`."""
    if seconds < 2:
        return "just now"
    if seconds < 86400:
        return f"{format_seconds(int(seconds)).replace('.00', '')} ago"
    return f"{format_count(int(seconds // 86400), 'day')} ago"


def format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def hits_of(hits: int, of: int, noun: str) -> str:
    """`2 of 3 compiles were hits`; `of` is not 0."""
    if not hits:
        return f"no {noun} was a hit" if of == 1 else f"none of {of:,} {noun}s was a hit"
    return f"{hits:,} of {of:,} {noun}{'' if of == 1 else 's'} {'was a hit' if hits == 1 else 'were hits'}"


def events_of(root: str, since: float | str | None) -> list[Event]:
    """The events since then, oldest first; raises events.JournalError."""
    if not root:
        return []
    if since == LAST_BUILD:
        return events.last_build(list(events.read(root)))
    return list(events.read(root, since if isinstance(since, float) else 0.0))


def moment(unix_time: float, form: str = "%Y-%m-%d %H:%M") -> str:
    """`2026-11-01 09:12`, in local time."""
    try:
        return datetime.fromtimestamp(unix_time).strftime(form)
    except (ValueError, OverflowError, OSError):
        return "an unknown time"
