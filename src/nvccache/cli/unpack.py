"""`nvccache unpack FILE...`: takes what `nvccache pack` has written into the cache."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass

import click

from nvccache.cli import progress
from nvccache.cli import settings as our_settings
from nvccache.cli.output import Failure, json_option, say, say_json
from nvccache.cli.replacing import opened_regular
from nvccache.cli.units import count_words, size_words
from nvccache.config import Config
from nvccache.records import packs
from nvccache.records.packs import PackError
from nvccache.records.transfer import LARGEST, Transfer
from nvccache.remote import envelope
from nvccache.store import directory as directories
from nvccache.store.store import Store


@dataclass
class Unpacked:
    """What became of the objects of one pack."""

    file: str
    objects: int = 0
    bytes: int = 0
    present: int = 0
    refused: int = 0


@click.command()
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False)
)
@json_option
def unpack(files: tuple[str, ...], as_json: bool) -> None:
    """Take what is in packs into the cache, unless it is there.

    Each object is checked as one from a remote. Ends with status 1 if something is not what it should be; the
    rest is taken in. A file that is no whole pack is not read.
    """
    settings = our_settings.load()
    if not settings.dir:
        raise Failure(our_settings.NO_CACHE)
    if settings.readonly:
        raise Failure(f"nothing can be stored: `readonly` is on ({settings.origins['readonly']})")
    found = []
    for file in files:
        found.append(_unpacked(file, settings))
        if not as_json:
            _show(found[-1])
    if as_json:
        say_json({"cache": settings.dir, "packs": [asdict(each) for each in found]})
    if any(each.refused for each in found):
        sys.exit(1)


def _unpacked(file: str, settings: Config) -> Unpacked:
    made = Unpacked(file)
    cache = Store(directories.of(settings))
    transfer = Transfer(cache, settings.max_size)
    try:
        with opened_regular(file) as stream, progress.bar("unpacking") as tell:
            index = packs.index_of(stream)
            for number, packed in enumerate(index, 1):
                tell(number, len(index))
                try:
                    content = packs.read(stream, packed, envelope.most_sealed(LARGEST))
                    is_new = transfer.take_in(content, envelope.name_of(*packed.item))
                except ValueError:
                    made.refused += 1
                    continue
                if cache.fault:
                    raise Failure(f"nothing can be stored: {cache.trouble}")
                made.objects += is_new
                made.present += not is_new
                made.bytes += len(content) if is_new else 0
        transfer.keep_within_limit()
    except PackError as error:
        raise Failure(f"`{file}` {error}") from None
    except OSError as error:
        raise Failure(f"cannot read `{file}`: {error.strerror or error}") from None
    return made


def _show(made: Unpacked) -> None:
    present = f"; {made.present} there already" if made.present else ""
    refused = f"; {made.refused} refused, as damaged or forged" if made.refused else ""
    say(f"`{made.file}`: {count_words(made.objects, 'object')}, {size_words(made.bytes)}{present}{refused}")
