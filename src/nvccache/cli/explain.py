"""`nvccache explain [FILE]`: what became of the last compile of an object or a source, and why.

FILE may be a product, a source, or the end of the path of either; without it the newest compile is meant. The
exact product goes before the exact source, and both before a path that only ends so. Of several calls the
newest is taken.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

import click

from nvccache import outcomes
from nvccache.cli import explanation
from nvccache.cli import settings as our_settings
from nvccache.cli.explanation import Explanation, sources_of
from nvccache.cli.output import Failure, WrongUsage, json_option, say, say_json, say_parts
from nvccache.cli.units import shown_path
from nvccache.config import Config
from nvccache.explain import object_record
from nvccache.store import events
from nvccache.store.event_line import Event
from nvccache.store.store import Store

_MOST_OTHERS = 3
_ALIKE = 0.75
_MOST_NAMES = 5000  # that are compared with one that is not known


def _file(_: click.Context, param: click.Parameter, value: str | None) -> str:
    """Callback of FILE. An empty word is most likely a variable that is not set, no question for the last."""
    if value == "":
        raise click.BadParameter("it is empty; without it the last compile is explained", param=param)
    return value or ""


@click.command()
@click.argument("path", metavar="[FILE]", required=False, callback=_file, type=click.Path())
@click.option(
    "--verbose", "-v", is_flag=True, help="Tell all differences of each stage, not the first alone."
)
@click.option(
    "--diff",
    nargs=2,
    metavar="BUILD1 BUILD2",
    help="Say what was a hit in one build and ran in the other. A build is `last-build`, `last-build~1` for"
    " the one before, or an age or a date at which it was under way.",
)
@json_option
def explain(path: str, verbose: bool, diff: tuple[str, str] | None, as_json: bool) -> None:
    """Say what became of the last compile of FILE, and why.

    FILE is an object, a source, or the end of the path of one; without it, it is the last compile of all.
    The first line is the answer. Below it stand further differences from the compile before, and the stages
    in nvcc's order: whether each was a hit or ran, the seconds that it saved or took, and what differed
    where it ran.
    """
    if diff and path:
        context = click.get_current_context()
        raise WrongUsage("`--diff` is about all of two builds, and takes no file", ctx=context)
    settings = our_settings.load()
    our_settings.warn_if_not_counted(settings)
    if diff:
        from nvccache.cli import build_difference

        build_difference.show(settings.journal_root, diff, as_json)
        return
    found = _found(settings, path)
    if as_json:
        say_json(explanation.document(found))
        return
    for line in explanation.lines(found, is_verbose=verbose):
        say_parts(*line)
    if found.others:
        more = len(found.others) - _MOST_OTHERS
        listed = ", ".join(f"`{shown_path(other)}`" for other in found.others[:_MOST_OTHERS])
        say(
            f"  `{path}` is taken for `{shown_path(found.matched)}`, the newest;"
            f" there is also {listed}{f' and {more} more' if more > 0 else ''}"
        )


def _found(settings: Config, path: str) -> Explanation:
    """The compile that is asked for; raises Failure and events.JournalError."""
    root = settings.journal_root
    cache = Store(settings.dir, settings.readonly) if settings.dir else None

    def known(
        product: str, name: str, call: Event | None, matched: str = "", others: Sequence[str] = ()
    ) -> Explanation:
        record = object_record.find(product, cache) if cache and product else None
        return Explanation(product, name, call, record, matched, others)

    if not path:
        newest = next(filter(_is_compile, events.newest(root)), None) if root else None
        if not newest:
            raise Failure("no compile is known")
        return known(newest.product, explanation.name_of(newest), newest)
    maker, reader = _exact(root, path) if root else (None, None)
    product = maker.product if maker else os.path.abspath(path)
    found = known(product, path, maker, product)
    if maker or found.record:
        return found
    matches = {os.path.abspath(path): reader} if reader else _ending(root, path) if root else {}
    if not matches:
        near = _near(root, path) if root else ""
        hint = f"there is one of `{shown_path(near)}`" if near else ""
        raise Failure(f"no compile of `{path}` is known", hint)
    matched, *others = matches
    call = matches[matched]
    # The last call for the same product may be one of which nobody looked at the sources: a bypass.
    last = events.last_call(root, call.product) if call.product else None
    call = last if last and not last.sources else call
    return known(call.product, shown_path(explanation.name_of(call)), call, matched, others)


def _exact(root: str, typed: str) -> tuple[Event | None, Event | None]:
    """The last call that made this file, and the last one that read it, whatever links lead there."""
    folders: dict[str, str] = {}

    def located(path: str) -> str:
        folder, name = os.path.split(path)  # the name itself is kept: it may be a link on purpose
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        return os.path.join(folders[folder], name)

    wanted = located(os.path.abspath(typed))
    last_reader = None
    for call in _naming(root, typed):
        if call.product and located(call.product) == wanted:
            return call, last_reader
        if not last_reader and wanted in map(located, sources_of(call)):
            last_reader = call
    return None, last_reader


def _ending(root: str, typed: str) -> dict[str, Event]:
    """The paths of products, or else of sources, that end so; each with the newest call of all of them."""
    end = os.path.normpath(typed)
    calls = list(_naming(root, typed))
    return _of_end(calls, end, _products_of) or _of_end(calls, end, sources_of)


def _of_end(calls: Iterable[Event], end: str, paths_of: Callable[[Event], list[str]]) -> dict[str, Event]:
    found: dict[str, Event] = {}
    for call in calls:
        for path in map(os.path.normpath, paths_of(call)):
            if path.endswith(os.sep + end):
                found.setdefault(path, call)
    return found


def _near(root: str, typed: str) -> str:
    """A product or a source whose name is most like this one, as a path; empty if none is."""
    paths: dict[str, str] = {}
    for call in filter(_is_compile, events.newest(root)):
        for path in (*_products_of(call), *sources_of(call)):
            paths.setdefault(os.path.basename(path).lower(), path)
        if len(paths) >= _MOST_NAMES:
            break
    found = difflib.get_close_matches(os.path.basename(typed).lower(), paths, 1, _ALIKE)
    return paths[found[0]] if found else ""


def _products_of(call: Event) -> list[str]:
    return [call.product] if call.product else []


def _naming(root: str, typed: str) -> Iterator[Event]:
    """The calls that may be meant, newest first: first the compiles, then the queries (`-M` of a source)."""
    name = os.path.basename(os.path.normpath(typed))
    for wants_queries in (False, True):
        calls = filter(_is_compile, events.newest(root, name))
        yield from (call for call in calls if (call.outcome in outcomes.QUERIES) == wants_queries)


def _is_compile(call: Event) -> bool:
    """Whether a call is about a source: no compile asks nvcc for its version."""
    return call.reason != "information" and (call.outcome not in outcomes.QUERIES or bool(call.sources))
