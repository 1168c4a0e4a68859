"""`nvccache report`: a page, or a trace, that shows the last build."""

from __future__ import annotations

import json
import os
import time
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import click

from nvccache.cli import settings as our_settings
from nvccache.cli import units
from nvccache.cli.output import WrongUsage, replace_file, say, warn
from nvccache.machine import cgroups
from nvccache.report import calls as of_events
from nvccache.report import figures, page, trace, verdict
from nvccache.report.calls import Call
from nvccache.report.headline import verdict_sentence
from nvccache.store import events
from nvccache.store.event_line import Event

PAGE = "nvccache-report.html"
_OLD_SECONDS = 60.0


@click.command(epilog="Example: nvccache report -o build.html")
@click.option("--output", "-o", metavar="FILE", help=f"Where to write the page. Default: `{PAGE}`.")
@click.option("--open", "is_opened", is_flag=True, help="Show the page in a browser.")
@click.option("--trace", "trace_file", metavar="FILE", help="Write a trace for Perfetto to FILE.")
def report(output: str | None, is_opened: bool, trace_file: str | None) -> None:
    """Write a page that shows what the last build reused and ran.

    The page needs no network and no other file. With `--trace` alone, only a trace is written, which
    https://ui.perfetto.dev and chrome://tracing show.
    """
    if is_opened and output == "-":
        raise WrongUsage("`--open` needs a file, not standard output")
    settings = our_settings.load()
    our_settings.warn_if_not_counted(settings)
    root = settings.dir
    builds = events.last_builds(events.read(root)) if root and os.path.lexists(root) else []
    build = _calls(builds[-1]) if builds else []
    before = _before(builds)
    if not build:
        warn("no calls are recorded")
    if trace_file:
        replace_file(trace_file, json.dumps(trace.of(build), allow_nan=False, separators=(",", ":")))
    cores = settings.jobs or len(cgroups.usable_cores())
    if output or is_opened or not trace_file:
        output = output or PAGE
        replace_file(output, page.of(build, time.time(), before, cores))
    written = " and ".join(f"`{path}`" for path in (output, trace_file) if path and path != "-")
    if written and "-" not in (output, trace_file):
        age = time.time() - max((call.ended for call in build), default=0.0)
        # A build with nothing to do starts no nvcc: the last one that did may be older than expected.
        when = f"the last build, {units.format_ago(age)}: " if build and age > _OLD_SECONDS else ""
        say(f"wrote {written}: {when}{verdict_sentence(figures.of(build), verdict.of(build, cores))}")
    if is_opened and output:
        webbrowser.open(Path(output).absolute().as_uri())


def _calls(build: Sequence[Event]) -> list[Call]:
    return [of_events.call_of(event) for event in build]


def _before(builds: Sequence[list[Event]]) -> list[Call]:
    """The last build before the last one that made some of its products; empty if there is none."""
    products = {call.product for call in builds[-1]} - {""} if builds else set()
    earlier = (each for each in reversed(builds[:-1]) if products & {call.product for call in each})
    return _calls(next(earlier, []))
