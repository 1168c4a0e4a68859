"""`nvccache remote pull`: fetches all that remotes have and this cache has not."""

from __future__ import annotations

import functools

import click

from nvccache.cli import bulk, remotes
from nvccache.cli.bulk import Moved
from nvccache.cli.output import Failure, json_option
from nvccache.cli.remotes import Chosen
from nvccache.records.tiered_store import LARGEST
from nvccache.records.transfer import Transfer
from nvccache.remote import envelope
from nvccache.remote.service import ServiceError
from nvccache.remote_url import Remote
from nvccache.store import eviction
from nvccache.store.store import Store


@click.command()
@click.option("--dry-run", is_flag=True, help="Fetch nothing; say what would be fetched.")
@json_option
def pull(dry_run: bool, as_json: bool) -> None:
    """Fetch what remotes have and this cache has not, as before a journey without them.

    What is fetched is checked as in a compile. Interrupted, it goes on where it was. Ends with status 1 if
    something could not be fetched. The size limit of the cache holds from the next compile on.
    """
    chosen = remotes.load()
    if chosen.settings.readonly:
        raise Failure(f"nothing can be stored: `readonly` is on ({chosen.settings.origins['readonly']})")
    work = functools.partial(_from, chosen, dry_run)
    bulk.each(chosen.remotes, work, "fetched", "would fetch", dry_run, as_json)


def _from(chosen: Chosen, dry_run: bool, remote: Remote) -> Moved:
    moved = Moved(remote.shown)
    chosen.root.prepare()
    cache = Store(chosen.root)
    transfer = Transfer(cache, chosen.settings.max_size)
    with eviction.told_in_one_sentence(chosen.root):
        here = {envelope.name_of(*item) for item, _ in transfer.items() if not transfer.is_promise(item)}
    try:
        service = remotes.service(remote)
        there = bulk.listed(remote, service)
    except ServiceError as error:
        moved.fail(error)
        return moved
    missing = [name for name in there if name not in here]
    if dry_run:
        moved.objects, moved.present = len(missing), len(there) - len(missing)
        moved.bytes = sum(there[name][0] for name in missing)
        return moved

    def fetch(name: str) -> int:
        content = service.get(name, envelope.most_sealed(LARGEST))
        if content is None:
            return 0
        is_new = transfer.take_in(content, name)
        if cache.fault:
            raise Failure(f"nothing can be stored: {cache.trouble}")
        return len(content) if is_new else 0

    bulk.move(f"fetching from {remote.shown}", fetch, missing, moved)
    transfer.keep_within_limit()
    moved.present += len(there) - len(missing)
    return moved
