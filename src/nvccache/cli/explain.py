"""`nvccache explain [OBJECT]`: what became of the last compile of an object, and why."""

from __future__ import annotations

import os

import click

from nvccache import outcomes
from nvccache.cli import settings as our_settings
from nvccache.cli.output import say, warn
from nvccache.compile import miss_reason, object_record
from nvccache.compile.object_record import ObjectRecord
from nvccache.store import events
from nvccache.store.event_line import Event
from nvccache.store.store import Store

_UNCHANGED = "nothing it depends on has changed"
_LINKED = "nothing has changed that its device code depends on, and the host's link always runs"


@click.command()
@click.argument("product", metavar="[OBJECT]", required=False, default="")
def explain(product: str) -> None:
    """Say what became of the last compile of OBJECT, and why.

    Without OBJECT it is the last compile of all. The first line is the answer; below it stand further
    differences from the compile before, why each stage ran that did, and what each cost or saved.
    """
    settings = our_settings.load()
    path = os.path.abspath(product) if product else ""
    call = events.last_call(settings.journal_root, path) if settings.journal_root else None
    record = None
    if settings.dir:
        cache = Store(settings.dir, settings.readonly)
        record = object_record.find(path or (call.product if call else ""), cache)
    if not settings.counts_calls:
        warn(our_settings.why_not_counted(settings))
    if call is None and record is None:
        raise click.ClickException(
            f"no compile of `{product}` is known" if product else "no compile is known"
        )
    shown = product or (call.product if call else "")
    say(*_lines(shown, call, record))


def _lines(shown: str, call: Event | None, record: ObjectRecord | None) -> list[str]:
    outcome = call.outcome if call else record.outcome if record else ""
    details: list[str] = []
    reasons: list[tuple[str, str]] = []
    if outcome == outcomes.DIRECT_HIT:
        cause = _UNCHANGED
    elif call and call.reason == outcomes.LINKED:
        cause = _LINKED
    elif outcome == outcomes.BYPASS and call:
        cause = outcomes.REASONS.get(call.reason, call.reason)
    elif outcome == outcomes.FAILED:
        cause = "nvcc reports an error"
        details = [record.cause, *record.details] if record and record.cause != miss_reason.FIRST else []
        reasons = record.stage_reasons if record else []
    elif outcome == outcomes.FAULT:
        cause = "nvccache had a fault, which NVCCACHE_LOG tells more of"
    else:
        cause = record.cause if record else "its record is no longer in the cache"
        details = list(record.details) if record else []
        reasons = record.stage_reasons if record else []
        if record and record.reason_against_record and record.reason_against_record not in cause:
            details.append(f"no direct record is kept: {record.reason_against_record}")
    lines = [f"`{shown}`: {outcome.replace('_', ' ')}, because {cause}"]
    lines += [f"  also: {line}" for line in details]
    lines += [f"  {stage} ran: {clause}" for stage, clause in reasons]
    if call and call.store_fault:
        fault = outcomes.STORE_FAULTS.get(call.store_fault, call.store_fault)
        lines.append(f"  the cache could not be used as it should: {fault}")
    if call and call.wrong_settings:
        lines.append(f"  with a setting that is wrong: {call.wrong_settings}")
    for stage in call.stages if call else []:
        lines.append(f"  {stage.kind}: {'saved' if stage.is_hit else 'ran'} {stage.seconds:.3f} s")
    return lines
