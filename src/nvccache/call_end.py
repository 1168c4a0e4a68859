"""The end of a call: writes its output, and its event to the event log. `began` is by the monotonic clock.

Part of the hot path. Does not know how the result was obtained.
"""

from __future__ import annotations

import os
import time

from nvccache import outcomes
from nvccache.config import Config
from nvccache.machine import builds
from nvccache.store import directory, event_line
from nvccache.store.event_line import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.records.products import Answer
    from nvccache.run.report import Report
    from nvccache.store.event_line import RemoteUse


def finish_hit(found: Answer, config: Config, began: float, remote: RemoteUse | None = None) -> None:
    """Report a direct hit and exit; returns only if the output of a query could not be written."""
    result = found.result
    is_answered = found.is_of_query and _write_query(result.stdout, result.stderr)
    event = Event(outcomes.DIRECT_HIT)
    if is_answered:
        event = Event(outcomes.QUERY_HIT)
    elif found.is_of_query:
        record(config, Event(outcomes.BYPASS, "query_streams"), began)
        return
    event.remote = remote
    event.tool_saved = result.seconds
    event.sources, event.replayed = found.sources, result.stages
    named = found.products[0][0] if found.products else ""
    event.product = os.path.abspath(named) if named else ""
    note(config, f"{event.outcome.replace('_', ' ')} {event.product}")
    record(config, event, began)
    if not is_answered:
        write(1, result.stdout)
        write(2, result.stderr)
    os._exit(0)


def write_output(report: Report) -> bool:
    """Write the output of a call; False if nvcc has to write it."""
    if report.is_query:
        return _write_query(report.stdout, report.stderr)
    write(1, report.stdout)
    write(2, report.stderr)
    return True


def _write_query(stdout: bytes, stderr: bytes) -> bool:
    """Write the output of a query; False if that failed: nvcc then writes it and reports the error."""
    from nvccache.machine import streams

    before = streams.size_and_position() if stdout else None
    if not write(1, stdout):
        streams.restore_output(before)
        return False
    write(2, stderr)
    return True


def write(descriptor: int, content: bytes) -> bool:
    """Write everything; False if that failed."""
    while content:
        try:
            content = content[os.write(descriptor, content) :]
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            return False  # the reader has exited; when it compiles, nvcc ignores that, too
    return True


def event_of(report: Report, sources: list[str], arguments: list[str], began: float) -> Event:
    """The event of a call that was no direct hit."""
    event = Event(outcomes.BYPASS, report.leave_to_nvcc)
    event.sources = sources
    event.product = os.path.abspath(report.product) if report.product else _product_named_in(arguments)
    event.store_fault, event.remote = report.store_fault, report.remote
    if report.leave_to_nvcc:
        return event
    event.outcome = report.outcome
    event.stages, event.cause = report.stages, report.cause
    for stage in event.stages:
        stage.start = max(0.0, stage.start - began)
    event.tool_saved = report.tool_saved
    return event


def record_bypass(config: Config, reason: str, arguments: list[str], began: float) -> None:
    event = Event(outcomes.BYPASS, reason)
    event.product = _product_named_in(arguments)
    if config.counts_calls:
        from nvccache.commandline import redaction

        event.sources = redaction.files_in(arguments)
    record(config, event, began)


def _product_named_in(arguments: list[str]) -> str:
    """The value of -o, for `nvccache explain`; a guess, since the arguments were not parsed."""
    for index, argument in enumerate(arguments[:-1]):
        if argument in ("-o", "--output-file"):
            return os.path.abspath(arguments[index + 1])
    return ""


def record(config: Config, event: Event, began: float) -> None:
    """Append the event of a call to the event log."""
    if config.problems and config.log:
        from nvccache import log

        log.write(config.log, *[f"wrong setting: {text}" for text in log.sentences(config)])
    if config.counts_calls:
        event.wrong_settings = config.wrong_settings
        event.seconds = time.monotonic() - began
        root = directory.Directory(config.dir)
        event.build = builds.build_of_call()
        event.started = time.time() - event.seconds
        event.directory = _working_directory()
        if event_line.append(root, event):
            from nvccache.store import event_totals

            event_totals.fold(root)


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


def note_bypass(config: Config, reason: str, detail: str) -> None:
    if config.log:
        from nvccache.commandline import redaction

        note(config, f"bypass {reason} {redaction.hide_detail(detail)}")


def note(config: Config, message: str) -> None:
    if config.log:
        from nvccache import log

        log.write(config.log, message)
