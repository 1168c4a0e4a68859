"""`nvccache explain [FILE]`: why the last build, or the last compile of FILE, ran what it ran.

FILE may be a product, a source, or the end of the path of either. An exact product comes before an exact
source, and both before a path that only ends with FILE; `a.o` also stands for CMake's `a.cu.o`. Of several
calls the newest is taken.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
from nvccache.config import Config
from nvccache.explain import miss_reason, object_record
from nvccache.explain.object_record import ObjectRecord
from nvccache.plan.stages import shown_name
from nvccache.store import events
from nvccache.store.event_line import FAILED, Event, StageEvent
from nvccache.store.store import Store

_MOST_OTHERS = 3


@click.command(epilog="Example: nvccache explain build/kernel.o")
@click.argument("path", metavar="[FILE]", required=False, type=click.Path())
@json_option
def explain(path: str | None, as_json: bool) -> None:
    """Say why the last build, or FILE, was not a hit.

    FILE is an object, a source, or the end of the path of one. The first line is the answer. Below it are
    further differences from the last compile of FILE that was no direct hit, and the stages that ran, with
    their CPU seconds; one without a cause has that of the line above. Without FILE, the causes of the last
    build are listed, the costliest first.
    """
    settings = our_settings.load()
    our_settings.warn_if_not_counted(settings)
    if path == "":  # most likely an unset variable, not a request for the last compile
        raise Failure("FILE is empty")
    if path is None:
        _explain_build(list(events.read(settings.dir)) if settings.dir else [], as_json)
        return
    found = _explanation(settings, path)
    if as_json:
        say_json(document(found))
        return
    for line in lines(found):
        say(*wrapped(builds.relative(line)))
    if found.others:
        more = len(found.others) - _MOST_OTHERS
        listed = ", ".join(f"`{relative_path(other)}`" for other in found.others[:_MOST_OTHERS])
        also = f"and also {listed}{f' and {more} more' if more > 0 else ''}"
        say(*wrapped(f"  `{path}` matches `{relative_path(found.matched)}`, the newest, {also}"))


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


def _explanation(settings: Config, typed: str) -> Explanation:
    """The compile to explain; raises Failure and StoreError."""
    root = settings.dir
    cache = Store(root, settings.readonly) if root else None
    call, matched, others = _find(root, typed) if root else (None, "", [])
    product = call.product if call else os.path.abspath(typed)
    record = object_record.find(product, cache) if cache and product else None
    if not call and not record and root:
        product, names = _similar(root, typed)
        if not product:
            hint = f"similar names are {', '.join(f'`{name}`' for name in names)}" if names else ""
            raise Failure(f"no compile of `{typed}` is recorded", hint)
        return _explanation(settings, product)
    is_exact = product == (matched or product)
    if record and is_exact and (not call or record.ended > call.ended):
        # The log has dropped the call, or has it under another object that it made.
        unlogged = Event(record.outcome)
        unlogged.product = product
        return Explanation(unlogged, record, relative_path(typed), product, is_logged=False)
    if not call:
        raise Failure(f"no compile of `{typed}` is recorded")
    # The record may be of another call: some leave none, and some are not counted.
    is_of_call = record is not None and call.started <= record.ended <= call.ended
    shown = relative_path(typed if is_exact and not others else name_of(call))
    return Explanation(call, record if is_of_call else None, shown, matched, others)


def _find(root: str, typed: str) -> tuple[Event | None, str, list[str]]:
    """The newest call with the best match, the path that matched, and others."""
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
    same = (
        each for each in events.newest(root, call.product) if call.product and each.product == call.product
    )
    return next(same, call), matched, others


def _similar(root: str, typed: str) -> tuple[str, list[str]]:
    """The newest product `a.cu.o` for `a.o`; else the most similar names in the log."""
    names: dict[str, None] = {}
    for call in filter(events.is_compile, events.newest(root)):
        stem, suffix = os.path.splitext(call.product)
        product = os.path.splitext(stem)[0] + suffix
        if product == os.path.abspath(typed) or product.endswith(os.sep + os.path.normpath(typed)):
            return call.product, []
        names |= dict.fromkeys(map(os.path.basename, filter(None, (call.product, *call.sources))))
    return "", difflib.get_close_matches(os.path.basename(typed), names, 3, 0.5)


# Not inside a quoted path, which may contain anything.
_BETWEEN_CLAUSES = re.compile(r"; (?=(?:[^`]*`[^`]*`)*[^`]*$)")


@dataclass
class Explanation:
    """All that is known of one compile."""

    call: Event
    record: ObjectRecord | None
    shown: str  # its display name
    matched: str = ""  # the path by which it was found; empty without FILE
    others: Sequence[str] = ()  # further matching paths
    is_logged: bool = True  # if not, `call` was made from its object record

    def __post_init__(self) -> None:
        self.cause, self.details = _cause(self.call, self.record)

    @property
    def stage_reasons(self) -> list[tuple[str, str]]:
        """The name of each stage that ran, and why, from the record."""
        others = (outcomes.DIRECT_HIT, *outcomes.QUERIES, outcomes.BYPASS, outcomes.FAULT)
        return self.record.stage_reasons if self.record and self.call.outcome not in others else []


def sources_of(call: Event) -> list[str]:
    """The paths of a call's sources; `..` is kept, since it may follow a link."""
    return [os.path.join(call.directory, source) for source in call.sources]


def name_of(call: Event) -> str:
    """A name for a call: its product, its sources or its directory."""
    return call.product or " ".join(map(relative_path, sources_of(call))) or call.directory


def _cause(call: Event, record: ObjectRecord | None) -> tuple[str, list[str]]:
    """Why, and further differences."""
    cause = builds.cause_of(call)
    if call.outcome in (outcomes.DIRECT_HIT, outcomes.QUERY_HIT, outcomes.FAULT, outcomes.BYPASS):
        return cause, []
    details = list(record.details) if record else []
    if call.outcome == outcomes.FAILED:
        difference = record.cause if record else call.cause
        return cause, [] if difference in ("", miss_reason.FIRST) else [difference, *details]
    cause = record.cause if record and record.cause else cause
    unrecorded = record.reason_against_record if record else ""
    if unrecorded and not any(unrecorded in clause for clause in (cause, *details)):
        details.append(f"no direct record is kept: {unrecorded}")
    return cause, details


def lines(found: Explanation) -> Iterator[str]:
    """The answer, further differences, and the stages that ran, each cause once."""
    call = found.call
    share = ""
    if call.outcome in (outcomes.STAGE_HIT, outcomes.PARTIAL_HIT):
        share = f", {builds.reused(builds.summarize([call]))}"
    yield f"`{found.shown}`: {call.outcome.replace('_', ' ')}{share}, because {found.cause}"
    for detail in found.details:
        yield f"  also: {detail}"
    if call.store_fault:
        fault = outcomes.STORE_FAULTS.get(call.store_fault, call.store_fault)
        yield f"  not all results were stored: {fault}"
    if use := call.remote:
        answers = f"{format_count(use.found, 'object')} found in {format_count(use.asked, 'lookup')}"
        answers += f", {format_size(use.bytes)}, in {format_seconds(use.seconds)}"
        faults = [outcomes.REMOTE_FAULTS.get(word, word) for word in use.faults]
        yield f"  remotes: {'; '.join([*[answers] * bool(use.asked), *faults])}"
    ran = [
        (shown_name(stage.kind, stage.architecture), _remark(stage), stage.why)
        for stage in call.stages
        if not stage.is_hit
    ]
    shown = {found.cause, *found.details}
    width = max((len(name) for name, _, _ in ran), default=0)
    for name, remark, why in ran or [(name, "", why) for name, why in found.stage_reasons]:
        first, *others = _BETWEEN_CLAUSES.split(why)
        cause = f"  {first}{' (and more: `--json`)' if others else ''}" if why and why not in shown else ""
        shown.add(why)
        yield f"  {name:<{width}}{remark}{cause}"


def _remark(stage: StageEvent) -> str:
    """CPU seconds, and where it ran if it was sent to another machine."""
    text = f" {stage.cost:8.2f} s" + ("  failed" if stage.result == FAILED else "")
    if word := events.why_here(stage):
        return f"{text}  here, though it was sent: {outcomes.EXECUTOR_FAULTS.get(word, word)}"
    if costs := events.remote_costs(stage):
        return f"{text}  {'from the action cache of' if costs.is_cached else 'on'} {stage.where}"
    return text


def document(found: Explanation) -> dict[str, object]:
    """The answer as `--json` prints it: the event, and more."""
    logged = to_json(found.call)
    if not found.is_logged:
        logged |= dict.fromkeys(("started", "seconds", "pid", "tool_saved", "overhead"))
    return {
        **logged,
        "cause": found.cause,
        "details": found.details,
        "stage_reasons": [{"stage": stage, "why": why} for stage, why in found.stage_reasons],
        "matched": found.matched,
        "others": list(found.others),
    }
