"""`nvccache events`: the event log, one line per call."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from nvccache.cli import builds, output
from nvccache.cli import settings as our_settings
from nvccache.cli.output import format_seconds, say
from nvccache.plan.stages import shown_name
from nvccache.store import events as event_log
from nvccache.store.event_line import CACHED, Event

VERSION = 6  # the version of the format of `--json`


@click.command(epilog="Example: nvccache events --json")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each call.")
def events(as_json: bool) -> None:
    """List every call with its outcome, oldest first."""
    settings = our_settings.load()
    our_settings.warn_if_not_counted(settings)
    for event in event_log.read(settings.dir) if settings.dir else ():
        say(json.dumps(to_json(event)) if as_json else _line(event))


def to_json(event: Event) -> dict[str, Any]:
    """An event in the form of docs/reference/json.md; `stages` holds an object for each stage."""
    stages = [
        {
            "stage": shown_name(stage.kind, stage.architecture),
            **{name: value for name, value in stage.values().items() if name != "kind"},
            "away": CACHED if event_log.was_cached(stage) else "",
            "why_here": event_log.why_here(stage),
        }
        for stage in event.stages
    ]
    return {
        "version": VERSION,
        **event.values(),
        "overhead": event_log.overhead(event),
        "details": list(event.details),
        "remote": {**event.remote.values(), "faults": list(event.remote.faults)} if event.remote else None,
        "stages": stages,
    }


def _line(event: Event) -> str:
    """A line such as `2026-11-01 09:12:03  miss  3.21 s  a.o  because `x.h` changed`."""
    when = output.format_time(event.started, "%Y-%m-%d %H:%M:%S")
    why = builds.cause_of(event) if event.reason or event.cause else ""
    made = event.product or " ".join(event.sources) or event.directory
    shown = os.path.relpath(made, event.directory) if made.startswith(f"{event.directory}/") else made
    spent = format_seconds(event.seconds)
    return f"{when}  {event.outcome:<11} {spent:>9}  {shown}{f'  because {why}' if why else ''}"
