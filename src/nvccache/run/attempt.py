"""The algorithm: carry out the stages of a call and deliver their results.

Names no tool. Results may come from text with other line numbers (find_stage.py); if something shows lines,
the call begins again without these results.
"""

from __future__ import annotations

import os
import time

from nvccache import log, module_id
from nvccache.plan import model
from nvccache.run import object_path
from nvccache.run.deliver import Delivery
from nvccache.run.report import Report
from nvccache.run.run_stage import LostResultError
from nvccache.run.schedule import Schedule
from nvccache.run.stage_run import State
from nvccache.run.wrappers import PLACES
from nvccache.store.event_line import FAILED, HIT, RAN, SHARED, StageEvent
from nvccache.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.commandline.invocation import Invocation
    from nvccache.machine.slots import Slots
    from nvccache.run.call import Compile
    from nvccache.run.stage_run import MakeProvider, StageRun
    from nvccache.store.inflight import Claims


class BeginAgainError(Exception):
    """Line numbers matter; the message says why."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What a call needs besides its plan."""

    invocation: Invocation
    messages: bytes  # the driver's own, which come first
    slots: Slots
    claims: Claims | None
    progress: Progress
    executor: MakeProvider | None = None


def run_stages(call: Compile, resources: Resources) -> tuple[Compile, Report]:
    """Carry out the stages, again if line numbers turn out to matter; the last attempt and its report.

    Raises OSError for trouble with the scratch directory, LostResultError when a result is lost.
    """
    while True:
        report = Report(stderr=resources.messages)
        try:
            _attempt(call, resources, report)
            return call, report
        except BeginAgainError as reason:
            resources.progress.note(f"{reason}: compiling again with the right lines")
            call = call.again()


def _attempt(call: Compile, resources: Resources, report: Report) -> None:
    schedule = Schedule(call, resources.slots, resources.claims, resources.executor)
    delivery = Delivery(call, resources.invocation, schedule.order, report)
    checked: set[StageRun] = set()
    ended: list[StageRun] = []  # to be stored, after other stages have been started
    try:
        while True:
            is_going_on = True
            while is_going_on:
                schedule.look_up()
                for run in call.runs:
                    if run.state == State.DONE and run not in checked:
                        _check(call, run, report)
                        checked.add(run)
                        resources.progress.ended(run, call)
                is_going_on = schedule.start()
            while ended:
                schedule.store_result(ended.pop(0))
            has_advanced = delivery.advance()
            if delivery.has_ended:
                break
            if not has_advanced:
                ended = schedule.wait()
    except BaseException as error:
        begins_again = _shows_lines(error, call)
        while ended and begins_again:
            schedule.store_result(ended.pop(0))
        schedule.finish(begins_again, begins_again=begins_again)
        _note_events(call)
        if begins_again and not isinstance(error, BeginAgainError):
            raise BeginAgainError(str(error)) from error
        raise
    schedule.finish()
    _note_events(call)
    report.stages = [run.event for run in call.runs if run.event]


def _check(call: Compile, run: StageRun, report: Report) -> None:
    """Raise BeginAgainError if a result shows that line numbers matter, before more stages start."""
    if run.tool_run and run.tool_run.path_dependence:
        object_path.remember(run.stage, call.environ, call.store)
        report.leave_to_nvcc = "host_side_output"
    shows_lines = run.has_warned or PLACES in run.wrapper_effects
    if run.stage.tool.shows_lines and shows_lines and any(other.has_other_lines for other in call.runs):
        raise BeginAgainError("there are diagnostics" if run.has_warned else "a wrapper may have lines shown")


def _shows_lines(error: BaseException, call: Compile) -> bool:
    """Whether to begin again after an error; also if a lost result was made from other lines.

    A new run reads this call's lines, so it cannot reproduce that result.
    """
    is_of_lines = isinstance(error, LostResultError) and call.ignores_lines
    return isinstance(error, BeginAgainError) or (
        is_of_lines and any(run.has_other_lines for run in call.runs)
    )


def _note_events(call: Compile) -> None:
    """Set the event of each stage that has ended. One that ran before the call began again counts as run."""
    for run in call.runs:
        if not run.completed:
            continue
        before = call.ran_before.get(run.output) if run.is_hit else None
        is_hit = run.is_hit and not before
        run.event = event = StageEvent(
            run.stage.kind,
            (SHARED if run.ran_elsewhere else HIT) if is_hit else FAILED if run.has_failed else RAN,
            run.completed.seconds,
            model.architecture_of(run.stage, call.plan.stages),
            run.completed.cpu,
        )
        event.start, event.slot = run.started, -1 if is_hit else run.slot_number
        costs = run.tool_run.costs if run.tool_run and not is_hit else None
        if costs:
            event.where, event.slot = costs.where, -1
            event.away = costs.text()
        elif before:
            event.where, event.slot, event.away = before.where, before.slot, before.away
        elif not is_hit:
            event.away = run.why_here


class Progress:
    """Logs each stage as it ends."""

    def __init__(self, log_path: str) -> None:
        self._log_path = log_path
        self._started = time.monotonic()

    def ended(self, run: StageRun, call: Compile) -> None:
        if not self._log_path or not run.completed:
            return
        stage, completed = run.stage, run.completed
        read_later = [out.path for out in stage.outputs if out.role not in stage.grammar.unread]
        written = os.path.basename(read_later[0]) if read_later else ""
        if run.is_hit:
            result = f"hit, saves {completed.cpu or completed.seconds:.2f} s"
        else:
            result = f"ran {completed.seconds:.2f} s"
            costs = run.tool_run.costs if run.tool_run else None
            result += f" on another machine ({costs.sentence()})" if costs else ""
            result += f" here after all ({run.why_here})" if run.why_here and not costs else ""
            result += f", status {completed.status}" if completed.status else ""
        if path := module_id.file_of(stage):
            result += f", module id {os.fsdecode(call.module_id_of(stage))} in {os.path.basename(path)}"
        self.note(f"{stage.kind} {written}: {result}")

    def note(self, message: str) -> None:
        """Log a message, with the seconds since the call began."""
        log.write(self._log_path, f"+{time.monotonic() - self._started:.2f} s {message}")
