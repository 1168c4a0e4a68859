"""`nvccache explain [FILE]`: the outcome of the last compile of an object or a source, and its cause.

FILE may be a product, a source, or the end of the path of either; without it the newest compile is explained.
An exact product comes before an exact source, and both before a path that only ends with FILE. Of several
calls the newest is taken. `--diff` compares two builds.
"""

from __future__ import annotations

import difflib
import functools
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import click

from nvccache import outcomes
from nvccache.cli import explanation, stats_text, units
from nvccache.cli import settings as our_settings
from nvccache.cli.explanation import Explanation, sources_of
from nvccache.cli.output import Failure, WrongUsage, json_option, say, say_json, say_parts
from nvccache.cli.units import format_count, format_seconds, shown_path
from nvccache.config import Config
from nvccache.explain import object_record
from nvccache.explain.object_record import ObjectRecord
from nvccache.store import events
from nvccache.store.event_line import Event
from nvccache.store.store import Store

_MOST_OTHERS = 3
_ALIKE = 0.75
_MOST_NAMES = 5000  # compared with an unknown one
_HITS = (outcomes.DIRECT_HIT, outcomes.STAGE_HIT)
_MOST_PRODUCTS = 20  # listed as text
_NAMED = re.compile(rf"{units.LAST_BUILD}(?:~(\d{{1,9}}))?")


def _file(_: click.Context, param: click.Parameter, value: str | None) -> str:
    """Callback of FILE. An empty one is most likely an unset variable, not a request for the last compile."""
    if value == "":
        raise click.BadParameter("it is empty; leave it out to explain the last compile", param=param)
    return value or ""


@click.command(epilog="Example: nvccache explain build/kernel.o")
@click.argument("path", metavar="[FILE]", required=False, callback=_file, type=click.Path())
@click.option("--verbose", "-v", is_flag=True, help="Show all differences of each stage, not just the first.")
@click.option(
    "--diff",
    nargs=2,
    metavar="BUILD1 BUILD2",
    help="Compare two builds: what was a hit in one and ran in the other. A build is `last-build`,"
    " `last-build~1` for the one before, or an age or a date at which it was running.",
)
@json_option
def explain(path: str, verbose: bool, diff: tuple[str, str] | None, as_json: bool) -> None:
    """Say why the last compile of FILE was a hit or a miss.

    FILE is an object, a source, or the end of the path of one; without it, the most recent compile is
    explained. The first line is the answer. Below it are further differences from an earlier compile of FILE,
    with the same command line if there is one: from that whose object was there, or else from the one of the
    last seven that differs least. Then come the stages in nvcc's order: whether each was a hit or ran, the
    CPU seconds that it took or saved, and why it ran.
    """
    if diff and path:
        raise WrongUsage("`--diff` compares whole builds, and takes no FILE")
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
            f"  `{path}` matches `{shown_path(found.matched)}`, the newest,"
            f" and also {listed}{f' and {more} more' if more > 0 else ''}"
        )


def _found(settings: Config, path: str) -> Explanation:
    """The compile to explain; raises Failure and events.JournalError."""
    root = settings.journal_root
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


def _show_difference(root: str, names: tuple[str, str], as_json: bool) -> None:
    """Print how two builds differ; raises Failure."""
    builds = events.last_builds(events.read(root)) if root else []
    if not builds:
        raise Failure("no build is recorded")
    found = _difference([(name, _named(name, builds)) for name in names])
    if as_json:
        say_json(found)
    else:
        say(*_lines(found))


def _difference(builds: Sequence[tuple[str, list[Event]]]) -> dict[str, Any]:
    """How two builds differ, as docs/reference/json.md describes it."""
    first, second = (
        {call.product: call for call in sorted(calls, key=lambda call: call.ended) if call.product}
        for _, calls in builds
    )
    both = sorted(first.keys() & second.keys())

    def changes(kind: str) -> list[dict[str, Any]]:
        pairs = [(first[path], second[path]) for path in both]
        return [
            {
                "product": pair[0].product,
                "outcomes": [call.outcome for call in pair],
                "causes": [explanation.cause_of(call) for call in pair],
            }
            for pair in pairs
            if _change(*pair) == kind
        ]

    now_run, now_hit, failed = changes("now_run"), changes("now_hit"), changes("failed")
    return {
        "builds": [{"name": name, **stats_text.build(calls)} for name, calls in builds],
        "now_run": now_run,
        "now_hit": now_hit,
        "failed": failed,
        "same": len(both) - len(now_run) - len(now_hit) - len(failed),
        "only_first": sorted(first.keys() - second.keys()),
        "only_second": sorted(second.keys() - first.keys()),
    }


def _change(before: Event, after: Event) -> str:
    """A list of the document that a product belongs to, or `same`; a compile that failed did not run."""
    if outcomes.FAILED in (before.outcome, after.outcome):
        return "failed"
    was_hit, is_hit = before.outcome in _HITS, after.outcome in _HITS
    return "same" if was_hit == is_hit else "now_hit" if is_hit else "now_run"


def _named(name: str, builds: Sequence[list[Event]]) -> list[Event]:
    """The build for `last-build~1` or a time: for a time, the last one that had begun by then."""
    counted = _NAMED.fullmatch(name)
    if counted:
        back = int(counted[1] or 0)
        if back >= len(builds):
            known = f"`{units.LAST_BUILD}~{len(builds) - 1}`" if len(builds) > 1 else f"`{units.LAST_BUILD}`"
            raise Failure(f"no build `{name}` is recorded", f"the oldest one is {known}")
        return builds[-1 - back]
    context = click.get_current_context()
    option = next(param for param in context.command.params if param.name == "diff")
    moment = units.time_of(context, option, name)
    for build in reversed(builds):
        if build[0].started <= moment:
            return build
    begun = units.moment(builds[0][0].started)
    raise Failure(f"no build of `{name}` is recorded", f"the oldest one began on {begun}")


def _lines(found: dict[str, Any]) -> Iterator[str]:
    now_run, now_hit, failed = (len(found[name]) for name in ("now_run", "now_hit", "failed"))
    yield _headline(now_run, now_hit, found["same"], failed)
    yield ""
    first, second = names = [build["name"] for build in found["builds"]]
    for build in found["builds"]:
        spent = format_seconds(max(0.0, build["until"] - build["since"]))
        hits = (
            f" {units.hits_of(build['hits'], build['cacheable'], 'compile')}," if build["cacheable"] else ""
        )
        yield (
            f"{build['name']:<{max(map(len, names))}}  {units.moment(build['since'])}"
            f"  {format_count(build['calls'], 'call')} in {spent},{hits}"
            f" {stats_text.format_saved(build['wall_seconds_saved'])}"
        )
    yield from _listed(
        f"hits in {first} that ran in {second}", [_line(change, 1) for change in found["now_run"]]
    )
    yield from _listed(
        f"ran in {first}, hits in {second}", [_line(change, 0, "was ") for change in found["now_hit"]]
    )
    yield from _listed("failed", [_failure(change, names) for change in found["failed"]])
    yield from _listed(f"only made in {first}", list(map(shown_path, found["only_first"])))
    yield from _listed(f"only made in {second}", list(map(shown_path, found["only_second"])))


def _headline(now_run: int, now_hit: int, same: int, failed: int) -> str:
    others = f"; {format_count(failed, 'product')} failed in one build or both" if failed else ""
    if not now_run and not now_hit:
        if failed and not same:
            return others.removeprefix("; ")
        return (
            "no difference: each product was a hit in both builds or ran in both"
            f" ({format_count(same, 'product')}){others}"
        )
    return (
        f"{format_count(now_run, 'product')} that {'was a hit' if now_run == 1 else 'were hits'} now ran, "
        f"{now_hit} that ran {'is now a hit' if now_hit == 1 else 'are now hits'}, {same} as before{others}"
    )


def _failure(change: dict[str, Any], names: Sequence[str]) -> str:
    """`a.o: miss in last-build~1, failed in last-build`."""
    ends = zip(change["outcomes"], names, strict=True)
    each = [f"{outcome.replace('_', ' ')} in {name}" for outcome, name in ends]
    return f"{shown_path(change['product'])}: {', '.join(each)}"


def _line(change: dict[str, Any], build: int, before: str = "") -> str:
    outcome = change["outcomes"][build].replace("_", " ")
    return f"{shown_path(change['product'])}: {before}{outcome}, because {change['causes'][build]}"


def _listed(title: str, lines: Sequence[str]) -> Iterator[str]:
    if not lines:
        return
    yield ""
    yield f"{title}: {len(lines)}"
    yield from (f"  {line}" for line in lines[:_MOST_PRODUCTS])
    if len(lines) > _MOST_PRODUCTS:
        yield f"  and {len(lines) - _MOST_PRODUCTS} more; --json has all of them"
