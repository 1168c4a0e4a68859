"""The algorithm: carry out the plan, and deliver its results in nvcc's order.

Names no tool. Stages end in any order (schedule.py); products and messages are delivered in the order in
which nvcc runs the stages, up to the first that failed. Messages are collected and returned, not printed, so
that a call can be left to nvcc up to the last moment.
"""

from __future__ import annotations

import os
import time

from nvccache import log, module_id, passes
from nvccache.compile import attempts
from nvccache.compile.attempts import BeginAgainError
from nvccache.compile.call import Report
from nvccache.compile.schedule import Schedule
from nvccache.compile.tasks import State
from nvccache.execution import run_stage
from nvccache.execution.staged_call import StagedCall
from nvccache.plan import model
from nvccache.plan.model import DependencyFile
from nvccache.records import products
from nvccache.records.products import Product
from nvccache.store import store
from nvccache.store.event_line import FAILED, HIT, RAN, SHARED, StageEvent
from nvccache.values import dataclass, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.commandline.invocation import Invocation
    from nvccache.compile.tasks import SourceOf, Task
    from nvccache.execution.context import Context
    from nvccache.machine.process import Completed
    from nvccache.machine.slots import Slots
    from nvccache.plan.model import Stage
    from nvccache.store.inflight import Claims


# How a release that takes no id of ours might complain.
_OWN_OPTIONS = (b"module id", b"module_id")
# Messages about the machine, whose trouble may be over a moment later.
_MACHINE_TROUBLE = (b"No space left", b"out of memory", b"annot allocate", b"virtual memory", b"signal")


@dataclass(frozen=True, slots=True)
class Resources:
    """What a call needs besides its context."""

    invocation: Invocation
    messages: bytes  # the driver's own, which come first
    slots: Slots
    claims: Claims | None
    progress: Progress
    executor: SourceOf | None = None


def run(context: Context, resources: Resources) -> tuple[StagedCall, Report]:
    """Carry out a plan, again if an assumption that saves time turns out to be wrong.

    Raises OSError for trouble with the scratch directory, run_stage.LostResultError when a result is lost.
    """
    context = attempts.first(context)
    before = None
    ran: dict[str, StageEvent] = {}
    while True:
        call = StagedCall(context, attempts.plan_of(context))
        if before:
            call.workspace.reuse_files_of(before.workspace)
        try:
            return call, _Attempt(call, resources, ran).carry_out()
        except BeginAgainError as again:
            resources.progress.note(str(again))
            context, before = replace(again.context, files=None), call


class _Attempt:
    """One attempt at the plan. `ran` are the stages that have run in earlier attempts, by output."""

    def __init__(self, call: StagedCall, resources: Resources, ran: dict[str, StageEvent]) -> None:
        self._call = call
        self._invocation = resources.invocation
        self._progress = resources.progress
        self._schedule = Schedule(call, resources.slots, resources.claims, resources.executor)
        self._tasks = self._schedule.tasks
        self._report = Report(stderr=resources.messages)
        self._next = 0  # the step to deliver next
        self._checked: set[Task] = set()
        self._ran = ran
        self._ended_now: list[Task] = []  # to be stored, after other stages have been started

    def carry_out(self) -> Report:
        try:
            while True:
                self._advance()
                self._store_what_ended()
                delivered = self._next
                if self._deliver_steps():
                    break
                if self._next == delivered:
                    self._ended_now = self._schedule.wait()
        except BaseException as error:
            reason = attempts.error_to_raise(error, self._call, self._tasks)
            is_wanted = isinstance(reason, BeginAgainError)
            if is_wanted:
                self._store_what_ended()
            self._schedule.finish(is_wanted, begins_again=is_wanted)
            self._ran |= {
                _written_by(task): self._event_of(task) for task in self._tasks.ended() if not task.is_hit
            }
            if reason is not error:
                raise reason from error
            raise
        self._schedule.finish()
        for task in self._tasks.ended():
            task.event = self._event_of(task)
            self._report.stages.append(task.event)
            if task.stage.tool.is_counted:
                self._report.looked_up.append(task)
        return self._report

    def _event_of(self, task: Task) -> StageEvent:
        """The event of a stage. One that ran in an earlier attempt counts as run."""
        assert task.completed
        earlier = self._ran.get(_written_by(task)) if task.is_hit else None
        is_hit = task.is_hit and not earlier
        event = StageEvent(
            task.stage.kind,
            (SHARED if task.ran_elsewhere else HIT) if is_hit else FAILED if task.has_failed else RAN,
            task.completed.seconds,
            model.architecture_of(task.stage, self._call.plan.stages),
            task.completed.cpu,
        )
        event.start, event.slot = task.began, -1 if is_hit else task.slot_number
        costs = task.made.costs if task.made and not is_hit else None
        if costs:
            event.where, event.slot = costs.where, -1
            event.away = costs.text()
        elif earlier:
            event.where, event.slot, event.away = earlier.where, earlier.slot, earlier.away
        elif not is_hit:
            event.away = task.why_here
        return event

    def _advance(self) -> None:
        """Look up and start all stages that are ready; raises BeginAgainError before a needless start."""
        is_going_on = True
        while is_going_on:
            self._schedule.look_up()
            self._check_what_is_done()
            is_going_on = self._schedule.start()

    def _store_what_ended(self) -> None:
        for task in self._ended_now:
            self._schedule.store_result(task)
        self._ended_now = []

    def _check_what_is_done(self) -> None:
        """Raise BeginAgainError if a result refutes an assumption; log each stage once."""
        for task in self._tasks.all:
            if task.state != State.DONE or task in self._checked:
                continue
            attempts.check(self._call, self._tasks, task)
            if task.made and task.made.path_dependence:
                # An object that nvcc would link is never written in place.
                self._report.leave_to_nvcc = "host_side_output"
            self._checked.add(task)
            self._progress.ended(task, self._call)

    def _deliver_steps(self) -> bool:
        """Deliver the steps that are done, in nvcc's order; whether the call has ended."""
        tasks = {task.number: task for task in self._tasks.all}
        steps = self._call.plan.steps
        while self._next < len(steps):
            step = steps[self._next]
            if isinstance(step, DependencyFile):
                if not _write_dependency_file(step, self._call, self._invocation):
                    self._report.leave_to_nvcc = "unwritable_output"
                    return True
            else:
                task = tasks[self._next]
                if task.state != State.DONE:
                    return False
                if self._deliver_stage(task):
                    return True
            self._next += 1
        return True

    def _deliver_stage(self, task: Task) -> bool:
        """Deliver a stage; whether this ends the call, as it failed or its product cannot be written."""
        completed, report, plan = task.completed, self._report, self._call.plan
        assert completed
        if report.leave_to_nvcc:
            return True
        report.stdout += self._call.without_scratch(completed.stdout)
        report.stderr += self._call.without_scratch(completed.stderr)
        if completed.status != 0:
            report.status = completed.status
            # With -t, nvcc returns 255 whatever fails.
            is_odd = self._invocation.threads != 1 and "threads" in self._invocation.options
            is_odd |= self._may_fail_by_observer(task)
            if is_odd or not _is_source_error(task.stage, completed, plan.scratch):
                report.leave_to_nvcc = "odd_failure"
        elif not _deliver(task, self._call):
            report.leave_to_nvcc = "unwritable_output"
        else:
            self._tasks.delivered(task)
            return False
        return True

    def _may_fail_by_observer(self, task: Task) -> bool:
        """Whether the observer may have made a tool fail: one linked with musl, or with AddressSanitizer."""
        logs = task.made.logs if task.made and not self._call.context.watch.is_blind else ()
        return any(log.read().incomplete for log in logs)


def _written_by(task: Task) -> str:
    return task.stage.outputs[0].path if task.stage.outputs else ""


def _is_source_error(stage: Stage, completed: Completed, scratch: str) -> bool:
    """Whether a tool reported errors in the source and nothing else, so that nvcc would fail the same."""
    return (
        stage.tool.reports_user_errors
        and completed.status > 0
        and bool(completed.stderr.strip())
        and os.fsencode(scratch) not in completed.stderr
        and not any(trouble in completed.stderr for trouble in (*_MACHINE_TROUBLE, *_OWN_OPTIONS))
    )


def _deliver(task: Task, call: StagedCall) -> bool:
    """Write a stage's products to the user's paths; False if that fails, and nvcc has to report why."""
    wanted, stage = [], task.stage
    for output in stage.outputs:
        if not output.destination or (output.is_in_place and not task.is_hit):
            continue
        content = run_stage.content_of(call, output)
        blob = call.store.path(store.BLOB, call.workspace.digest_of(output.path))
        wanted.append(Product(output.destination, content, blob, unlink_first=stage.tool.unlinks_output))
    return _is_delivered(wanted)


def _write_dependency_file(step: DependencyFile, call: StagedCall, invocation: Invocation) -> bool:
    """Write it right after preprocessing, like nvcc: it is there even if the compile then fails."""
    entered = passes.union([call.workspace.passes[path].listed for path in step.preprocessed])
    return _is_delivered([Product(step.path, products.rule(entered, invocation))])


def _is_delivered(wanted: list[Product]) -> bool:
    try:
        products.write_all(wanted)
    except OSError:
        return False
    return True


class Progress:
    """Logs each stage as it ends."""

    def __init__(self, log_path: str) -> None:
        self._log_path = log_path
        self._started = time.monotonic()

    def ended(self, task: Task, call: StagedCall) -> None:
        if not self._log_path or not task.completed:
            return
        stage, completed = task.stage, task.completed
        read_later = [out.path for out in stage.outputs if out.role not in stage.grammar.unread]
        written = os.path.basename(read_later[0]) if read_later else ""
        if task.is_hit:
            result = f"hit, saves {completed.cpu or completed.seconds:.2f} s"
        else:
            result = f"ran {completed.seconds:.2f} s"
            costs = task.made.costs if task.made else None
            result += f" on another machine ({costs.shown()})" if costs else ""
            result += f" here after all ({task.why_here})" if task.why_here and not costs else ""
            result += f", status {completed.status}" if completed.status else ""
        if path := module_id.file_of(stage):
            result += f", module id {os.fsdecode(call.module_id_of(stage))} in {os.path.basename(path)}"
        self.note(f"{stage.kind} {written}: {result}")

    def note(self, message: str) -> None:
        """Log a message, with the seconds since the call began."""
        log.write(self._log_path, f"+{time.monotonic() - self._started:.2f} s {message}")
