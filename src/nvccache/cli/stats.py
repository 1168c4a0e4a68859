"""`nvccache stats`: what became of the calls so far, and how large the cache is."""

from __future__ import annotations

import json
import os

import click

from nvccache import __version__, config, outcomes
from nvccache.cli import settings as our_settings
from nvccache.cli.output import say, warn
from nvccache.cli.units import count_words, seconds_words, size_words
from nvccache.store import event_totals, eviction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class StoreSize(TypedDict):
        bytes: int
        max_bytes: int
        entries: int

    class Statistics(event_totals.Totals):
        version: str
        store: StoreSize


@click.command()
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print the numbers."
)
@click.option("--reset", is_flag=True, help="Set the counts to zero after printing them.")
def stats(form: str, reset: bool) -> None:
    """Show what became of the calls so far, and the size of the cache."""
    settings = our_settings.load()
    exists = bool(settings.dir) and os.path.lexists(settings.dir)
    usage = eviction.usage(settings.dir) if exists else None
    totals = _totals(settings, reset)
    statistics: Statistics = {
        "version": __version__,
        **totals,
        "store": {
            "bytes": usage.bytes if usage else 0,
            "max_bytes": settings.max_size,
            "entries": usage.entries if usage else 0,
        },
    }
    if not settings.counts_calls:
        warn(our_settings.why_not_counted(settings))
    if form == "json":
        say(*json.dumps(statistics, indent=2).splitlines())
        return
    say(*_text(statistics), "", _where(settings, exists))
    if settings.stats_dir:
        say(f"counted in `{settings.stats_dir}`")


def _totals(settings: config.Config, reset: bool) -> event_totals.Totals:
    root = settings.journal_root
    if not root:
        return event_totals.nothing()
    if reset:
        our_settings.refuse_if_wrong(settings, "dir", "stats_dir")
        return event_totals.reset(root)
    return event_totals.read(root)


def _where(settings: config.Config, exists: bool) -> str:
    if not settings.dir:
        return f"There is no cache here: {our_settings.NO_CACHE}"
    return f"cache in `{settings.dir}`" if exists else f"There is no cache in `{settings.dir}` yet"


def _text(statistics: Statistics) -> list[str]:
    size = statistics["store"]
    return [
        *_calls(statistics["calls"]),
        *_reasons("why nvcc ran by itself", statistics["bypass_reasons"], outcomes.REASONS),
        *_reasons(
            "why the cache was not used as it should be", statistics["store_faults"], outcomes.STORE_FAULTS
        ),
        *_reasons("calls with a setting that is wrong", statistics["wrong_settings"], _wrong_settings()),
        *_stages(statistics["stages"]),
        "",
        f"time saved  {seconds_words(statistics['seconds_saved'])}",
        f"cache size  {size_words(size['bytes'])}"
        f"{' of ' + size_words(size['max_bytes']) if size['max_bytes'] else ''}"
        f" in {count_words(size['entries'], 'file')}",
    ]


def _calls(calls: dict[str, int]) -> list[str]:
    total = sum(calls.values())
    lines = [f"{'calls':<18}{total:>9}"]
    for outcome, count in calls.items():
        share = f"{100 * count / total:>8.1f} %" if count else ""
        lines.append(f"  {outcome:<16}{count:>9}{share}")
    return lines


def _wrong_settings() -> dict[str, str]:
    instead = {name: f"`{variable}` had a default's value" for name, (variable, _) in config.SETTINGS.items()}
    return {**instead, **outcomes.WRONG_SETTINGS}


def _reasons(title: str, counts: dict[str, int], sentences: dict[str, str]) -> list[str]:
    if not counts:
        return []
    width = max(16, *map(len, counts))
    lines = ["", title]
    for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        sentence = sentences.get(word, "a reason of another version of nvccache")
        lines.append(f"  {word:<{width}}{count:>9}  {sentence}")
    return lines


def _stages(stages: dict[str, event_totals.StageTotals]) -> list[str]:
    lines = ["", f"{'stages':<18}{'hits':>9}{'misses':>9}{'spent':>14}{'saved':>14}"]
    for stage, counts in stages.items():
        spent, saved = seconds_words(counts["seconds"]), seconds_words(counts["seconds_saved"])
        lines.append(f"  {stage:<17}{counts['hit']:>8}{counts['miss']:>9}{spent:>14}{saved:>14}")
    return lines
