"""The figures of `nvccache stats`: totals and groups of calls, as text."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from nvccache import config, outcomes, settings_file
from nvccache.cli.units import format_ago, format_count, format_seconds, format_size, moment
from nvccache.store import event_totals, events
from nvccache.store.event_line import Event

Figures = Mapping[str, Any]  # the document of `nvccache stats --json`, or a part: docs/reference/json.md

_HITS = (outcomes.DIRECT_HIT, outcomes.STAGE_HIT)
_CACHEABLE = (*_HITS, outcomes.PARTIAL_HIT, outcomes.MISS)
_MOST_GROUPS = 40
_MOST_KINDS = 3  # in a row of the summary


def rates(totals: Figures) -> Figures:
    """How many of the calls that could be hits were hits; `hit_rate` is from 0 to 1."""
    hits = sum(totals["calls"][outcome] for outcome in _HITS)
    cacheable = sum(totals["calls"][outcome] for outcome in _CACHEABLE)
    return {
        "hits": hits,
        "cacheable": cacheable,
        "hit_rate": round(hits / cacheable, 6) if cacheable else 0.0,
    }


def build(found: Sequence[Event]) -> Figures:
    """The main totals of some calls."""
    totals = event_totals.of_events(found)
    return {
        **rates(totals),
        "since": totals["since"],
        "until": round(max(event.ended for event in found), 3),
        "calls": len(found),
        "seconds_spent": totals["seconds_spent"],
        "seconds_saved": totals["seconds_saved"],
        "sent": totals["executor"]["sent"],
    }


Row = tuple[str, str, str]  # label, amount, details


def summary(statistics: Figures, cache: Row) -> list[str]:
    """At most twelve lines, the headline first, without zeros."""
    calls, executor = statistics["calls"], statistics["executor"]
    rows = []
    for label, names in (("hits", _HITS), ("ran", (outcomes.PARTIAL_HIT, outcomes.MISS))):
        rows += _counted(label, {name: calls[name] for name in names})
    rows += _counted("left to nvcc", statistics["bypass_reasons"])
    rows += _counted("others", {name: calls[name] for name in (*outcomes.QUERIES, outcomes.FAILED)})
    remote, waiting = statistics["remote"], "".join(f"; {each}" for each in _waiting(statistics["uploads"]))
    if remote["calls"] or waiting:
        received = (
            f"{format_size(remote['bytes_received'])}, {format_seconds(remote['seconds_waited'])} waited"
        )
        detail = f"of {format_count(remote['asked'], 'object')} found, {received}{waiting}"
        rows.append(("remotes", str(remote["found"]), detail))
    if executor["sent"] or statistics["executor_outage"]:
        paused = "; none are sent now" if statistics["executor_outage"] else ""
        detail = f"stages sent, {executor['came_back']} came back{paused}"
        rows.append(("other machines", str(executor["sent"]), detail))
    problems = {f"with {_wrong_setting(name)}": n for name, n in statistics["wrong_settings"].items()}
    problems[outcomes.FAULT] = calls[outcomes.FAULT]
    for found in (statistics["store_faults"], statistics["remote"]["faults"]):
        for word, count in found.items():
            problems[word] = problems.get(word, 0) + count
    rows += [(*row[:2], f"{row[2]}: see `nvccache doctor`") for row in _counted("problems", problems)]
    return [*_aligned(_headline(statistics, cache)), *([""] if rows else []), *_aligned(rows)]


def _aligned(rows: Iterable[Row]) -> Iterator[str]:
    for label, amount, detail in rows:
        yield f"{label:<16}{amount:>11}  {detail}"


def _counted(label: str, counts: Mapping[str, int]) -> list[Row]:
    """A row with the sum and the most frequent kinds; none if the sum is zero."""
    found = sorted(((count, word) for word, count in counts.items() if count), key=lambda one: -one[0])
    if not found:
        return []
    rest = sum(count for count, _ in found[_MOST_KINDS:])
    kinds = [f"{count} {word}" for count, word in found[:_MOST_KINDS]] + [f"{rest} others"] * bool(rest)
    return [(label, str(sum(count for count, _ in found)), ", ".join(kinds))]


def _headline(statistics: Figures, cache: Row) -> list[Row]:
    rates, last = statistics["rates"], statistics["last_build"]
    rows = []
    if rates["cacheable"]:
        since = f"since {moment(statistics['since'])}" if statistics["since"] else "in all"
        rows.append(("hit rate", _share(rates), f"{_hits(rates)} {since}"))
        saved, spent = statistics["seconds_saved"], statistics["seconds_spent"]
        share = f"{100 * saved / (saved + spent):.1f} %" if saved + spent else "0.0 %"
        amounts = f"avoided: {format_seconds(saved)}, and {format_seconds(spent)} spent"
        rows.append(("compiler time", share, amounts))
    elif not sum(statistics["calls"].values()):
        rows.append(("calls", "0", "none are counted yet"))
    rows.append(cache)
    if last and last["cacheable"]:
        saved = f"{format_seconds(last['seconds_saved'])} of compiler time avoided"
        ago = format_ago(time.time() - last["until"])
        rows.append(("last build", _share(last), f"{_hits(last)}, {saved}, {ago}"))
    return rows


def _share(rates: Figures) -> str:
    return f"{100 * rates['hits'] / rates['cacheable']:.1f} %"


def _hits(rates: Figures) -> str:
    return f"{rates['hits']} of {format_count(rates['cacheable'], 'call')}"


def _wrong_setting(name: str) -> str:
    of_none = {settings_file.UNKNOWN: "an unknown setting", settings_file.FILE: "a wrong settings file"}
    return of_none.get(name, f"wrong setting `{name}`")


def setting_sentences(names: Iterable[str]) -> dict[str, str]:
    """For each counted name of a wrong setting, what that means."""
    known = {name: f"the default of `{row.variable}` was used" for name, row in config.SETTINGS.items()}
    return {
        **dict.fromkeys(names, outcomes.WRONG_SETTINGS[settings_file.UNKNOWN]),
        **known,
        **outcomes.WRONG_SETTINGS,
    }


def _waiting(counts: Figures) -> list[str]:
    found = []
    if counts["pending"]:
        why = f" ({counts['outage']['word']})" if counts["outage"] else ""
        objects = format_count(counts["pending"], "object")
        found.append(f"{objects} still to be sent{why}: see `nvccache remote status`")
    return found


def _sources(event: Event) -> list[str]:
    here = event.directory
    return [os.path.normpath(os.path.join(here, source)) for source in event.sources] or ["(no source)"]


def _of_reason(event: Event) -> list[str]:
    is_bypass = event.outcome == outcomes.BYPASS
    why = outcomes.REASONS.get(event.reason, event.reason) if is_bypass else event.cause
    return [why] if why else []


def _architectures(event: Event) -> Iterator[tuple[str, Event]]:
    """One event for each stage: groups by architecture count stages, not calls."""
    for stage in event.stages:
        if stage.architecture:
            outcome = outcomes.STAGE_HIT if stage.is_hit else outcomes.MISS
            alone = Event(outcome, started=event.started + stage.start)
            alone.seconds = events.tool_spent(stage)
            if stage.is_hit:
                alone.tool_saved = stage.cost
            alone.stages = [stage]
            yield stage.architecture, alone


GROUPS: dict[str, Callable[[Event], Iterable[tuple[str, Event]]]] = {
    "source": lambda event: [(source, event) for source in _sources(event)],
    "reason": lambda event: [(why, event) for why in _of_reason(event)],
    "architecture": _architectures,
}


def grouped(found: Iterable[Event], by: str) -> list[Figures]:
    """The totals of calls of one group, slowest first; by architecture, of stages."""
    groups: dict[str, list[Event]] = {}
    for event in found:
        for name, counted in GROUPS[by](event):
            groups.setdefault(name, []).append(counted)
    made = [{"name": name, **build(events)} for name, events in groups.items()]
    return sorted(made, key=lambda group: -group["seconds_spent"])


def table(groups: Sequence[Figures], by: str) -> list[str]:
    counted = "stages" if by == "architecture" else "calls"
    is_any_sent = any(group["sent"] for group in groups)
    sent_head = f"{'sent':>9}" if is_any_sent else ""
    found = [f"{counted:>9}{'hits':>9}{sent_head}{'spent':>14}{'avoided':>14}  {by}"]
    for group in groups[:_MOST_GROUPS]:
        spent, saved = format_seconds(group["seconds_spent"]), format_seconds(group["seconds_saved"])
        counts = f"{group['calls']:>9}{group['hits']:>9}" + (f"{group['sent']:>9}" if is_any_sent else "")
        found.append(f"{counts}{spent:>14}{saved:>14}  {group['name']}")
    if len(groups) > _MOST_GROUPS:
        found.append(f"and {len(groups) - _MOST_GROUPS} more; --json has all of them")
    return found
