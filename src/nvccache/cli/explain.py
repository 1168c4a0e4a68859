"""`nvccache explain [FILE]`: what became of the last compile of an object or a source, and why.

FILE may be a product, a source, or the end of the path of either; without it the newest compile is meant. The
exact product goes before the exact source, and both before a path that only ends so. Of several calls the
newest is taken. `--diff` tells what was a hit in one build and ran in another.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import click

from nvccache import outcomes
from nvccache.cli import explanation, stats_text, units
from nvccache.cli import settings as our_settings
from nvccache.cli.explanation import Explanation, sources_of
from nvccache.cli.output import Failure, WrongUsage, json_option, say, say_json, say_parts
from nvccache.cli.units import count_words, seconds_words, shown_path
from nvccache.config import Config
from nvccache.explain import object_record
from nvccache.store import events
from nvccache.store.event_line import Event
from nvccache.store.store import Store

_MOST_OTHERS = 3
_ALIKE = 0.75
_MOST_NAMES = 5000  # that are compared with one that is not known
_HITS = (outcomes.DIRECT_HIT, outcomes.STAGE_HIT)
_MOST_PRODUCTS = 20  # that are listed for people
_NAMED = re.compile(rf"{units.LAST_BUILD}(?:~(\d{{1,9}}))?")


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
        _show_difference(settings.journal_root, diff, as_json)
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


class Build:
    """The calls of one build, and the last of them for each product; `name` is how it was asked for."""

    def __init__(self, name: str, calls: Sequence[Event]) -> None:
        self.name = name
        self.calls = calls
        ended = sorted(calls, key=lambda call: call.started + call.seconds)
        self.last = {call.product: call for call in ended if call.product}


class Difference:
    """What two builds differ in; of what both made, by its outcome."""

    def __init__(self, first: Build, second: Build) -> None:
        self.first, self.second = first, second
        both = sorted(first.last.keys() & second.last.keys())
        self.now_run = [path for path in both if _is_hit(first, path) and not _is_hit(second, path)]
        self.now_hit = [path for path in both if _is_hit(second, path) and not _is_hit(first, path)]
        self.same = len(both) - len(self.now_run) - len(self.now_hit)
        self.only_first = sorted(first.last.keys() - second.last.keys())
        self.only_second = sorted(second.last.keys() - first.last.keys())


def _show_difference(root: str, names: tuple[str, str], as_json: bool) -> None:
    """Print what two builds differ in; raises Failure."""
    builds = events.builds(events.read(root)) if root else []
    if not builds:
        raise Failure("no build is known")
    first, second = (_named(name, builds) for name in names)
    found = Difference(first, second)
    if as_json:
        say_json(_document(found))
    else:
        say(*_lines(found))


def _is_hit(build: Build, product: str) -> bool:
    return build.last[product].outcome in _HITS


def _named(name: str, builds: Sequence[list[Event]]) -> Build:
    """`last-build~1`, or the build that was under way then or, if none was, the last one before."""
    counted = _NAMED.fullmatch(name)
    if counted:
        back = int(counted[1] or 0)
        if back >= len(builds):
            known = f"`{units.LAST_BUILD}~{len(builds) - 1}`" if len(builds) > 1 else f"`{units.LAST_BUILD}`"
            raise Failure(f"no build `{name}` is known", f"the oldest one is {known}")
        return Build(name, builds[-1 - back])
    context = click.get_current_context()
    option = next(param for param in context.command.params if param.name == "diff")
    moment = units.since_option(context, option, name)
    assert isinstance(moment, float)
    for build in reversed(builds):
        if build[0].started <= moment:
            return Build(name, build)
    begun = units.moment(builds[0][0].started)
    raise Failure(f"no build of `{name}` is known", f"the oldest one began on {begun}")


def _lines(found: Difference) -> Iterator[str]:
    first, second = found.first, found.second
    yield _headline(found)
    yield ""
    width = max(len(first.name), len(second.name))
    for build in (first, second):
        yield f"{build.name:<{width}}  {_totals(build)}"
    yield from _listed(f"hits in {first.name} that ran in {second.name}", found.now_run, second)
    yield from _listed(f"ran in {first.name}, hits in {second.name}", found.now_hit, first, "was ")
    for build, paths in ((first, found.only_first), (second, found.only_second)):
        if paths:
            yield ""
            yield f"made in {build.name} alone: {len(paths)}"
            yield from (f"  {shown_path(path)}" for path in paths[:_MOST_PRODUCTS])
            yield from _more(paths)


def _headline(found: Difference) -> str:
    if not found.now_run and not found.now_hit:
        return f"every product that both builds made was a hit in both or ran in both: {found.same}"
    ran = count_words(len(found.now_run), "product")
    return (
        f"{ran} that {'was a hit' if len(found.now_run) == 1 else 'were hits'} ran, "
        f"{len(found.now_hit)} that ran {'is a hit' if len(found.now_hit) == 1 else 'are hits'}, "
        f"{found.same} as before"
    )


def _totals(build: Build) -> str:
    totals = stats_text.build(build.calls)
    spent = seconds_words(max(0.0, totals["until"] - totals["since"]))
    return (
        f"{units.moment(totals['since'])}  {count_words(totals['calls'], 'call')} in {spent},"
        f" {totals['hits']} of {totals['cacheable']} hits,"
        f" wall time {stats_text.saved_words(totals['wall_seconds_saved'])}"
    )


def _listed(title: str, paths: Sequence[str], build: Build, before: str = "") -> Iterator[str]:
    if not paths:
        return
    yield ""
    yield f"{title}: {len(paths)}"
    for path in paths[:_MOST_PRODUCTS]:
        call = build.last[path]
        outcome = call.outcome.replace("_", " ")
        yield f"  {shown_path(path)}: {before}{outcome}, because {explanation.cause_of(call)}"
    yield from _more(paths)


def _more(paths: Sequence[str]) -> Iterator[str]:
    if len(paths) > _MOST_PRODUCTS:
        yield f"  and {len(paths) - _MOST_PRODUCTS} more; --json has all of them"


def _document(found: Difference) -> dict[str, object]:
    return {
        "builds": [
            {"name": build.name, **stats_text.build(build.calls)} for build in (found.first, found.second)
        ],
        "now_run": [_change(path, found) for path in found.now_run],
        "now_hit": [_change(path, found) for path in found.now_hit],
        "same": found.same,
        "only_first": found.only_first,
        "only_second": found.only_second,
    }


def _change(product: str, found: Difference) -> dict[str, object]:
    """What became of a product in each build, and why; of a direct hit there is nothing to tell."""
    pair = (found.first.last[product], found.second.last[product])
    return {
        "product": product,
        "outcomes": [call.outcome for call in pair],
        "causes": [explanation.cause_of(call) for call in pair],
    }
