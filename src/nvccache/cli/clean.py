"""`nvccache clean`: removes entries from the cache, also while builds run."""

from __future__ import annotations

import click

from nvccache.cli import contents
from nvccache.cli import settings as our_settings
from nvccache.cli.output import Failure, OnProgress, WrongUsage, bar, json_option, say, say_json, warn
from nvccache.cli.units import age_option, format_count, format_size, size_option
from nvccache.config import Config
from nvccache.store import directory, eviction
from nvccache.store.directory import NoCacheError
from nvccache.store.eviction import Amount
from nvccache.store.store import Store


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
    "--stage",
    type=click.Choice(contents.KINDS),
    help="Remove the results of one tool and all that rests on them: it will run again.",
)
@click.option(
    "--matching",
    metavar="GLOB",
    help="Remove the entries of your compiles whose object or source matches: they will run again.",
)
@click.option(
    "--unused-toolchains",
    is_flag=True,
    help="Remove entries of programs that have been deleted or replaced.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed; remove nothing.")
@json_option
def clean(
    max_size: int | None,
    older_than: float | None,
    everything: bool,
    stage: str | None,
    matching: str | None,
    unused_toolchains: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove entries from the cache.

    Without options, it enforces the size limit that is set. SIZE is written as `10G` or `500M`, always with a
    unit; AGE as `30d`, `12h` or `90m`. GLOB is a quoted shell pattern, for base names (`'conv*.cu'`) or, with
    a slash, for whole paths (`'src/*/conv.cu'`).
    """
    by_age_or_size = max_size is not None or older_than is not None
    is_chosen = bool(stage) or matching is not None or unused_toolchains
    if everything + bool(stage) + (matching is not None) + unused_toolchains + by_age_or_size > 1:
        raise WrongUsage("only `--max-size` and `--older-than` can be combined")
    settings = our_settings.load()
    our_settings.refuse_if_wrong(settings, "dir")
    if not everything and not is_chosen and not by_age_or_size:
        our_settings.refuse_if_wrong(settings, "max_size")
        max_size = settings.max_size or None
    if settings.readonly and not dry_run:
        raise Failure(f"nothing can be removed: `readonly` is on ({settings.origins['readonly']})")
    details: dict[str, object] = {}
    try:
        if not settings.dir:
            raise NoCacheError
        with bar("cleaning") as on_progress:
            if everything:
                pruned = eviction.clear(settings.dir, dry_run, on_progress)
            elif is_chosen:
                names, details = _named(our_settings.untouched(settings.dir), stage, matching, on_progress)
                pruned = eviction.remove(settings.dir, names, dry_run, on_progress)
            else:
                pruned = eviction.prune(settings.dir, max_size, older_than, dry_run, on_progress)
    except NoCacheError:
        _say_that_there_is_none(settings, as_json)
        return
    _show(pruned, dry_run, details, settings, as_json)


def _named(
    cache: Store, stage: str | None, matching: str | None, on_progress: OnProgress
) -> tuple[set[str], dict[str, object]]:
    """The files to remove, and what the command reports about how they were found."""
    with eviction.as_store_errors(directory.at(cache.directory)):
        found = contents.read(cache, on_progress)
    if stage:
        return contents.of_stage(found, stage, cache), {}
    if matching is not None:
        names = contents.of_objects(found, matching, cache)
        return names, {"object_records_of_others": found.of_others} if found.of_others else {}
    names, programs = contents.of_unused_toolchains(found, cache)
    return names, {"programs_not_there": programs}


def _say_that_there_is_none(settings: Config, as_json: bool) -> None:
    if as_json:
        say_json({"cache": settings.dir, "dry_run": False, "files": 0, "bytes": 0})
    elif settings.dir:
        say(f"There is no cache in `{settings.dir}`")
    else:
        say(f"No cache: {our_settings.NO_CACHE}")


def _show(pruned: Amount, dry_run: bool, details: dict[str, object], settings: Config, as_json: bool) -> None:
    if as_json:
        counts = {"files": pruned.files, "bytes": pruned.bytes}
        say_json({"cache": settings.dir, "dry_run": dry_run, **counts, **details})
        return
    verb = "would remove" if dry_run else "removed"
    say(f"{verb} {format_count(pruned.files, 'file')}, {format_size(pruned.bytes)}")
    programs = details.get("programs_not_there", [])
    assert isinstance(programs, list)
    say(*[f"  deleted or replaced: `{path}`" for path in programs])
    others = details.get("object_records_of_others")
    if others:
        warn(f"skipped {format_count(int(str(others)), 'object record')} of other users")
