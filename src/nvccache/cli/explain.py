"""`nvccache explain [FILE]`: the outcome of the last compile of an object or a source, and its cause.

FILE may be a product, a source, or the end of the path of either; without it the newest compile is explained.
An exact product comes before an exact source, and both before a path that only ends with FILE. Of several
calls the newest is taken.
"""

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Iterator

import click

from nvccache import outcomes
from nvccache.cli import explanation
from nvccache.cli import settings as our_settings
from nvccache.cli.explanation import Explanation, sources_of
from nvccache.cli.output import Failure, json_option, say, say_json, say_parts
from nvccache.cli.units import shown_path
from nvccache.config import Config
from nvccache.explain import object_record
from nvccache.explain.object_record import ObjectRecord
from nvccache.store import events
from nvccache.store.event_line import Event
from nvccache.store.store import Store

_MOST_OTHERS = 3
_ALIKE = 0.75
_MOST_NAMES = 5000  # compared with an unknown one


def _file(_: click.Context, param: click.Parameter, value: str | None) -> str:
    """Callback of FILE. An empty one is most likely an unset variable, not a request for the last compile."""
    if value == "":
        raise click.BadParameter("it is empty; leave it out to explain the last compile", param=param)
    return value or ""


@click.command(epilog="Example: nvccache explain build/kernel.o")
@click.argument("path", metavar="[FILE]", required=False, callback=_file, type=click.Path())
@click.option("--verbose", "-v", is_flag=True, help="Show all differences of each stage, not just the first.")
@json_option
def explain(path: str, verbose: bool, as_json: bool) -> None:
    """Say why the last compile of FILE was a hit or a miss.

    FILE is an object, a source, or the end of the path of one; without it, the most recent compile is
    explained. The first line is the answer. Below it are further differences from the last compile of FILE
    that was no direct hit. Then come the stages in nvcc's order: whether each was a hit or ran, the CPU
    seconds that it took or saved, and why it ran.
    """
    settings = our_settings.load()
    our_settings.warn_if_not_counted(settings)
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
            f"  `{path}` matches `{shown_path(found.matched)}`, the newest,"
            f" and also {listed}{f' and {more} more' if more > 0 else ''}"
        )


def _found(settings: Config, path: str) -> Explanation:
    """The compile to explain; raises Failure and events.JournalError."""
    root = settings.dir
    cache = Store(settings.dir, settings.readonly) if settings.dir else None

    def record_of(product: str) -> ObjectRecord | None:
        return object_record.find(product, cache) if cache and product else None

    if not path:
        call = next(filter(events.is_compile, events.newest(root)), None) if root else None
        if not call:
            raise Failure("no compile is recorded")
        return Explanation(call, record_of(call.product), explanation.name_of(call))
    maker, reader = _exact(root, path) if root else (None, None)
    product = maker.product if maker else os.path.abspath(path)
    record = record_of(product)
    # A later call made it beside another object, which the event log names, or was not counted.
    is_newer = record and maker and record.ended > maker.ended
    if maker and not is_newer:
        return Explanation(maker, record, path, product)
    if record:
        forgotten = Event(record.outcome)
        forgotten.product = product
        return Explanation(forgotten, record, path, product, is_logged=False)
    matches = {product: reader} if reader else _ending(root, path) if root else {}
    if not matches:
        near = _near(root, path) if root else ""
        hint = f"did you mean `{shown_path(near)}`?" if near else ""
        raise Failure(f"no compile of `{path}` is recorded", hint)
    matched, *others = matches
    call = matches[matched]
    # The last call for the same product may be a bypass, whose sources are unknown.
    last = events.last_call(root, call.product) if call.product else None
    call = last if last and not last.sources else call
    return Explanation(call, record_of(call.product), shown_path(explanation.name_of(call)), matched, others)


def _exact(root: str, typed: str) -> tuple[Event | None, Event | None]:
    """The last call that made this file, and the last that read it, through links to directories."""
    folder_of = functools.cache(os.path.realpath)

    def located(path: str) -> str:
        folder, name = os.path.split(path)  # the name itself is not resolved: it may be a deliberate link
        return os.path.join(folder_of(folder), name)

    wanted = located(os.path.abspath(typed))
    last_reader = None
    for call in _naming(root, typed):
        if call.product and located(call.product) == wanted:
            return call, last_reader
        if not last_reader and wanted in map(located, sources_of(call)):
            last_reader = call
    return None, last_reader


def _ending(root: str, typed: str) -> dict[str, Event]:
    """The paths of products, or else of sources, that end with `typed`, each with its newest call."""
    end = os.sep + os.path.normpath(typed)
    products: dict[str, Event] = {}
    sources: dict[str, Event] = {}
    for call in _naming(root, typed):
        for found, paths in ((products, [call.product]), (sources, sources_of(call))):
            for path in map(os.path.normpath, paths):
                if path.endswith(end):
                    found.setdefault(path, call)
    return products or sources


def _near(root: str, typed: str) -> str:
    """The product or source with the most similar name, in the working directory rather than elsewhere."""
    here = os.path.join(os.getcwd(), "")
    paths: dict[str, str] = {}
    for call in filter(_is_compile, events.newest(root)):
        for path in (call.product, *sources_of(call)):
            known = paths.setdefault(os.path.basename(path).lower(), path)
            if path.startswith(here) and not known.startswith(here):
                paths[os.path.basename(path).lower()] = path
        if len(paths) >= _MOST_NAMES:
            break
    found = difflib.get_close_matches(os.path.basename(typed).lower(), paths, 1, _ALIKE)
    return paths[found[0]] if found else ""


def _naming(root: str, typed: str) -> Iterator[Event]:
    """The calls that may be meant, newest first: compiles, then queries (`-M` of a source)."""
    name = os.path.basename(os.path.normpath(typed))
    for wants_queries in (False, True):
        calls = filter(_is_compile, events.newest(root, name))
        yield from (call for call in calls if (call.outcome in outcomes.QUERIES) == wants_queries)


def _is_compile(call: Event) -> bool:
    """Whether a call is about a source, not a query such as `--version`."""
    return call.reason != "information" and (call.outcome not in outcomes.QUERIES or bool(call.sources))
