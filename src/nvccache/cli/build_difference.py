"""`nvccache explain --diff`: what was a hit in one build and ran in another, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import click

from nvccache import outcomes
from nvccache.cli import explanation, stats_text, units
from nvccache.cli.output import Failure, say, say_json
from nvccache.cli.units import count_words, seconds_words, shown_path
from nvccache.store import events
from nvccache.store.event_line import Event

_HITS = (outcomes.DIRECT_HIT, outcomes.STAGE_HIT)
_MOST_PRODUCTS = 20  # that are listed for people
_NAMED = re.compile(rf"{units.LAST_BUILD}(?:~(\d{{1,9}}))?")


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


def show(root: str, names: tuple[str, str], as_json: bool) -> None:
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
