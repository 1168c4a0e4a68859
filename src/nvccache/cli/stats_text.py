"""The figures of `nvccache stats` as text."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nvccache import outcomes
from nvccache.cli import settings as our_settings
from nvccache.cli.units import format_ago, format_count, format_seconds, format_size, moment
from nvccache.store import cachedir_tag

_MOST_KINDS = 3  # in a row of the summary
Row = tuple[str, str, str]  # label, amount, details


def summary(statistics: Mapping[str, Any], root: str) -> list[str]:
    """At most twelve lines, the headline first, without zeros."""
    calls, executor, remote = statistics["calls"], statistics["executor"], statistics["remote"]
    rows = []
    for label, counts in (
        ("hits", {name: calls[name] for name in (outcomes.DIRECT_HIT, outcomes.STAGE_HIT)}),
        ("ran", {name: calls[name] for name in (outcomes.PARTIAL_HIT, outcomes.MISS)}),
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
        paused = "; none are sent now" if statistics["executor_outage"] else ""
        detail = f"stages sent, {executor['came_back']} came back{paused}"
        rows.append(("other machines", str(executor["sent"]), detail))
    problems = {f"with wrong setting `{name}`": n for name, n in statistics["wrong_settings"].items()}
    problems[outcomes.FAULT] = calls[outcomes.FAULT]
    for faults in (statistics["store_faults"], remote["faults"]):
        for word, count in faults.items():
            problems[word] = problems.get(word, 0) + count
    rows += [(*row[:2], f"{row[2]}: see `nvccache doctor`") for row in _counted("problems", problems)]
    return [*_aligned(_headline(statistics, root)), *([""] if rows else []), *_aligned(rows)]


def _aligned(rows: Iterable[Row]) -> list[str]:
    return [f"{label:<16}{amount:>11}  {detail}" for label, amount, detail in rows]


def _counted(label: str, counts: Mapping[str, int]) -> list[Row]:
    """A row with the sum and the most frequent kinds; none if the sum is zero."""
    found = sorted(((count, word) for word, count in counts.items() if count), key=lambda one: -one[0])
    if not found:
        return []
    rest = sum(count for count, _ in found[_MOST_KINDS:])
    kinds = [f"{count} {word}" for count, word in found[:_MOST_KINDS]] + [f"{rest} others"] * bool(rest)
    return [(label, str(sum(count for count, _ in found)), ", ".join(kinds))]


def _headline(statistics: Mapping[str, Any], root: str) -> list[Row]:
    rates, last, size = statistics["rates"], statistics["last_build"], statistics["store"]
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
    if not root:
        rows.append(("cache", "none", our_settings.NO_CACHE))
    elif not os.path.lexists(os.path.join(root, cachedir_tag.NAME)):
        rows.append(("cache", "none", f"there is no cache in `{root}` yet"))
    else:
        limit = f"of {format_size(size['max_bytes'])}, " if size["max_bytes"] else ""
        files = format_count(size["entries"], "file")
        rows.append(("cache size", format_size(size["bytes"]), f"{limit}{files} in `{root}`"))
    if last and last["cacheable"]:
        saved = f"{format_seconds(last['seconds_saved'])} of compiler time avoided"
        ago = format_ago(time.time() - last["until"])
        rows.append(("last build", _share(last), f"{_hits(last)}, {saved}, {ago}"))
    return rows


def _share(rates: Mapping[str, Any]) -> str:
    return f"{100 * rates['hits'] / rates['cacheable']:.1f} %"


def _hits(rates: Mapping[str, Any]) -> str:
    return f"{rates['hits']} of {format_count(rates['cacheable'], 'call')}"


def table(groups: Sequence[Mapping[str, Any]], by: str) -> list[str]:
    """One line for each group, with a head."""
    counted = "stages" if by == "architecture" else "calls"
    rows = [f"{counted:>9}{'hits':>9}{'sent':>9}{'spent':>14}{'avoided':>14}  {by}"]
    for group in groups:
        spent, saved = format_seconds(group["seconds_spent"]), format_seconds(group["seconds_saved"])
        counts = f"{group['calls']:>9}{group['hits']:>9}{group['sent']:>9}"
        rows.append(f"{counts}{spent:>14}{saved:>14}  {group['name']}")
    return rows
