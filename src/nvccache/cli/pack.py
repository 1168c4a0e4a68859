"""`nvccache pack FILE`: entries of the cache as one file, such as a CI job keeps for the next one."""

from __future__ import annotations

import os
import time

import click

from nvccache.cli import looking, progress
from nvccache.cli import settings as our_settings
from nvccache.cli.output import Failure, json_option, say, say_json
from nvccache.cli.replacing import opened_regular
from nvccache.cli.units import age_option, count_words, size_words
from nvccache.records import packs
from nvccache.records.packs import PackError
from nvccache.records.transfer import Transfer
from nvccache.remote.uploads import Item
from nvccache.store import eviction


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False))
@click.option(
    "--base",
    "bases",
    multiple=True,
    metavar="PACK",
    type=click.Path(exists=True, dir_okay=False),
    help="Leave out what is in this pack; may be given several times.",
)
@click.option(
    "--since", "age", callback=age_option, metavar="AGE", help="Leave out what was not used since then."
)
@json_option
def pack(file: str, bases: tuple[str, ...], age: float | None, as_json: bool) -> None:
    """Write what may be shared of the cache into FILE, for `nvccache unpack`.

    With `--base` FILE has only what is new, and is unpacked together with that pack. FILE appears whole or
    not at all. AGE is written as `30d`, `12h` or `90m`.
    """
    settings = our_settings.load()
    if not settings.dir:
        raise Failure(our_settings.NO_CACHE)
    if os.path.exists(file) and not os.path.isfile(file):
        raise Failure(f"cannot write `{file}`: it is no regular file")
    known = {(packed.item, packed.digest) for base in bases for packed in _index(base)}
    cache = looking.at(settings.dir)
    transfer = Transfer(cache)
    with eviction.told_in_one_sentence(cache.directory):
        oldest = 0.0 if age is None else time.time() - age
        items = [item for item, used in transfer.items() if used >= oldest]
    size = _write(file, transfer, items, known)
    if as_json:
        say_json({"file": os.path.abspath(file), **size})
    else:
        left_out = f"; {size['left_out']} in the base" if bases else ""
        say(f"`{file}`: {count_words(size['objects'], 'object')}, {size_words(size['bytes'])}{left_out}")


def _write(file: str, transfer: Transfer, items: list[Item], known: set[tuple[Item, str]]) -> dict[str, int]:
    try:
        with progress.bar("packing") as tell:
            found = packs.write(file, transfer, items, known, tell)
        size = os.path.getsize(file)
    except OSError as error:
        raise Failure(f"cannot write `{file}`: {error.strerror or error}") from None
    return {"objects": len(found), "bytes": size, "left_out": len(items) - len(found)}


def _index(path: str) -> list[packs.Packed]:
    try:
        with opened_regular(path) as stream:
            return packs.index_of(stream)
    except PackError as error:
        raise Failure(f"`{path}` {error}") from None
    except OSError as error:
        raise Failure(f"cannot read `{path}`: {error.strerror or error}") from None
