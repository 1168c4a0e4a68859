"""`nvccache explain [FILE]`: why the last build, or the last compile of FILE, was not a direct hit.

FILE is the path of a product or source, or the end of that path. A product with exactly this path is
preferred to a source, and both are preferred to paths that only end with FILE. `a.o` also matches CMake's
`a.cu.o`. Of the calls that match best, the newest is explained.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator

import click

from nvccache import outcomes
from nvccache.cli import builds
from nvccache.cli import settings as our_settings
from nvccache.cli.events import to_json
from nvccache.cli.output import (
    Failure,
    format_count,
    format_seconds,
    format_size,
    json_option,
    relative_path,
    say,
    say_json,
    wrapped,
)
from nvccache.explain import miss_reason
from nvccache.plan.stages import shown_name
from nvccache.store import events
from nvccache.store.event_line import FAILED, Event, StageEvent

_MOST_OTHERS = 3


@click.command(epilog="Example: nvccache explain build/kernel.o")
@click.argument("path", metavar="[FILE]", required=False, type=click.Path())
@json_option
def explain(path: str | None, as_json: bool) -> None:
    """Say why the last build, or FILE, was not a hit.

    FILE is the path of an object or source, or the end of that path. The first line is the answer. The next
    lines show what else differs from an earlier compile of FILE, the last one that was not a direct hit, and
    then the stages that ran, with their CPU seconds. Without FILE, it lists the causes of the last build's
    misses, the costliest first.
    """
    settings = our_settings.load()
    our_settings.warn_if_not_counted(settings)
    if path == "":  # most likely from a shell variable that is not set
        raise Failure("FILE is empty")
    if path is None:
        _explain_build(list(events.read(settings.dir)) if settings.dir else [], as_json)
        return
    call, matched, others = _find(settings.dir, path) if settings.dir else (None, "", [])
    if call is None:
        names = _similar(settings.dir, path) if settings.dir else []
        hint = f"similar names are {', '.join(f'`{name}`' for name in names)}" if names else ""
        raise Failure(f"no compile of `{path}` is recorded", hint)
    if as_json:
        cause, details = causes_of(call)
        say_json({**to_json(call), "cause": cause, "details": details, "matched": matched, "others": others})
        return
    is_as_typed = call.product == matched and os.path.basename(path) == os.path.basename(matched)
    for line in lines(call, relative_path(path if is_as_typed and not others else name_of(call))):
        say(*wrapped(builds.relative(line)))
    if others:
        more = len(others) - _MOST_OTHERS
        listed = ", ".join(f"`{relative_path(other)}`" for other in others[:_MOST_OTHERS])
        also = f"{listed}{f' and {more} more' if more > 0 else ''}"
        say(*wrapped(f"  `{path}` also matches {also}; `{relative_path(matched)}` is the newest"))


def _explain_build(calls: list[Event], as_json: bool) -> None:
    build = events.last_build(calls)
    if not build:
        raise Failure("no compile is recorded")
    if as_json:
        say_json({**builds.summarize(build), "causes": builds.causes(build)})
        return
    headline = builds.headline(build, is_with_cause=False)
    for line in (f"last build: {headline}", *(f"  {line}" for line in builds.cause_lines(build))):
        say(*wrapped(line))


def _find(root: str, typed: str) -> tuple[Event | None, str, list[str]]:
    """The newest call with the best match, the path that matched, and further paths that match as well."""
    folder, name = os.path.split(os.path.abspath(typed))
    exact = {os.path.join(folder, name), os.path.join(os.path.realpath(folder), name)}
    end = os.sep + os.path.normpath(typed)
    matches: dict[tuple[bool, bool, int], dict[str, Event]] = {}  # best first
    for call in events.newest(root, os.path.splitext(name)[0]):
        is_query = call.outcome in outcomes.QUERIES
        if call.reason == "information" or (is_query and not call.sources):
            continue  # such as `nvcc --version`, which concerns no file
        stem, suffix = os.path.splitext(call.product)
        short = os.path.splitext(stem)[0] + suffix  # `a.o` for CMake's `a.cu.o`
        names = [(0, call.product), *((1, source) for source in sources_of(call)), (2, short)]
        for kind, path in ((kind, os.path.normpath(path)) for kind, path in names):
            if path in exact or path.endswith(end):
                matched = call.product if path == short else path
                matches.setdefault((is_query, path not in exact, kind), {}).setdefault(matched, call)
    if not matches:
        return None, "", []
    best = matches[min(matches)]
    matched, *others = best
    call = best[matched]
    # A later call for this product may not match FILE, because the sources of a bypass are unknown.
    same = (
        each for each in events.newest(root, call.product) if call.product and each.product == call.product
    )
    return next(same, call), matched, others


def _similar(root: str, typed: str) -> list[str]:
    """The base names in the event log that are most similar to the typed one."""
    names: dict[str, None] = {}
    for call in filter(events.is_compile, events.newest(root)):
        names |= dict.fromkeys(map(os.path.basename, filter(None, (call.product, *call.sources))))
    return difflib.get_close_matches(os.path.basename(typed), names, 3, 0.5)


def sources_of(call: Event) -> list[str]:
    """The paths of a call's sources; `..` is not resolved, since it may follow a symbolic link."""
    return [os.path.join(call.directory, source) for source in call.sources]


def name_of(call: Event) -> str:
    """How messages name a call: by its product, else its sources, else its directory."""
    return call.product or " ".join(map(relative_path, sources_of(call))) or call.directory


def causes_of(call: Event) -> tuple[str, list[str]]:
    """Why a call had its outcome, and how else it differs from the compile before."""
    cause, details = builds.cause_of(call), list(call.details)
    if call.outcome == outcomes.FAILED and call.cause not in ("", miss_reason.FIRST):
        details.insert(0, call.cause)
    return cause, details


def lines(call: Event, name: str) -> Iterator[str]:
    """The output: the outcome with its cause, further differences, and the stages that ran."""
    cause, details = causes_of(call)
    share = ""
    if call.outcome in (outcomes.STAGE_HIT, outcomes.PARTIAL_HIT):
        share = f", {builds.reused(builds.summarize([call]))}"
    yield f"`{name}`: {call.outcome.replace('_', ' ')}{share}, because {cause}"
    for detail in details:
        yield f"  also: {detail}"
    if call.store_fault:
        fault = outcomes.STORE_FAULTS.get(call.store_fault, call.store_fault)
        yield f"  not all results were stored: {fault}"
    if use := call.remote:
        answers = f"{format_count(use.found, 'object')} found in {format_count(use.asked, 'lookup')}"
        answers += f", {format_size(use.bytes)}, in {format_seconds(use.seconds)}"
        faults = [outcomes.REMOTE_FAULTS.get(word, word) for word in use.faults]
        yield f"  remotes: {'; '.join([*[answers] * bool(use.asked), *faults])}"
    ran = [stage for stage in call.stages if not stage.is_hit]
    names = [shown_name(stage.kind, stage.architecture) for stage in ran]
    width = max(map(len, names), default=0)
    for stage, stage_name in zip(ran, names, strict=True):
        yield f"  {stage_name:<{width}}{_remark(stage)}"


def _remark(stage: StageEvent) -> str:
    """The CPU seconds of a stage, and where it ran if it was sent to another machine."""
    text = f" {stage.cost:8.2f} s" + ("  failed" if stage.result == FAILED else "")
    if word := events.why_here(stage):
        return f"{text}  sent to another machine, but ran here: {outcomes.EXECUTOR_FAULTS.get(word, word)}"
    if events.ran_elsewhere(stage):
        return f"{text}  {'from the action cache of' if events.was_cached(stage) else 'on'} {stage.where}"
    return text
