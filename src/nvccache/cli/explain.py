"""`nvccache explain [FILE]`: the outcome of the last compile of an object or a source, and its cause.

FILE may be a product, a source, or the end of the path of either; without it the newest compile is explained.
An exact product comes before an exact source, and both before a path that only ends with FILE. Of several
calls the newest is taken.
"""

from __future__ import annotations

import os

import click

from nvccache import outcomes
from nvccache.cli import explanation
from nvccache.cli import settings as our_settings
from nvccache.cli.explanation import Explanation, sources_of
from nvccache.cli.output import Failure, json_option, say, say_json, say_parts
from nvccache.cli.units import shown_path
from nvccache.config import Config
from nvccache.explain import object_record
from nvccache.store import events
from nvccache.store.event_line import Event
from nvccache.store.store import Store

_MOST_OTHERS = 3


@click.command(epilog="Example: nvccache explain build/kernel.o")
@click.argument("path", metavar="[FILE]", required=False, type=click.Path())
@json_option
def explain(path: str | None, as_json: bool) -> None:
    """Say why the last compile of FILE was a hit or a miss.

    FILE is an object, a source, or the end of the path of one; without it, the most recent compile is
    explained. The first line is the answer. Below it are further differences from the last compile of FILE
    that was no direct hit. Then come the stages in nvcc's order: whether each was a hit or ran, the CPU
    seconds that it took or saved, and why it ran.
    """
    settings = our_settings.load()
    our_settings.warn_if_not_counted(settings)
    if path == "":  # most likely an unset variable, not a request for the last compile
        raise Failure("FILE is empty")
    found = _explanation(settings, path)
    if as_json:
        say_json(explanation.document(found))
        return
    for line in explanation.lines(found):
        say_parts(*line)
    if found.others:
        more = len(found.others) - _MOST_OTHERS
        listed = ", ".join(f"`{shown_path(other)}`" for other in found.others[:_MOST_OTHERS])
        say(
            f"  `{path}` matches `{shown_path(found.matched)}`, the newest,"
            f" and also {listed}{f' and {more} more' if more > 0 else ''}"
        )


def _explanation(settings: Config, typed: str | None) -> Explanation:
    """The compile to explain; raises Failure and events.JournalError."""
    root = settings.dir
    cache = Store(root, settings.readonly) if root else None
    call, matched, others = _find(root, typed or "") if root else (None, "", [])
    if typed is None and not call:
        raise Failure("no compile is recorded")
    product = call.product if call else os.path.abspath(typed or "")
    record = object_record.find(product, cache) if cache and product else None
    is_exact = typed is not None and product == (matched or product)
    if record and is_exact and (not call or record.ended > call.ended):
        # The log has dropped the call, or has it under another object that it made.
        unlogged = Event(record.outcome)
        unlogged.product = product
        return Explanation(unlogged, record, typed or "", product, is_logged=False)
    if not call:
        raise Failure(f"no compile of `{typed}` is recorded")
    # The record may be of another call: some leave none, and some are not counted.
    is_of_call = record is not None and call.started <= record.ended <= call.ended
    shown = typed if typed and is_exact and not others else shown_path(explanation.name_of(call))
    return Explanation(call, record if is_of_call else None, shown, matched, others)


def _find(root: str, typed: str) -> tuple[Event | None, str, list[str]]:
    """The newest call with the best match, the path that matched, and others; without a path, the newest."""
    if not typed:
        return next(filter(events.is_compile, events.newest(root)), None), "", []
    folder, name = os.path.split(os.path.abspath(typed))
    exact = {os.path.join(folder, name), os.path.join(os.path.realpath(folder), name)}
    end = os.sep + os.path.normpath(typed)
    matches: dict[tuple[bool, bool, bool], dict[str, Event]] = {}  # best first
    for call in events.newest(root, name):
        is_query = call.outcome in outcomes.QUERIES
        if call.reason == "information" or (is_query and not call.sources):
            continue  # such as `nvcc --version`
        for is_source, path in enumerate(map(os.path.normpath, (call.product, *sources_of(call)))):
            if path in exact or path.endswith(end):
                rank = is_query, path not in exact, is_source > 0
                matches.setdefault(rank, {}).setdefault(path, call)
    if not matches:
        return None, "", []
    best = matches[min(matches)]
    matched, *others = best
    call = best[matched]
    # A later call for the same product may be a bypass, whose sources are unknown.
    last = events.last_call(root, call.product) if call.product else None
    return last or call, matched, others
