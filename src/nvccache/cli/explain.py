"""`nvccache explain [FILE]`: what became of the last compile of an object or a source, and why."""

from __future__ import annotations

import os

import click

from nvccache.cli import call_search, explanation
from nvccache.cli import settings as our_settings
from nvccache.cli.explanation import Explanation
from nvccache.cli.output import Failure, WrongUsage, json_option, say, say_json, say_parts, warn
from nvccache.explain import object_record
from nvccache.store.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.config import Config

_MOST_OTHERS = 3


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
        raise WrongUsage(
            "`--diff` is about all of two builds, and takes no file",
            ctx=click.get_current_context(),
        )
    settings = our_settings.load()
    if not settings.counts_calls:
        warn(our_settings.why_not_counted(settings))
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
        listed = ", ".join(f"`{call_search.shown(other)}`" for other in found.others[:_MOST_OTHERS])
        say(
            f"  `{path}` is taken for `{call_search.shown(found.matched)}`, the newest;"
            f" there is also {listed}{f' and {more} more' if more > 0 else ''}"
        )


def _found(settings: Config, path: str) -> Explanation:
    """The compile that is asked for; raises Failure."""
    root = settings.journal_root
    cache = Store(settings.dir, settings.readonly) if settings.dir else None
    if not path:
        call = call_search.newest_compile(root) if root else None
        if not call:
            raise Failure("no compile is known")
        record = object_record.find(call.product, cache) if cache and call.product else None
        return Explanation(call.product, explanation.name_of(call), call, record)
    call, reader = call_search.exact(root, path) if root else (None, None)
    product = call.product if call else os.path.abspath(path)
    record = object_record.find(product, cache) if cache else None
    if call or record:
        return Explanation(product, path, call, record, product)
    source = os.path.abspath(path)
    match = call_search.Match(reader, source, []) if reader else None
    match = match or (call_search.ending(root, path) if root else None)
    if not match:
        near = call_search.near(root, path) if root else ""
        hint = f"there is one of `{call_search.shown(near)}`" if near else ""
        raise Failure(f"no compile of `{path}` is known", hint)
    call = call_search.since(root, match.call)
    record = object_record.find(call.product, cache) if cache and call.product else None
    name = call_search.shown(explanation.name_of(call))
    return Explanation(call.product, name, call, record, match.path, match.others)
