"""`nvccache pack FILE`, `nvccache unpack FILE...`: entries of the cache as one file, such as CI jobs keep."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from dataclasses import asdict, dataclass
from typing import IO

import click

from nvccache.cli import settings as our_settings
from nvccache.cli.output import Failure, bar, json_option, say, say_json
from nvccache.cli.units import age_option, count_words, size_words
from nvccache.config import Config
from nvccache.records import packs
from nvccache.records.packs import PackError
from nvccache.records.transfer import LARGEST, Transfer
from nvccache.remote import envelope
from nvccache.store import directory as directories
from nvccache.store import eviction
from nvccache.store.store import Store


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
    settings = our_settings.load(needs_cache=True)
    if os.path.exists(file) and not os.path.isfile(file):
        raise Failure(f"cannot write `{file}`: it is no regular file")
    known = {(packed.item, packed.digest) for base in bases for packed in _index(base)}
    cache = our_settings.untouched(settings.dir)
    transfer = Transfer(cache)
    with eviction.told_in_one_sentence(cache.directory):
        oldest = 0.0 if age is None else time.time() - age
        items = [item for item, used in transfer.items() if used >= oldest]
    try:
        with bar("packing") as tell:
            objects = len(packs.write(file, transfer, items, known, tell))
        size = {"objects": objects, "bytes": os.path.getsize(file), "left_out": len(items) - objects}
    except OSError as error:
        raise Failure(f"cannot write `{file}`: {error.strerror or error}") from None
    if as_json:
        say_json({"file": os.path.abspath(file), **size})
    else:
        left_out = f"; {size['left_out']} in the base" if bases else ""
        say(f"`{file}`: {count_words(size['objects'], 'object')}, {size_words(size['bytes'])}{left_out}")


def _index(path: str) -> list[packs.Packed]:
    try:
        with opened_regular(path) as stream:
            return packs.index_of(stream)
    except PackError as error:
        raise Failure(f"`{path}` {error}") from None
    except OSError as error:
        raise Failure(f"cannot read `{path}`: {error.strerror or error}") from None


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
    settings = our_settings.load(needs_cache=True)
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
        with opened_regular(file) as stream, bar("unpacking") as tell:
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


def opened_regular(path: str) -> IO[bytes]:
    """A file to be read; raises OSError, also for a pipe, which would be waited for, perhaps for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file")
    return open(descriptor, "rb")
