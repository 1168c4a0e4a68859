"""`nvccache clean`: removes entries from the cache, also while builds run."""

from __future__ import annotations

import contextlib
import fnmatch
import os

import click

from nvccache.cli import settings as our_settings
from nvccache.cli.output import (
    Failure,
    WrongUsage,
    age_option,
    format_count,
    format_size,
    json_option,
    say,
    say_json,
    size_option,
)
from nvccache.explain import miss_reason
from nvccache.records import record
from nvccache.store import events, eviction, store
from nvccache.store.directory import NoCacheError
from nvccache.store.eviction import Amount
from nvccache.store.store import COMPRESSED, Store


@click.command(epilog="Example: nvccache clean --older-than 30d")
@click.option(
    "--max-size",
    callback=size_option,
    metavar="SIZE",
    help="Remove the least recently used entries until the cache is no larger than SIZE.",
)
@click.option(
    "--older-than", callback=age_option, metavar="AGE", help="Remove entries that have not been used for AGE."
)
@click.option("--all", "everything", is_flag=True, help="Remove all entries, but keep the counts of `stats`.")
@click.option(
    "--matching",
    metavar="GLOB",
    help="Remove the results of your recent compiles whose object or source matches GLOB.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed, but remove nothing.")
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

    Without options, it enforces the configured size limit. SIZE is written like `10G` or `500M`, AGE like
    `30d`, `12h` or `90m`. GLOB is a quoted shell pattern, for base names (`'conv*.cu'`) or, with a slash, for
    whole paths (`'src/*/conv.cu'`).
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
        raise Failure(f"nothing can be removed, because `readonly` is on ({settings.origins['readonly']})")
    removed: Amount | None = None
    if settings.dir:
        with contextlib.suppress(NoCacheError):
            if everything:
                removed = eviction.clear(settings.dir, dry_run)
            elif matching is not None:
                names = _names_of(matching, our_settings.open_untouched(settings.dir))
                removed = eviction.remove(settings.dir, names, dry_run)
            else:
                removed = eviction.prune(settings.dir, max_size, older_than, dry_run)
    _show(removed, settings.dir, dry_run, as_json)


def _show(removed: Amount | None, root: str, dry_run: bool, as_json: bool) -> None:
    """Print what was removed from the cache; `removed` is None if there is no cache."""
    if as_json:
        counts = {"files": removed.files if removed else 0, "bytes": removed.bytes if removed else 0}
        say_json({"cache": root, "dry_run": dry_run and bool(removed), **counts})
    elif removed:
        verb = "would remove" if dry_run else "removed"
        say(f"{verb} {format_count(removed.files, 'file')}, {format_size(removed.bytes)}")
    else:
        say(f"There is no cache in `{root}`" if root else f"No cache: {our_settings.NO_CACHE}")


def _names_of(glob: str, cache: Store) -> set[str]:
    """The cache files that answer those calls in the event log whose product or source matches.

    These include stored outputs, without which the launcher cannot replay a call.
    """
    names = set()
    for call in events.read(cache.directory):
        paths = [call.product, *(os.path.join(call.directory, source) for source in call.sources)]
        if not call.product or not any(_matches(os.path.normpath(path), glob) for path in paths):
            continue
        names.add(cache.name(store.OBJECT, miss_reason.key_of_object(call.product)))
        known = miss_reason.find_record(call.product, cache)
        key = known.record_name.partition("/")[0] if known else ""
        encoded = cache.find_record(store.RECORD, key) if key else None
        if known is None or encoded is None:
            continue
        names.add(cache.name(store.RECORD, key))
        with contextlib.suppress(ValueError):  # a damaged record
            for _, result, _ in record.results_in(encoded):
                names |= {name.removesuffix(COMPRESSED) for name in result.basis}
    return names | {name + COMPRESSED for name in names}


def _matches(path: str, glob: str) -> bool:
    """A GLOB without a slash matches base names."""
    if "/" in glob:
        return fnmatch.fnmatchcase(path, os.path.abspath(glob))
    return fnmatch.fnmatchcase(os.path.basename(path), glob)
