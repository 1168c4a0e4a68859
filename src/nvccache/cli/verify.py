"""`nvccache verify`: whether what is in the cache is what was put there, and what is compiled now."""

from __future__ import annotations

import os
import random
import sys
from dataclasses import asdict

import click

from nvccache.cli import contents, integrity, looking, progress, recompile
from nvccache.cli import settings as our_settings
from nvccache.cli.output import GREEN, RED, YELLOW, Failure, WrongUsage, json_option, say, say_json, say_parts
from nvccache.cli.units import count_words, size_words
from nvccache.config import PREFIX
from nvccache.store import eviction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.cli.integrity import Checked
    from nvccache.cli.recompile import Tried
    from nvccache.config import Config

_MOST_SHOWN = 20
_COLOURS = {recompile.SAME: GREEN, recompile.DIFFERENT: RED, recompile.SKIPPED: YELLOW}


@click.command(context_settings={"ignore_unknown_options": False})
@click.option("--repair", is_flag=True, help="Remove what is damaged; it is made again when it is needed.")
@click.option(
    "--recompile",
    "sample",
    type=click.IntRange(min=1),
    metavar="N",
    help="Also compile N objects of yours again, by the cache and by nvcc, and compare.",
)
@json_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- NVCC ARGS...]")
def verify(repair: bool, sample: int | None, as_json: bool, command: tuple[str, ...]) -> None:
    """Check the files of the cache, or compare what it gives with nvcc.

    Every file is checked against its checksum.
    With a command line behind `--`, that is compiled by the cache and by nvcc, here, and nothing else is
    checked; it must name its output by `-o`, which is not written. N objects are chosen at random from those
    whose command lines are kept in full. Ends with status 1 if something is wrong, or if the given command
    line could not be compared.
    """
    settings = our_settings.load()
    our_settings.refuse_if_wrong(settings, "dir")
    if repair and settings.readonly:
        raise Failure(f"nothing can be removed: `readonly` is on ({settings.origins['readonly']})")
    if command and (repair or sample):
        raise WrongUsage("a command line goes with no other option", ctx=click.get_current_context())
    if not settings.dir:
        raise Failure(our_settings.NO_CACHE)
    checked = None if command else _check(settings, repair)
    tried = [_given(command)] if command else _sample(settings, sample) if sample else []
    if as_json:
        say_json(_document(settings, checked, tried, bool(command)))
    else:
        _show(settings, checked, tried, repair)
    if _is_wrong(checked, tried, bool(command)):
        sys.exit(1)


def _check(settings: Config, repair: bool) -> Checked:
    cache = looking.at(settings.dir)
    with eviction.told_in_one_sentence(cache.directory), progress.bar("verifying") as tell:
        return integrity.check(cache, repair, tell)


def _is_wrong(checked: Checked | None, tried: list[Tried], is_given: bool) -> bool:
    """Whether the status is 1. Of a sample some may be skipped; a command that is given is to be compared."""
    is_damaged = checked is not None and len(checked.damaged) > checked.removed
    return is_damaged or any(
        each.state == recompile.DIFFERENT or (is_given and each.state == recompile.SKIPPED) for each in tried
    )


def _given(command: tuple[str, ...]) -> Tried:
    nvcc, *argv = command
    return recompile.retry(nvcc, argv, os.getcwd(), _environ())


def _sample(settings: Config, count: int) -> list[Tried]:
    """Compiles of this user's, each object once, in random order until so many have been compared."""
    cache = looking.at(settings.dir)
    with eviction.told_in_one_sentence(cache.directory), progress.bar("reading") as tell:
        objects = list(contents.read(cache, tell).objects.values())
    random.shuffle(objects)
    tried: list[Tried] = []
    compared = 0
    with progress.bar("compiling", is_long=True) as tell:
        for record in objects:
            if compared == count:
                break
            nvcc, directory = ("".join(contents.shown_parts(record, tag)) for tag in ("nvcc", "directory"))
            argv = recompile.argv_of(record)
            if isinstance(argv, str):
                tried.append(recompile.Tried(recompile.SKIPPED, directory, (nvcc,), argv))
                continue
            tried.append(recompile.retry(nvcc, argv, directory, _environ()))
            compared += tried[-1].state != recompile.SKIPPED
            tell(compared, count)
    return tried


def _environ() -> dict[str, str]:
    """The caller's environment; of the settings those that say where the cache is and what it may share."""
    kept = ("NVCCACHE_DIR", "NVCCACHE_BASE_DIR")
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(PREFIX) or name in kept
    }
    return environ | {"NVCCACHE_DISABLE": "0", "NVCCACHE_RECACHE": "0"}  # the settings file may say otherwise


def _document(
    settings: Config, checked: Checked | None, tried: list[Tried], is_given: bool
) -> dict[str, object]:
    return {
        "cache": settings.dir,
        "files": asdict(checked) if checked else None,
        "compiles": [asdict(each) for each in tried],
        "is_wrong": _is_wrong(checked, tried, is_given),
    }


def _show(settings: Config, checked: Checked | None, tried: list[Tried], repair: bool) -> None:
    if checked:
        _show_files(settings, checked, repair)
    skipped: dict[str, int] = {}
    for each in tried:
        if each.state == recompile.SKIPPED and len(tried) > 1:
            skipped[each.text] = skipped.get(each.text, 0) + 1
            continue
        say_parts((f"{each.state:<10}", _COLOURS[each.state]), f" {' '.join(each.argv)}")
        say(f"           in `{each.directory}`: {each.text}")
    for reason, number in sorted(skipped.items()):
        say_parts((f"{recompile.SKIPPED:<10}", YELLOW), f" {count_words(number, 'compile')}: {reason}")
    if tried and all(each.state == recompile.SKIPPED for each in tried):
        say("nothing was compared")


def _show_files(settings: Config, checked: Checked, repair: bool) -> None:
    size = f"{count_words(checked.files, 'file')}, {size_words(checked.bytes)}"
    if checked.damaged:
        did = (
            f", {checked.removed} of them removed" if repair else "; `nvccache verify --repair` removes them"
        )
        say_parts(("damaged", RED), f"    {len(checked.damaged)} of {size} in `{settings.dir}`{did}")
        say(*[f"           {path}" for path in checked.damaged[:_MOST_SHOWN]])
        if len(checked.damaged) > _MOST_SHOWN:
            say(f"           and {len(checked.damaged) - _MOST_SHOWN} more")
    else:
        say_parts(("good", GREEN), f"       {size} in `{settings.dir}`")
    if checked.unreadable:
        files = count_words(checked.unreadable, "file")
        say_parts(("note", YELLOW), f"       {files} of other users cannot be read by you")
