"""`nvccache explain [FILE]`: the outcome of the last compile of an object or a source, and its cause.

FILE may be a product, a source, or the end of the path of either; without it the newest compile is explained.
An exact product comes before an exact source, and both before a path that only ends with FILE. Of several
calls the newest is taken.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from nvccache import outcomes
from nvccache.cli import settings as our_settings
from nvccache.cli.output import (
    GREEN,
    RED,
    YELLOW,
    Failure,
    Part,
    format_count,
    format_seconds,
    format_size,
    json_option,
    relative_path,
    say,
    say_json,
    say_parts,
)
from nvccache.config import Config
from nvccache.explain import miss_reason, object_record
from nvccache.explain.object_record import ObjectRecord
from nvccache.plan.stages import shown_name
from nvccache.store import events
from nvccache.store.event_line import FAILED, HIT, RAN, SHARED, Event, StageEvent
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
        say_json(document(found))
        return
    for line in lines(found):
        say_parts(*line)
    if found.others:
        more = len(found.others) - _MOST_OTHERS
        listed = ", ".join(f"`{relative_path(other)}`" for other in found.others[:_MOST_OTHERS])
        say(
            f"  `{path}` matches `{relative_path(found.matched)}`, the newest,"
            f" and also {listed}{f' and {more} more' if more > 0 else ''}"
        )


def _explanation(settings: Config, typed: str | None) -> Explanation:
    """The compile to explain; raises Failure and StoreError."""
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
    shown = typed if typed and is_exact and not others else relative_path(name_of(call))
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


# Facts in the document: of a call that is in the event log, and of each stage.
_FACTS = ("product", "outcome", "store_fault", "directory", "sources")
_AMOUNTS = ("started", "seconds", "tool_saved")
_STAGE_FACTS = ("kind", "architecture", "result", "why", "seconds", "cpu", "where")
_COLOURS = {HIT: GREEN, SHARED: GREEN, RAN: YELLOW, FAILED: RED}
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
    if call.outcome in (outcomes.DIRECT_HIT, outcomes.QUERY_HIT):
        is_received = call.remote and call.remote.found
        return "a remote has its result" if is_received else "nothing it depends on has changed", []
    if call.outcome == outcomes.FAULT:
        return "nvccache had a fault; `NVCCACHE_LOG` has more", []
    if call.outcome == outcomes.BYPASS:
        return outcomes.REASONS.get(call.reason, call.reason), []
    cause = record.cause if record else call.cause
    details = list(record.details) if record else []
    if call.outcome == outcomes.FAILED:
        is_first = cause in ("", miss_reason.FIRST)
        return "nvcc reports an error", [] if is_first else [cause, *details]
    unrecorded = record.reason_against_record if record else ""
    if unrecorded and not any(unrecorded in clause for clause in (cause, *details)):
        details.append(f"no direct record is kept: {unrecorded}")
    return cause or "no record of it is left in the cache", details


def lines(found: Explanation) -> Iterator[list[Part]]:
    """The answer, further differences, and the stages as a tree."""
    call = found.call
    is_named = call.product or call.sources or found.shown != call.directory
    subject = f"`{found.shown}`" if is_named else f"a call in `{found.shown}`"
    yield [f"{subject}: {call.outcome.replace('_', ' ')}, because {found.cause}"]
    for detail in found.details:
        yield [f"  also: {detail}"]
    if call.store_fault:
        fault = outcomes.STORE_FAULTS.get(call.store_fault, call.store_fault)
        yield [f"  not all results were stored: {fault}"]
    if use := call.remote:
        answers = f"{format_count(use.found, 'object')} found in {format_count(use.asked, 'lookup')}"
        answers += f", {format_size(use.bytes)}, in {format_seconds(use.seconds)}"
        faults = [outcomes.REMOTE_FAULTS.get(word, word) for word in use.faults]
        yield [f"  remotes: {'; '.join([*[answers] * bool(use.asked), *faults])}"]
    if not call.stages:
        for name, why in found.stage_reasons:
            yield [f"  {name}  ran  {_first(why)}"]
        return
    width = max(len(shown_name(stage.kind, stage.architecture)) for stage in call.stages)
    for stage in call.stages:
        name = f"  {shown_name(stage.kind, stage.architecture):<{width}}  "
        yield [name, (f"{stage.result:<6}", _COLOURS.get(stage.result, "")), _remark(stage)]


def _remark(stage: StageEvent) -> str:
    """CPU seconds, where it ran if it was sent to another machine, and why."""
    text = f" {stage.cost:8.2f} s"
    if stage.result == HIT:
        return f"{text} saved"
    if stage.result == SHARED:
        return f"{text}  another process ran it meanwhile"
    if word := events.why_here(stage):
        text += f"  here, though it was sent: {outcomes.EXECUTOR_FAULTS.get(word, word)}"
    elif costs := events.remote_costs(stage):
        text += f"  {'from the action cache of' if costs.is_cached else 'on'} {stage.where}"
    return text + (f"  {_first(stage.why)}" if stage.why else "")


def _first(why: str) -> str:
    """The first of several differences."""
    first, *others = _BETWEEN_CLAUSES.split(why)
    return f"{first} (and more: see `--json`)" if others else first


def document(found: Explanation) -> dict[str, object]:
    """The answer as `--json` prints it."""
    call = found.call
    return {
        **{name: getattr(call, name) for name in _FACTS},
        "cause": found.cause,
        "details": found.details,
        "stage_reasons": [{"stage": stage, "why": why} for stage, why in found.stage_reasons],
        "wrong_settings": call.wrong_settings.split(",") if call.wrong_settings else [],
        "remote": events.remote_json(call.remote),
        **{name: getattr(call, name) if found.is_logged else None for name in _AMOUNTS},
        "matched": found.matched,
        "others": list(found.others),
        "stages": [
            {
                **{name: getattr(stage, name) for name in _STAGE_FACTS},
                "away": events.remote_costs_json(stage),
                "why_here": events.why_here(stage),
            }
            for stage in call.stages
        ],
    }
