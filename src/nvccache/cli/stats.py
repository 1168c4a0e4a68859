"""`nvccache stats`: what became of the calls so far, and how large the cache is."""

from __future__ import annotations

import json
import os

import click

from nvccache import __version__, config, eviction, journal, outcomes
from nvccache.cli.units import count_words, seconds_words, size_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class StoreSize(TypedDict):
        bytes: int
        max_bytes: int
        entries: int

    class Statistics(journal.Totals):
        version: str
        store: StoreSize


@click.command()
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print the numbers."
)
@click.option("--reset", is_flag=True, help="Set the counts to zero after printing them.")
def stats(form: str, reset: bool) -> None:
    """Show what became of the calls so far, and the size of the cache."""
    settings = config.load(os.environ)
    exists = os.path.lexists(settings.dir)
    usage = eviction.usage(settings.dir) if exists else None
    totals = journal.reset(settings.dir) if reset else journal.totals(settings.dir)
    statistics: Statistics = {
        "version": __version__,
        **totals,
        "store": {
            "bytes": usage.bytes if usage else 0,
            "max_bytes": settings.max_size,
            "entries": usage.entries if usage else 0,
        },
    }
    if form == "json":
        click.echo(json.dumps(statistics, indent=2))
        return
    click.echo("\n".join(_text(statistics)))
    where = f"`{settings.dir}`"
    click.echo(f"\ncache in {where}" if exists else f"\nThere is no cache in {where} yet")


def _text(statistics: Statistics) -> list[str]:
    size = statistics["store"]
    return [
        *_calls(statistics["calls"]),
        *_bypasses(statistics["bypass_reasons"]),
        *_stages(statistics["stages"]),
        "",
        f"time saved  {seconds_words(statistics['seconds_saved'])}",
        f"cache size  {size_words(size['bytes'])} of {size_words(size['max_bytes'])}"
        f" in {count_words(size['entries'], 'file')}",
    ]


def _calls(calls: dict[str, int]) -> list[str]:
    total = sum(calls.values())
    lines = [f"{'calls':<18}{total:>9}"]
    for outcome, count in calls.items():
        share = f"{100 * count / total:>8.1f} %" if count else ""
        lines.append(f"  {outcome:<16}{count:>9}{share}")
    return lines


def _bypasses(reasons: dict[str, int]) -> list[str]:
    if not reasons:
        return []
    width = max(16, *map(len, reasons))
    lines = ["", "why nvcc ran by itself"]
    for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        sentence = outcomes.REASONS.get(reason, "a reason of another version of nvccache")
        lines.append(f"  {reason:<{width}}{count:>9}  {sentence}")
    return lines


def _stages(stages: dict[str, journal.StageTotals]) -> list[str]:
    lines = ["", f"{'stages':<18}{'hits':>9}{'misses':>9}{'spent':>14}{'saved':>14}"]
    for stage, counts in stages.items():
        spent, saved = seconds_words(counts["seconds"]), seconds_words(counts["seconds_saved"])
        lines.append(f"  {stage:<17}{counts['hit']:>8}{counts['miss']:>9}{spent:>14}{saved:>14}")
    return lines
