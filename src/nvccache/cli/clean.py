"""`nvccache clean`: removes entries from the cache, also while builds run."""

from __future__ import annotations

import click

from nvccache.cli import contents
from nvccache.cli import settings as our_settings
from nvccache.cli.output import Failure, WrongUsage, bar, json_option, say, say_json, warn
from nvccache.cli.units import age_option, format_count, format_size, size_option
from nvccache.config import Config
from nvccache.store import eviction
from nvccache.store.directory import NoCacheError
from nvccache.store.eviction import Amount


@click.command(epilog="Example: nvccache clean --older-than 30d")
@click.option(
    "--max-size",
    callback=size_option,
    metavar="SIZE",
    help="Remove the least recently used entries until the cache is no larger than SIZE.",
)
@click.option(
    "--older-than", callback=age_option, metavar="AGE", help="Remove entries that were not used within AGE."
)
@click.option("--all", "everything", is_flag=True, help="Remove all entries; the counts of `stats` stay.")
@click.option(
    "--matching",
    metavar="GLOB",
    help="Remove the entries of your compiles whose object or source matches: they will run again.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed; remove nothing.")
@json_option
def clean(
    max_size: int | None,
    older_than: float | None,
    everything: bool,
    matching: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove entries from the cache.

    Without options, it enforces the size limit that is set. SIZE is written as `10G` or `500M`, always with a
    unit; AGE as `30d`, `12h` or `90m`. GLOB is a quoted shell pattern, for base names (`'conv*.cu'`) or, with
    a slash, for whole paths (`'src/*/conv.cu'`).
    """
    by_age_or_size = max_size is not None or older_than is not None
    if everything + (matching is not None) + by_age_or_size > 1:
        raise WrongUsage("only `--max-size` and `--older-than` can be combined")
    settings = our_settings.load()
    our_settings.refuse_if_wrong(settings, "dir")
    if not everything and matching is None and not by_age_or_size:
        our_settings.refuse_if_wrong(settings, "max_size")
        max_size = settings.max_size or None
    if settings.readonly and not dry_run:
        raise Failure(f"nothing can be removed: `readonly` is on ({settings.origins['readonly']})")
    if not settings.dir:
        _show(None, dry_run, 0, settings, as_json)
        return
    others = 0
    try:
        if everything:
            pruned = eviction.clear(settings.dir, dry_run)
        elif matching is not None:
            cache = our_settings.untouched(settings.dir)
            with eviction.as_store_errors(cache.directory), bar("reading") as on_progress:
                names, others = contents.of_objects(matching, cache, on_progress)
            pruned = eviction.remove(settings.dir, names, dry_run)
        else:
            pruned = eviction.prune(settings.dir, max_size, older_than, dry_run)
    except NoCacheError:
        _show(None, dry_run, 0, settings, as_json)
        return
    _show(pruned, dry_run, others, settings, as_json)


def _show(removed: Amount | None, dry_run: bool, others: int, settings: Config, as_json: bool) -> None:
    """Print what was removed from the cache, None if there is no cache."""
    if as_json:
        counts = {"files": removed.files if removed else 0, "bytes": removed.bytes if removed else 0}
        of_others = {"object_records_of_others": others} if others else {}
        say_json({"cache": settings.dir, "dry_run": dry_run and bool(removed), **counts, **of_others})
    elif removed:
        verb = "would remove" if dry_run else "removed"
        say(f"{verb} {format_count(removed.files, 'file')}, {format_size(removed.bytes)}")
        if others:
            warn(f"skipped {format_count(others, 'object record')} of other users")
    else:
        say(
            f"There is no cache in `{settings.dir}`" if settings.dir else f"No cache: {our_settings.NO_CACHE}"
        )
