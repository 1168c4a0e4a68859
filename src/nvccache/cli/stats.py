"""`nvccache stats`: the outcomes of calls, the time saved, and the size of the cache."""

from __future__ import annotations

import json
import os

import click

from nvccache import __version__, config, remote_url
from nvccache.cli import settings as our_settings
from nvccache.cli import stats_text, units
from nvccache.cli.output import WrongUsage, json_option, say, say_json
from nvccache.cli.stats_text import Figures
from nvccache.cli.units import format_count, format_size
from nvccache.plan import stages
from nvccache.remote import outages, uploads
from nvccache.store import cachedir_tag, event_totals, eviction
from nvccache.store.directory import NoCacheError
from nvccache.store.event_line import Event
from nvccache.store.eviction import Amount


@click.command(epilog="Example: nvccache stats --since last-build")
@json_option
@click.option("--since", callback=units.since_option, metavar="WHEN", help=units.SINCE_HELP)
@click.option(
    "--by", type=click.Choice(list(stats_text.GROUPS)), help="Count by source, reason or architecture."
)
@click.option("--zero", "--reset", "reset", is_flag=True, help="Set the counts to zero after printing them.")
def stats(as_json: bool, since: float | str | None, by: str | None, reset: bool) -> None:
    """Show how much was reused, and the size of the cache."""
    if reset and (since is not None or by):
        raise WrongUsage("`--zero` resets all counts: it cannot be combined with `--since` or `--by`")
    settings = our_settings.load()
    our_settings.warn_if_not_counted(settings)
    if by:
        groups = stats_text.grouped(_events_of(settings.dir, since), by)
        say(*(json.dumps(groups, indent=2).splitlines() if as_json else stats_text.table(groups, by)))
        return
    statistics = _statistics(settings, since, reset)
    if as_json:
        say_json(statistics)
    else:
        say(*stats_text.summary(statistics, _cache(settings, statistics["store"])))


def _statistics(settings: config.Config, since: float | str | None, reset: bool) -> Figures:
    usage = _usage(settings)
    root = settings.dir
    if since is not None:
        last = []
        totals: Figures = event_totals.of_events(_events_of(root, since), stages.counted())
    else:
        last = _events_of(root, units.LAST_BUILD)  # before it is set to zero
        totals = _totals(settings, reset)
    return {
        "version": __version__,
        **totals,
        "rates": stats_text.rates(totals),
        "last_build": stats_text.build(last) if last else None,
        "store": {
            "bytes": usage.bytes if usage else 0,
            "max_bytes": settings.max_size,
            "entries": usage.files if usage else 0,
        },
        "uploads": _uploads(settings),
        "executor_outage": _outage(settings),
    }


def _usage(settings: config.Config) -> Amount | None:
    try:
        return eviction.usage(settings.dir) if settings.dir else None
    except NoCacheError:
        return None


def _outage(settings: config.Config) -> dict[str, object] | None:
    """The outage for which no stage is sent to other machines; None if there is none."""
    if not settings.executor:
        return None

    from nvccache.cli import remote_checks

    return outages.to_json(remote_checks.outage_of(settings))


def _uploads(settings: config.Config) -> dict[str, object]:
    """How many objects are still to be sent to the remotes, and why they are not."""
    written = [each.identity for each in remote_url.parse(settings.remote) if each.is_writable]
    found = [outages.current(outages.OF_WRITING.format(each)) for each in written]
    outage = next(filter(None, found), None)
    return {
        "pending": sum(len(uploads.queued(settings.dir, each)) for each in written),
        "outage": outages.to_json(outage),
    }


def _events_of(root: str, since: float | str | None) -> list[Event]:
    """The selected calls that the totals include: not those before `--zero`."""
    return event_totals.counted(units.events_of(root, since), root) if root else []


def _totals(settings: config.Config, reset: bool) -> Figures:
    root = settings.dir
    if not root:
        return event_totals.zeros(stages.counted())
    if reset:
        our_settings.refuse_if_wrong(settings, "dir")
        return event_totals.reset(root, stages.counted())
    return event_totals.read(root, stages.counted())


def _cache(settings: config.Config, size: Figures) -> stats_text.Row:
    if not settings.dir:
        return "cache", "none", our_settings.NO_CACHE
    if not os.path.lexists(os.path.join(settings.dir, cachedir_tag.NAME)):
        return "cache", "none", f"there is no cache in `{settings.dir}` yet"
    limit = f"of {format_size(size['max_bytes'])}, " if size["max_bytes"] else ""
    files = format_count(size["entries"], "file")
    return "cache size", format_size(size["bytes"]), f"{limit}{files} in `{settings.dir}`"
