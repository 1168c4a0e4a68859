"""Ends a call: writes the call's output, and appends its event to the event log.

Part of the hot path. Does not know how the result was obtained. `began` is a time of the monotonic clock.
"""

from __future__ import annotations

import os
import time

from nvccache import outcomes
from nvccache.config import Config
from nvccache.store import directory, event_line
from nvccache.store.event_line import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.records.products import Answer
    from nvccache.run.report import Report
    from nvccache.store.event_line import RemoteUse


_INPUTS = tuple(".cu .c .cc .cpp .cxx .ptx .cubin .fatbin .o .obj .a .so .ltoir".split())
# What follows one of these options is not an input, and may be a secret.
_NOT_BEFORE_INPUTS = ("-o", "--output-file", "-D", "--define-macro")


def exit_with_hit(answer: Answer, config: Config, began: float, remote: RemoteUse | None = None) -> None:
    """Report a direct hit and exit. Returns only if a query's output cannot be written."""
    result = answer.result
    if answer.is_of_query and not write_output(result.stdout, result.stderr, is_query=True):
        record(config, Event(outcomes.BYPASS, "query_streams"), began)
        return
    event = answer.event()
    event.remote = remote
    note(config, f"{event.outcome.replace('_', ' ')} {event.product}")
    record(config, event, began)
    if not answer.is_of_query:
        write_output(result.stdout, result.stderr, is_query=False)
    os._exit(0)


def write_output(stdout: bytes, stderr: bytes, is_query: bool) -> bool:
    """Write a call's output. False if a query's output cannot be written: nvcc must then run, and say why."""
    if is_query and stdout:
        from nvccache.machine import streams

        before = streams.size_and_position()
        if not write(1, stdout):
            streams.restore_output(before)
            return False
    else:
        write(1, stdout)
    write(2, stderr)
    return True


def write(descriptor: int, content: bytes) -> bool:
    """Write all of `content`; returns False if that fails."""
    while content:
        try:
            content = content[os.write(descriptor, content) :]
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            return False  # most likely the reader has exited, which nvcc ignores, too, when it compiles
    return True


def event_of(report: Report, sources: list[str], arguments: list[str], began: float) -> Event:
    """The event of a call that was not a direct hit."""
    event = Event(outcomes.BYPASS, report.leave_to_nvcc)
    event.sources = sources
    event.product = os.path.abspath(report.product) if report.product else _product_named_in(arguments)
    event.store_fault, event.remote = report.store_fault, report.remote
    if report.leave_to_nvcc:
        return event
    event.outcome = report.outcome
    event.stages, event.cause = report.stages, next(iter(report.causes), "")
    event.details = report.causes[1:]
    for stage in event.stages:
        stage.start = max(0.0, stage.start - began)
    event.tool_saved = report.tool_saved
    if event.stages:  # without stages, nvcc answered a query
        import resource  # imported here, as direct hits do not need it; os.times counts in steps of 10 ms

        usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        used = sum(usage.ru_utime + usage.ru_stime for usage in usages)  # including the dry run
        tools = sum(stage.cpu for stage in event.stages if stage.where == event_line.LOCAL)
        event.overhead = max(0.0, used - tools)
    return event


def record_bypass(config: Config, reason: str, detail: str, arguments: list[str], began: float) -> None:
    """Record a call that was left to nvcc before anything ran; `detail` is for the log."""
    event = Event(outcomes.BYPASS, reason)
    event.product, event.sources = _product_named_in(arguments), _sources_named_in(arguments)
    if config.log:
        from nvccache import log

        note(config, f"bypass {reason} {log.hide_detail(detail)}".rstrip())
    record(config, event, began)


def _product_named_in(arguments: list[str]) -> str:
    """The value of -o, by which `nvccache explain` finds a call; a guess, since no arguments are parsed."""
    for index, argument in enumerate(arguments[:-1]):
        if argument in ("-o", "--output-file"):
            return os.path.abspath(arguments[index + 1])
    return ""


def _sources_named_in(arguments: list[str]) -> list[str]:
    """The arguments that look like inputs; a guess, as the arguments are not parsed."""
    pairs = zip(arguments, ["", *arguments], strict=False)
    named = [each for each, before in pairs if each[:1] != "-" and before not in _NOT_BEFORE_INPUTS]
    return [each for each in named if each.endswith(_INPUTS)]


def record(config: Config, event: Event, began: float) -> None:
    """Append the event of a call to the event log."""
    if config.problems and config.log:
        from nvccache import log

        log.write(config.log, *[f"wrong setting: {text}" for text in log.sentences(config)])
    if config.counts_calls:
        event.seconds = time.monotonic() - began
        root = directory.Directory(config.dir)
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


def note(config: Config, message: str) -> None:
    if config.log:
        from nvccache import log

        log.write(config.log, message)
