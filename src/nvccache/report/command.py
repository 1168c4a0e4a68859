"""`nvccache report`: a page, or a trace, that shows a build."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence

import click

from nvccache.cli import settings as our_settings
from nvccache.cli import units
from nvccache.cli.output import WrongUsage, replace_file, say, say_json, warn
from nvccache.cli.units import format_count
from nvccache.config import Config
from nvccache.machine import cgroups
from nvccache.report import calls as of_events
from nvccache.report import figures, kept, page, project, trace, verdict
from nvccache.report.calls import Call
from nvccache.report.headline import verdict_sentence
from nvccache.report.kept import Kept
from nvccache.report.ninja_log import steps_of
from nvccache.store import events

PAGE = "nvccache-report.html"
_OLD_SECONDS = 60.0


@click.command(epilog="Example: nvccache report -o build.html")
@click.option("--output", "-o", metavar="FILE", help=f"Where to write the page. Default: `{PAGE}`.")
@click.option(
    "--since",
    metavar="WHEN",
    default=units.LAST_BUILD,
    callback=units.since_option,
    help=f"{units.SINCE_HELP} Default: `{units.LAST_BUILD}`.",
)
@click.option("--trace", "trace_file", metavar="FILE", help="Write a trace for Perfetto to FILE.")
@click.option("--from", "source", metavar="FILE", help="Read what `nvccache events --json` printed.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures of the page, and write none.")
def report(
    output: str | None, since: float | str | None, trace_file: str | None, source: str | None, as_json: bool
) -> None:
    """Write a page that shows what the last build reused and ran.

    The page needs no network and no other file. With `--trace` alone, only a trace is written, which
    https://ui.perfetto.dev and chrome://tracing show. `--from -` reads standard input.
    """
    if as_json and output:
        raise WrongUsage("`--json` prints the figures instead of writing a page")
    settings = our_settings.load()
    found = _read(source) if source else _recorded(settings, since)
    chosen = _chosen(found, since)
    before = _before(found, chosen[0]) if since == units.LAST_BUILD and chosen else []
    directory = project.directory_of(call for build in chosen for call in build)
    if not source:  # a log from elsewhere does not match ninja's log here
        chosen = [sorted([*build, *steps_of(build)], key=lambda call: call.started) for build in chosen]
    builds = project.relative(chosen, directory)
    shown = sorted((call for build in builds for call in build), key=lambda call: call.started)
    calls = [call for call in shown if not call.is_step]
    cores = 0 if source else settings.jobs or cgroups.Share().cores
    if not calls:
        warn("no calls are recorded since then" if isinstance(since, float) else "no calls are recorded")
    if trace_file:
        replace_file(trace_file, json.dumps(trace.of(shown), allow_nan=False, separators=(",", ":")))
    if as_json:
        why = {"project": directory, "verdict": verdict.to_json(verdict.of(builds, cores))}
        say_json({"version": 1, **figures.to_json(figures.of(calls)), **why})
        return
    if output or not trace_file:
        output = output or PAGE
        there = None if source else _kept(settings)
        replace_file(output, page.of(builds, there, time.time(), before, cores, directory))
    written = " and ".join(f"`{path}`" for path in (output, trace_file) if path and path != "-")
    if written and "-" not in (output, trace_file):
        age = time.time() - max((call.ended for call in calls), default=0.0)
        # A build with nothing to do starts no nvcc: the last one that did may be older than expected.
        is_old = calls and not source and since == units.LAST_BUILD and age > _OLD_SECONDS
        when = f"the last build, {units.format_ago(age)}: " if is_old else ""
        say(f"wrote {written}: {when}{verdict_sentence(figures.of(calls), verdict.of(builds, cores))}")


def _recorded(settings: Config, since: float | str | None) -> list[Call]:
    """The calls in the event log of this cache; raises JournalError."""
    our_settings.warn_if_not_counted(settings)
    root = settings.journal_root
    if not root or not os.path.lexists(root):
        return []
    # Impossible events, such as calls of negative duration, are left out.
    first = None if since == units.LAST_BUILD else since  # the build before the last one is compared with it
    made = map(events.to_json, units.events_of(root, first))
    return [call for call in map(of_events.understood, made) if call]


def _read(source: str) -> list[Call]:
    """The calls in a file; lines that are no events are left out."""
    try:
        with click.open_file(source, "rb") as stream:
            found, damaged, newer = of_events.read_lines(of_events.lines_of(stream))
    except OSError as error:
        raise click.ClickException(f"cannot read `{source}`: {error.strerror or error}") from None
    if newer and not found:
        raise click.ClickException(f"`{source}` was written by a newer version of nvccache")
    if damaged and not found:
        raise click.ClickException(f"`{source}` is not what `nvccache events --json` prints")
    for lines, what in ((damaged, "no event"), (newer, "of a newer version of nvccache")):
        if lines:
            counted = f"{format_count(len(lines), 'line')} of `{source}` left out: {what}"
            warn(f"{counted} (the first is line {lines[0]})")
    return found


def _chosen(found: Sequence[Call], since: float | str | None) -> list[list[Call]]:
    if since == units.LAST_BUILD:
        return events.last_builds(found)[-1:]
    if isinstance(since, float):
        found = [call for call in found if call.started >= since]
    return events.builds(found)


def _before(found: Sequence[Call], build: Sequence[Call]) -> list[Call]:
    """The last build before this one that made some of its products; empty if there is none."""
    products = {call.product for call in build} - {""}
    earlier = reversed(events.last_builds(found)[:-1])
    return next((each for each in earlier if products & {call.product for call in each}), [])


def _kept(settings: Config) -> Kept | None:
    if not settings.dir or not os.path.isdir(settings.dir):
        return None
    try:
        return kept.of(settings.dir)
    except FileNotFoundError:
        return None  # nothing was stored yet
    except OSError as error:
        warn(f"the content of the cache is left out: {error.strerror or error}")
        return None
