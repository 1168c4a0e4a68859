"""Which calls a command is about: `--since 2h`, `--since last-build` or `--since 2026-11-01`."""

from __future__ import annotations

import time
from datetime import datetime

import click

from nvccache.cli.units import age_option
from nvccache.store import events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.store.event_line import Event

LAST_BUILD = "last-build"
HELP = f"Only calls since then: an age such as `2h`, a date and time, or `{LAST_BUILD}`."


def parse(context: click.Context, param: click.Parameter, value: str | None) -> float | str | None:
    """Callback of the option: a Unix time, LAST_BUILD, or None."""
    if value is None or value == LAST_BUILD:
        return value
    try:
        return datetime.fromisoformat(value).timestamp()
    except (ValueError, OverflowError, OSError):
        pass
    try:
        age = age_option(context, param, value)
    except (click.BadParameter, OverflowError):
        raise click.BadParameter(
            f"`{value}` is no age such as `2h`, no date such as `2026-11-01T09:00`, and not `{LAST_BUILD}`",
            param=param,
        ) from None
    return time.time() - (age or 0.0)


def events_of(root: str, since: float | str | None) -> list[Event]:
    """The events that are asked for, oldest first; raises events.JournalError."""
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
