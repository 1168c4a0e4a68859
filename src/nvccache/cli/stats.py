"""`nvccache stats`: the outcomes of calls, the time saved, and the size of the cache."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from nvccache import __version__, config, endpoint, outcomes, remote_url
from nvccache.cli import settings as our_settings
from nvccache.cli import stats_text, units
from nvccache.cli.output import WrongUsage, json_option, say, say_json
from nvccache.plan import stages
from nvccache.remote import outages, uploads
from nvccache.store import event_totals, events, eviction
from nvccache.store.directory import NoCacheError
from nvccache.store.event_line import Event
from nvccache.store.eviction import Amount

Figures = Mapping[str, Any]  # the document of `nvccache stats --json`, or a part: docs/reference/json.md
GROUPS = ("source", "reason", "architecture")
HITS = (outcomes.DIRECT_HIT, outcomes.STAGE_HIT)


@click.command(epilog="Example: nvccache stats --since last-build")
@json_option
@click.option("--since", callback=units.since_option, metavar="WHEN", help=units.SINCE_HELP)
@click.option("--by", type=click.Choice(GROUPS), help="Count by source, reason or architecture.")
@click.option("--zero", is_flag=True, help="Set the counts to zero after printing them.")
def stats(as_json: bool, since: float | str | None, by: str | None, zero: bool) -> None:
    """Show how much was reused, and the size of the cache."""
    if zero and (since is not None or by):
        raise WrongUsage("`--zero` resets all counts: it cannot be combined with `--since` or `--by`")
    settings = our_settings.load()
    our_settings.warn_if_not_counted(settings)
    root = settings.dir
    if by:
        groups = _groups(_events_of(root, since), by)
        if as_json:
            say_json(groups)
        else:
            say(*stats_text.table(groups, by))
        return
    last = _events_of(root, units.LAST_BUILD) if since is None else []  # before it is set to zero
    if since is not None or not root:
        totals = event_totals.of_events(_events_of(root, since), stages.counted())
    elif zero:
        our_settings.refuse_if_wrong(settings, "dir")
        totals = event_totals.reset(root, stages.counted())
    else:
        totals = event_totals.read(root, stages.counted())
    try:
        usage = eviction.usage(root) if root else Amount(0, 0)
    except NoCacheError:
        usage = Amount(0, 0)
    statistics = {
        "version": __version__,
        **totals,
        "rates": _rates(totals),
        "last_build": _build(last) if last else None,
        "store": {"bytes": usage.bytes, "max_bytes": settings.max_size, "entries": usage.files},
        "uploads": _uploads(settings),
        "executor_outage": outages.to_json(outage_of_executor(settings)),
    }
    if as_json:
        say_json(statistics)
    else:
        say(*stats_text.summary(statistics, root))


def _rates(totals: Figures) -> Figures:
    """How many of the calls that could be hits were hits; `hit_rate` is from 0 to 1."""
    hits = sum(totals["calls"][outcome] for outcome in HITS)
    cacheable = hits + totals["calls"][outcomes.PARTIAL_HIT] + totals["calls"][outcomes.MISS]
    return {
        "hits": hits, "cacheable": cacheable, "hit_rate": round(hits / cacheable, 6) if cacheable else 0.0,
    }  # fmt: skip


def _build(found: Sequence[Event]) -> Figures:
    """The main totals of some calls."""
    totals = event_totals.of_events(found)
    return {
        **_rates(totals),
        "since": totals["since"],
        "until": round(max(event.ended for event in found), 3),
        "calls": len(found),
        "seconds_spent": totals["seconds_spent"],
        "seconds_saved": totals["seconds_saved"],
        "sent": totals["executor"]["sent"],
    }


def _uploads(settings: config.Config) -> Figures:
    """How many objects are still to be sent to the remotes, and why they are not."""
    written = [each.identity for each in remote_url.parse(settings.remote) if each.is_writable]
    found = (outages.current(outages.OF_WRITING.format(each)) for each in written)
    return {
        "pending": sum(len(uploads.queued(settings.dir, each)) for each in written),
        "outage": outages.to_json(next(filter(None, found), None)),
    }


def outage_of_executor(settings: config.Config) -> outages.Outage | None:
    """The outage for which compiles send no stages; None if they send, or nothing is set."""
    if not settings.executor:
        return None
    return outages.current(outages.OF_EXECUTOR.format(endpoint.parse(settings.executor).identity))


def _events_of(root: str, since: float | str | None) -> list[Event]:
    """The selected calls that the totals include: not those before `--zero`."""
    return event_totals.counted(units.events_of(root, since), root) if root else []


def _groups(found: Iterable[Event], by: str) -> list[Figures]:
    """The totals of calls of one group, slowest first; by architecture, of stages."""
    groups: dict[str, list[Event]] = {}
    for event in found:
        for name, counted in _named(event, by):
            groups.setdefault(name, []).append(counted)
    made = [{"name": name, **_build(calls)} for name, calls in groups.items()]
    return sorted(made, key=lambda group: -group["seconds_spent"])


def _named(event: Event, by: str) -> Iterator[tuple[str, Event]]:
    """The groups of a call, with what is counted there: by architecture, an event for each stage."""
    if by == "source":
        for source in event.sources:
            yield os.path.normpath(os.path.join(event.directory, source)), event
        if not event.sources:
            yield "(no source)", event
    elif by == "reason":
        is_bypass = event.outcome == outcomes.BYPASS
        why = outcomes.REASONS.get(event.reason, event.reason) if is_bypass else event.cause
        if why:
            yield why, event
    else:
        for stage in event.stages:
            outcome = outcomes.STAGE_HIT if stage.is_hit else outcomes.MISS
            alone = Event(outcome, started=event.started + stage.start)
            alone.seconds = events.tool_spent(stage)
            alone.tool_saved = stage.cost if stage.is_hit else 0.0
            alone.stages = [stage]
            if stage.architecture:
                yield stage.architecture, alone
