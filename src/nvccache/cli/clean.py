"""`nvccache clean`: makes the cache smaller. Builds may go on meanwhile."""

from __future__ import annotations

import os

import click

from nvccache.cli import settings as our_settings
from nvccache.cli.output import say
from nvccache.cli.units import age_option, count_words, size_option, size_words
from nvccache.store import eviction


@click.command()
@click.option(
    "--max-size",
    callback=size_option,
    metavar="SIZE",
    help="Remove what was used least recently beyond this size.",
)
@click.option(
    "--older-than", callback=age_option, metavar="AGE", help="Remove what was not used for this long."
)
@click.option("--all", "everything", is_flag=True, help="Remove all entries; the counts of `stats` stay.")
def clean(max_size: int | None, older_than: float | None, everything: bool) -> None:
    """Remove entries from the cache.

    SIZE is written as `10G` or `500M`, never without a unit; AGE as `30d`, `12h` or `90m`. Without an option
    the size limit that is set is enforced.
    """
    if everything and (max_size is not None or older_than is not None):
        raise click.UsageError("`--all` goes with no other option")
    settings = our_settings.load()
    our_settings.refuse_if_wrong(settings, "dir")
    if not settings.dir or not os.path.lexists(settings.dir):
        say(
            f"There is no cache in `{settings.dir}`" if settings.dir else f"No cache: {our_settings.NO_CACHE}"
        )
        return
    if everything:
        pruned = eviction.clear(settings.dir)
    else:
        if max_size is None and older_than is None:
            our_settings.refuse_if_wrong(settings, "max_size")
            max_size = settings.max_size or None
        pruned = eviction.prune(settings.dir, max_size, older_than)
    say(f"removed {count_words(pruned.files, 'file')}, {size_words(pruned.bytes)}")
