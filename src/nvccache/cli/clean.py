"""`nvccache clean`: makes the cache smaller. Builds may go on meanwhile."""

from __future__ import annotations

import os

import click

from nvccache import config, eviction
from nvccache.cli.units import age_option, count_words, size_option, size_words


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

    SIZE is written as `10G` or `500M`, AGE as `30d`, `12h` or `90m`. Without an option the size limit that
    is set is enforced.
    """
    if everything and (max_size is not None or older_than is not None):
        raise click.UsageError("`--all` goes with no other option")
    settings = config.load(os.environ)
    if not os.path.lexists(settings.dir):
        click.echo(f"There is no cache in `{settings.dir}`")
        return
    if everything:
        pruned = eviction.clear(settings.dir)
    else:
        if max_size is None and older_than is None:
            max_size = settings.max_size
        pruned = eviction.prune(settings.dir, max_size, older_than)
    click.echo(f"removed {count_words(pruned.files, 'file')}, {size_words(pruned.bytes)}")
