"""`nvccache stats`: the outcomes of calls, the time saved, and the size of the cache."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

import click

from nvccache import __version__, config, endpoint, outcomes, remote_url
from nvccache.cli import builds, output
from nvccache.cli import settings as our_settings
from nvccache.cli.builds import Figures
from nvccache.cli.output import (
    WrongUsage,
    format_ago,
    format_count,
    format_seconds,
    format_size,
    format_time,
    json_option,
    say,
    say_json,
    wrapped,
)
from nvccache.plan import stages
from nvccache.remote import outages, uploads
from nvccache.store import directory, event_totals, events, eviction
from nvccache.store.directory import NoCacheError
from nvccache.store.event_line import Event
from nvccache.store.eviction import Amount

GROUPS = ("source", "reason", "architecture")


@click.command(epilog="Example: nvccache stats --since last-build")
@json_option
@click.option("--since", callback=output.since_option, metavar="WHEN", help=output.SINCE_HELP)
@click.option("--by", type=click.Choice(GROUPS), help="Print a row for each source, reason or architecture.")
@click.option("--zero", is_flag=True, help="Set the counts to zero after printing them.")
def stats(as_json: bool, since: float | str | None, by: str | None, zero: bool) -> None:
    """Show hits, saved compiler time, and the size of the cache."""
    if zero and (since is not None or by):
        raise WrongUsage("`--zero` resets all counts, so it cannot be combined with `--since` or `--by`")
    settings = our_settings.load()
    our_settings.warn_if_not_counted(settings)
    root = settings.dir
    if by:
        groups = _groups(_read_events(root, since), by)
        if as_json:
            say_json(groups)
        else:
            say(*table(groups, by))
        return
    last = _read_events(root, output.LAST_BUILD) if since is None else []  # before `--zero` resets the counts
    if since is not None or not root:
        totals = event_totals.total(_read_events(root, since), stages.counted())
    elif zero:
        our_settings.refuse_if_wrong(settings, "dir")
        totals = event_totals.reset(root, stages.counted())
    else:
        totals = event_totals.read(root, stages.counted())
    try:
        usage = eviction.usage(root) if root else Amount(0, 0)
    except NoCacheError:
        usage = Amount(0, 0)
    counted = {stages.shown_name(kind): tally for kind, tally in totals["stages"].items()}
    statistics = {
        "version": __version__,
        **totals,
        "stages": counted,
        "last_build": builds.summarize(last) if last else None,
        "store": {"bytes": usage.bytes, "max_bytes": settings.max_size, "entries": usage.files},
        "uploads": _uploads(settings),
        "executor_outage": outages.to_json(outage_of_executor(settings)),
    }
    if as_json:
        say_json(statistics)
    else:
        say(*summary(statistics, root, last))


def _uploads(settings: config.Config) -> Figures:
    """How many objects are still to be sent to the remotes, and why they are not sent now."""
    written = [each.identity for each in remote_url.parse(settings.remote) if each.is_writable]
    found = (outages.current(outages.OF_WRITING.format(each)) for each in written)
    return {
        "pending": sum(len(uploads.queued(settings.dir, each)) for each in written),
        "outage": outages.to_json(next(filter(None, found), None)),
    }


def outage_of_executor(settings: config.Config) -> outages.Outage | None:
    """The outage because of which compiles send no stages; None without an outage or an executor."""
    if not settings.executor:
        return None
    return outages.current(outages.OF_EXECUTOR.format(endpoint.parse(settings.executor).identity))


def _read_events(root: str, since: float | str | None) -> list[Event]:
    """The calls since a time, or of the last build, without those before the last `--zero`."""
    if not root:
        return []
    found = list(events.read(root, since if isinstance(since, float) else 0.0))
    return event_totals.since_reset(events.last_build(found) if since == output.LAST_BUILD else found, root)


def _groups(found: Iterable[Event], by: str) -> list[Figures]:
    """The totals of each group of calls (by architecture: of stages), the slowest group first."""
    groups: dict[str, list[Event]] = {}
    for event in found:
        for name, counted in _named(event, by):
            groups.setdefault(name, []).append(counted)
    made = [{"name": name, **builds.summarize(calls)} for name, calls in groups.items()]
    return sorted(made, key=lambda group: -group["seconds_spent"])


def _named(event: Event, by: str) -> Iterator[tuple[str, Event]]:
    """Each group that a call belongs to, with the event to count: the call, or one of its stages."""
    if by == "source":
        for source in event.sources:
            yield os.path.normpath(os.path.join(event.directory, source)), event
        if not event.sources:
            yield "(no source)", event
    elif by == "reason":
        if event.reason or event.cause:
            yield builds.cause_of(event), event
    else:
        for stage in event.stages:
            outcome = outcomes.STAGE_HIT if stage.is_hit else outcomes.MISS
            alone = Event(outcome, started=event.started + stage.start)
            alone.seconds = events.tool_spent(stage)
            alone.tool_saved = stage.cost if stage.is_hit else 0.0
            alone.stages = [stage]
            if stage.architecture:
                yield stage.architecture, alone


_MOST_KINDS = 3  # the most kinds that a row of the summary names
Row = tuple[str, str, str]  # label, amount, details


def summary(statistics: Figures, root: str, last: Sequence[Event]) -> list[str]:
    """At most twelve lines, the last build first. Rows whose count is zero are left out."""
    calls, executor, remote = statistics["calls"], statistics["executor"], statistics["remote"]
    rows = []
    for label, counts in (
        ("hits", {name: calls[name] for name in builds.HITS}),
        ("misses", {name: calls[name] for name in (outcomes.PARTIAL_HIT, outcomes.MISS)}),
        ("left to nvcc", statistics["bypass_reasons"]),
        ("others", {name: calls[name] for name in (*outcomes.QUERIES, outcomes.FAILED)}),
    ):
        rows += _counted(label, counts)
    pending, outage = statistics["uploads"]["pending"], statistics["uploads"]["outage"]
    if remote["calls"] or pending:
        received = (
            f"{format_size(remote['bytes_received'])}, {format_seconds(remote['seconds_waited'])} waited"
        )
        detail = f"of {format_count(remote['asked'], 'object')} found, {received}"
        if pending:
            why = f" ({outage['word']})" if outage else ""
            objects = format_count(pending, "object")
            detail += f"; {objects} still to be sent{why}: see `nvccache remote status`"
        rows.append(("remotes", str(remote["found"]), detail))
    if executor["sent"] or statistics["executor_outage"]:
        paused = "; no stages are sent now" if statistics["executor_outage"] else ""
        detail = f"stages sent, {executor['came_back']} with a usable result{paused}"
        rows.append(("other machines", str(executor["sent"]), detail))
    problems = {outcomes.FAULT: calls[outcomes.FAULT]}
    for faults in (statistics["store_faults"], remote["faults"]):
        for word, count in faults.items():
            problems[word] = problems.get(word, 0) + count
    rows += [(*row[:2], f"{row[2]}: see `nvccache doctor`") for row in _counted("problems", problems)]
    return [*_headline(statistics, root, last), *([""] if rows else []), *_aligned(rows)]


def _aligned(rows: Iterable[Row]) -> list[str]:
    return [f"{label:<16}{amount:>11}  {detail}" for label, amount, detail in rows]


def _counted(label: str, counts: Mapping[str, int]) -> list[Row]:
    """A row with the sum and the most frequent kinds; no row if the sum is zero."""
    found = sorted(((count, word) for word, count in counts.items() if count), key=lambda one: -one[0])
    if not found:
        return []
    rest = sum(count for count, _ in found[_MOST_KINDS:])
    kinds = [f"{count} {word}" for count, word in found[:_MOST_KINDS]] + [f"{rest} others"] * bool(rest)
    return [(label, str(sum(count for count, _ in found)), ", ".join(kinds))]


def _headline(statistics: Figures, root: str, last: Sequence[Event]) -> list[str]:
    lines, rows, size = [], [], statistics["store"]
    if last:
        ago = format_ago(time.time() - max(call.ended for call in last))
        lines = [*wrapped(f"last build, {ago}: {builds.headline(last)}"), ""]
    if sum(statistics["calls"].values()):
        amounts = (
            f"{format_seconds(statistics[f'seconds_{word}'])} {word}"
            for word in ("saved", "spent", "overhead")
        )
        rows.append(("reused", builds.share(statistics), f"of compiler time: {', '.join(amounts)}"))
        if statistics["since"]:
            rows.append(
                ("calls", str(sum(statistics["calls"].values())), f"since {format_time(statistics['since'])}")
            )
    else:
        rows.append(("calls", "0", "no calls are counted yet"))
    if not root:
        rows.append(("cache", "none", our_settings.NO_CACHE))
    elif not os.path.lexists(os.path.join(root, directory.TAG_NAME)):
        rows.append(("cache", "none", f"there is no cache in `{root}` yet"))
    else:
        limit = f"of {format_size(size['max_bytes'])}, " if size["max_bytes"] else ""
        files = format_count(size["entries"], "file")
        rows.append(("cache size", format_size(size["bytes"]), f"{limit}{files} in `{root}`"))
    return [*lines, *_aligned(rows)]


def table(groups: Sequence[Figures], by: str) -> list[str]:
    """A header line, and one line for each group."""
    counted = "stages" if by == "architecture" else "calls"
    rows = [f"{counted:>9}{'hits':>9}{'sent':>9}{'spent':>14}{'saved':>14}  {by}"]
    for group in groups:
        spent, saved = format_seconds(group["seconds_spent"]), format_seconds(group["seconds_saved"])
        counts = f"{group['calls']:>9}{group['hits']:>9}{group['sent']:>9}"
        rows.append(f"{counts}{spent:>14}{saved:>14}  {group['name']}")
    return rows
