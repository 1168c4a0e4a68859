"""The outcome of one call and its cause, for `nvccache explain`: lines for people, or a document."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nvccache import outcomes
from nvccache.cli.output import GREEN, RED, YELLOW
from nvccache.cli.units import format_count, format_seconds, format_size, shown_path
from nvccache.explain import miss_reason
from nvccache.explain.object_record import ObjectRecord
from nvccache.plan.stages import shown_name, tool_of
from nvccache.store import events
from nvccache.store.event_line import FAILED, HIT, RAN, SHARED, Event, RemoteUse, StageEvent

Line = list[str | tuple[str, str]]

_UNCHANGED = "nothing it depends on has changed"
_FETCHED = "a remote has its result"
_FAULT = "nvccache had a fault; `NVCCACHE_LOG` has more"
_ELSEWHERE = "another process ran it meanwhile"
# Facts in the document: of a call that is in the event log, and of each stage.
_AMOUNTS = ("started", "seconds", "tool_saved")
_OF_STAGE = ("kind", "architecture", "result", "why", "seconds", "cpu", "where")
_COLOURS = {HIT: GREEN, SHARED: GREEN, RAN: YELLOW, FAILED: RED}
_CUDA = ".cu"
_CLOCK_DIFFERENCE = 2.0  # seconds that a file server's clock may be ahead
_PREFIX = "prefix:"  # in `where` of a stage that was run by a launcher command
# Not inside a quoted path, which may contain anything.
_BETWEEN_CLAUSES = re.compile(r"; (?=(?:[^`]*`[^`]*`)*[^`]*$)")
_MORE = re.compile(r"and (\d+) more$")


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
        # The record may be of another call: some leave none, and some are not counted.
        if self.record and self.is_logged and not _is_of(self.record, self.call):
            self.record = None
        self.cause, self.details = _cause(self.call, self.record)

    @property
    def stage_reasons(self) -> list[tuple[str, str]]:
        """The name of each stage that ran, and why, from the record."""
        others = (outcomes.DIRECT_HIT, *outcomes.QUERIES, outcomes.BYPASS, outcomes.FAULT)
        return self.record.stage_reasons if self.record and self.call.outcome not in others else []


def _is_of(record: ObjectRecord, call: Event) -> bool:
    return call.started <= record.ended <= call.ended


def sources_of(call: Event) -> list[str]:
    """The paths of a call's sources; `..` is kept, since it may follow a link."""
    return [os.path.join(call.directory, source) for source in call.sources]


def name_of(call: Event) -> str:
    """A name for a call: its product, its sources or its directory."""
    if call.product:
        return call.product
    return " ".join(map(shown_path, sources_of(call))) or call.directory


def lines(found: Explanation, is_verbose: bool = False) -> Iterator[Line]:
    """The answer, further differences, and the stages as a tree."""
    call = found.call
    is_named = call.product or call.sources or found.shown != call.directory
    subject = f"`{found.shown}`" if is_named else f"a call in `{found.shown}`"
    yield [f"{subject}: {call.outcome.replace('_', ' ')}, because {found.cause}"]
    for detail in found.details:
        yield [f"  also: {detail}"]
    if found.is_logged and (age := _rewritten_after(call)):
        yield [
            f"  the object was written again {age} later, by a call that was not counted or another program"
        ]
    if call.store_fault:
        fault = outcomes.STORE_FAULTS.get(call.store_fault, call.store_fault)
        yield [f"  not all results were stored: {fault}"]
    if call.remote:
        yield [f"  {_format_remote_use(call.remote)}"]
    if call.wrong_settings:
        names = [outcomes.WRONG_SETTINGS.get(name, f"`{name}`") for name in call.wrong_settings.split(",")]
        yield [f"  wrong setting: {'; '.join(names)}"]
    yield from _tree(found, is_verbose)


def _rewritten_after(call: Event) -> str:
    """The time from the end of a call until something else wrote its product; empty if nothing did."""
    try:
        seconds = os.stat(call.product).st_mtime - call.ended
    except OSError:
        return ""
    return format_seconds(seconds) if seconds > _CLOCK_DIFFERENCE else ""


def document(found: Explanation) -> dict[str, object]:
    call = found.call
    sources = dict(_sources_of_stages(call))
    return {
        "product": call.product,
        "outcome": call.outcome,
        "cause": found.cause,
        "details": found.details,
        "stage_reasons": [{"stage": stage, "why": why} for stage, why in found.stage_reasons],
        "wrong_settings": call.wrong_settings.split(",") if call.wrong_settings else [],
        "remote": events.remote_json(call.remote),
        **{name: getattr(call, name) if found.is_logged else None for name in _AMOUNTS},
        "store_fault": call.store_fault,
        "directory": call.directory,
        "sources": call.sources,
        "matched": found.matched,
        "others": list(found.others),
        "stages": [
            {
                **{name: getattr(stage, name) for name in _OF_STAGE},
                "source": sources.get(number, ""),
                "away": events.remote_costs_json(stage),
                "why_here": events.why_here(stage),
            }
            for number, stage in enumerate(call.stages)
        ],
    }


def _format_remote_use(use: RemoteUse) -> str:
    """`remotes: 3 objects found in 5 lookups, 12.0 KiB, in 0.05 s`."""
    if not use.asked:
        return "remotes: " + "; ".join([outcomes.REMOTE_FAULTS.get(word, word) for word in use.faults])
    answers = f"remotes: {format_count(use.found, 'object')} found in {format_count(use.asked, 'lookup')}"
    received = f", {format_size(use.bytes)}" if use.bytes else ""
    faults = "".join(f"; {outcomes.REMOTE_FAULTS.get(word, word)}" for word in use.faults)
    return f"{answers}{received}, in {format_seconds(use.seconds)}{faults}"


def _cause(call: Event, record: ObjectRecord | None) -> tuple[str, list[str]]:
    """Why, and further differences."""
    if call.outcome in (outcomes.DIRECT_HIT, outcomes.QUERY_HIT):
        return (_FETCHED if call.remote and call.remote.found else _UNCHANGED), []
    if call.outcome == outcomes.FAULT:
        return _FAULT, []
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


def _tree(found: Explanation, is_verbose: bool) -> Iterator[Line]:
    """One line for each stage; if the call has several sources, below its source."""
    stages = found.call.stages
    if not stages:
        for name, why in found.stage_reasons:
            yield [f"  {name}  ran  {_first(why, is_verbose)}"]
        return
    width = max(len(shown_name(stage.kind, stage.architecture)) for stage in stages)
    is_any_sent = any(events.remote_costs_json(stage) or events.why_here(stage) for stage in stages)
    sources = dict(_sources_of_stages(found.call))
    source = ""
    for number, stage in enumerate(stages):
        if sources.get(number, "") != source:
            source = sources.get(number, "")
            if source:
                yield [f"  {source}"]
        indent = "    " if source else "  "
        yield [
            f"{indent}{shown_name(stage.kind, stage.architecture):<{width}}  ",
            *_result(stage, is_verbose, is_any_sent),
        ]


def _result(stage: StageEvent, is_verbose: bool, says_here: bool) -> Line:
    """Result, CPU seconds, where it ran if `says_here` or it was sent, and why."""
    tail = f" {stage.cost:8.2f} s"
    if stage.result == HIT:
        tail += " saved"
    elif stage.result == SHARED:
        tail += f"  {_ELSEWHERE}"
    else:
        tail += _place(stage, is_verbose) or ("  here" if says_here else "")
        tail += f"  {_first(stage.why, is_verbose)}" if stage.why else ""
    return [(f"{stage.result:<6}", _COLOURS.get(stage.result, "")), tail]


def _place(stage: StageEvent, is_verbose: bool) -> str:
    """Where a stage that was sent ran and what that cost, or why it ran here after all."""
    word = events.why_here(stage)
    if word:
        return f"  here, though it was sent: {outcomes.EXECUTOR_FAULTS.get(word, word)}"
    costs = events.remote_costs_json(stage)
    if not costs:
        return ""
    size = (
        f", {format_size(int(costs['sent_bytes']))} sent, {format_size(int(costs['fetched_bytes']))} fetched"
    )
    bytes_too = size if is_verbose else ""
    if costs["is_cached"]:
        more = format_seconds(costs["send"] + costs["fetch"])
        return f"  from the action cache of {stage.where}, fetched in {more}{bytes_too}"
    more = format_seconds(costs["queue"] + costs["send"] + costs["fetch"])
    parts = ", ".join(f"{part} {costs[part]:.2f}" for part in ("queue", "send", "fetch"))
    command = stage.where.removeprefix(_PREFIX)
    on = f"via {command}" if command != stage.where else f"on {command}"
    return f"  {on}, {more} more ({parts}){bytes_too}"


def _first(why: str, is_verbose: bool) -> str:
    """The first of several differences, and the number of the others."""
    clauses = _BETWEEN_CLAUSES.split(why)
    if is_verbose or len(clauses) == 1:
        return why
    unnamed = _MORE.match(clauses[-1])
    more = len(clauses) - 1 + (int(unnamed[1]) - 1 if unnamed else 0)
    return f"{clauses[0]} (and {more} more: `-v`)"


def _sources_of_stages(call: Event) -> Iterator[tuple[int, str]]:
    """The number of each stage that belongs to one of several CUDA sources, and that source.

    A plan has one chain of stages for each of them, in their order. Stages of other sources and link stages
    belong to none, nor does any stage if it is unclear which chain belongs to which source.
    """
    firsts = [
        number
        for number, stage in enumerate(call.stages)
        if tool_of(stage.kind).is_preprocessor and not stage.architecture
    ]
    sources = call.sources
    if len(sources) != len(firsts) and call.outcome != outcomes.FAILED:
        sources = [source for source in sources if source.endswith(_CUDA)]
    if not firsts or len(call.sources) < 2 or len(sources) != len(firsts):
        return
    for first, end, source in zip(firsts, [*firsts[1:], len(call.stages)], sources, strict=True):
        for number in range(first, end):
            yield number, source
            if tool_of(call.stages[number].kind).is_host_compiler:
                break
