"""`nvccache report`: a page, or a trace, that shows the last build."""

from __future__ import annotations

import json
import os
import time
import webbrowser
from pathlib import Path

import click

from nvccache.cli import builds
from nvccache.cli import settings as our_settings
from nvccache.cli.output import WrongUsage, format_ago, say, warn, write_file
from nvccache.report import lanes, page
from nvccache.store import events

PAGE = "nvccache-report.html"
_OLD_SECONDS = 60.0


@click.command(epilog="Example: nvccache report -o build.html")
@click.option("--output", "-o", metavar="FILE", help=f"Write the page to FILE instead of `{PAGE}`.")
@click.option("--open", "is_opened", is_flag=True, help="Show the page in a browser.")
@click.option("--trace", "trace_file", metavar="FILE", help="Write a trace for Perfetto to FILE.")
def report(output: str | None, is_opened: bool, trace_file: str | None) -> None:
    """Write a page that shows what the last build reused and ran.

    The page needs no network and no other file. With `--trace` alone, no page is written, but only a trace,
    which https://ui.perfetto.dev and chrome://tracing can show.
    """
    if is_opened and output == "-":
        raise WrongUsage("`--open` needs a file, not standard output")
    settings = our_settings.load()
    our_settings.warn_if_not_counted(settings)
    root = settings.dir
    calls = list(events.read(root)) if root and os.path.lexists(root) else []
    build = events.last_build(calls)
    if not build:
        warn("found no recorded calls")
    if trace_file:
        write_file(trace_file, json.dumps(lanes.trace_of(build), allow_nan=False, separators=(",", ":")))
    if output or is_opened or not trace_file:
        output = output or PAGE
        before = events.last_build(call for call in calls if build and call.ended < build[0].started)
        write_file(output, page.render(build, before, time.time()))
    written = " and ".join(f"`{path}`" for path in (output, trace_file) if path and path != "-")
    if written and "-" not in (output, trace_file):
        age = time.time() - max((call.ended for call in build), default=0.0)
        # A build with nothing to do starts no nvcc, so the last recorded build may be older than expected.
        when = f"the last build, {format_ago(age)}: " if build and age > _OLD_SECONDS else ""
        say(f"wrote {written}: {when}{builds.headline(build)}")
    if is_opened and output and not webbrowser.open(Path(output).absolute().as_uri()):
        warn("no browser could be started; open the page yourself")
