"""The algorithm: carry out the plan, and hand its results over in nvcc's order.

Names no tool. Stages end in any order (schedule.py); what the user gets to see of them comes in the order
in which nvcc runs them, up to the first that failed. What goes to the user's streams is collected and handed
back, so that a call can still be left to nvcc up to the last moment.
"""

from __future__ import annotations

import os
import time

from nvccache import log
from nvccache.compile import attempts
from nvccache.compile.attempts import BeginAgainError
from nvccache.compile.call import Report
from nvccache.compile.schedule import Schedule, cost_of
from nvccache.compile.tasks import StageClock, State
from nvccache.execution import run_stage
from nvccache.execution.staged_call import StagedCall
from nvccache.files import elf
from nvccache.plan import model
from nvccache.plan.model import DependencyFile
from nvccache.preprocessed import passes
from nvccache.records import products
from nvccache.records.products import Product
from nvccache.store import store
from nvccache.store.event_line import FAILED, HIT, RAN, SHARED, StageEvent
from nvccache.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.commandline.invocation import Invocation
    from nvccache.compile.tasks import SourceOf, Task
    from nvccache.execution.context import Context
    from nvccache.machine.process import Completed
    from nvccache.machine.slots import Slots
    from nvccache.plan.model import Stage
    from nvccache.store.inflight import Claims


# Options that nvcc does not give, and another release may not know.
_OWN_OPTIONS = (b"frandom-seed", b"gen_module_id_file")
# What a tool prints when the machine is at fault, which may be over a moment later.
_MACHINE_TROUBLE = (b"No space left", b"out of memory", b"annot allocate", b"virtual memory", b"signal")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a call has around it."""

    invocation: Invocation
    messages: bytes  # the driver's own, which come first
    slots: Slots
    claims: Claims | None
    progress: Progress
    other_machines: SourceOf | None = None


def run(context: Context, surroundings: Surroundings) -> tuple[StagedCall, Report]:
    """Carry out a plan, again if what was relied upon to go faster turns out not to hold for it.

    Raises OSError for trouble with the scratch directory, run_stage.LostResultError when a result is lost.
    """
    context = attempts.first(context)
    before = None
    ran: dict[str, StageEvent] = {}
    clock = StageClock()
    while True:
        call = StagedCall(context, attempts.plan_of(context))
        if before:
            call.workspace.take_over(before.workspace)
        try:
            return call, _Attempt(call, surroundings, ran, clock).carry_out()
        except BeginAgainError as again:
            surroundings.progress.note(str(again))
            context, before = again.context, call


class _Attempt:
    """One attempt at the plan. `ran` are the stages, by what they write, that have run for this call."""

    def __init__(
        self, call: StagedCall, surroundings: Surroundings, ran: dict[str, StageEvent], clock: StageClock
    ) -> None:
        self._call = call
        self._invocation = surroundings.invocation
        self._progress = surroundings.progress
        beside = surroundings.other_machines
        self._schedule = Schedule(call, surroundings.slots, surroundings.claims, beside, clock)
        self._tasks = self._schedule.tasks
        self._report = Report(stderr=surroundings.messages)
        self._next = 0  # the step that is handed over next
        self._checked: set[Task] = set()
        self._ran = ran
        self._ended_now: list[Task] = []  # and still to be stored, which can wait for others to start

    def carry_out(self) -> Report:
        try:
            while True:
                self._advance()
                self._store_what_ended()
                handed_over = self._next
                if self._hand_over():
                    break
                if self._next == handed_over:
                    self._ended_now = self._schedule.wait()
        except BaseException as error:
            reason = attempts.instead_of(error, self._call, self._tasks)
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
        self._report.began, self._report.busy = self._schedule.clock.began, self._schedule.clock.busy
        return self._report

    def _event_of(self, task: Task) -> StageEvent:
        """What became of a stage. One that ran in an earlier attempt has run."""
        assert task.completed
        clock = self._schedule.clock
        wall = task.found.result.wall if task.found else 0.0
        if task.made:
            wall = clock.share_of(task, cost_of(task.made))
        earlier = self._ran.get(_written_by(task)) if task.is_hit else None
        is_hit = task.is_hit and not earlier
        event = StageEvent(
            task.stage.kind,
            (SHARED if task.was_elsewhere else HIT) if is_hit else FAILED if task.has_failed else RAN,
            task.completed.seconds,
            wall,
            model.architecture_of(task.stage, self._call.plan.stages),
            task.completed.cpu,
        )
        event.in_vain = task.in_vain + (earlier.in_vain if earlier else 0.0)
        event.start, event.slot = clock.start_of(task), -1 if is_hit else task.slot_number
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
        """Look up and start what can be, but nothing if what is found is a reason to begin again."""
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
        """Raise BeginAgainError where there is a reason; log what became of each stage once."""
        for task in self._tasks.all:
            if task.state != State.DONE or task in self._checked:
                continue
            is_settled = attempts.check(self._call, self._tasks, task)
            if task.made and task.made.clue:
                # An object that nvcc would link cannot be written in its place.
                self._report.leave_to_nvcc = "host_side_output"
            if is_settled:
                self._checked.add(task)
                self._progress.ended(task)

    def _hand_over(self) -> bool:
        """Hand over the steps that are done, in nvcc's order; whether that was the last of them."""
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
                if self._hand_over_stage(task):
                    return True
            self._next += 1
        return True

    def _hand_over_stage(self, task: Task) -> bool:
        """Whether this was the last stage, since it failed or its product cannot be written."""
        completed, report, plan = task.completed, self._report, self._call.plan
        assert completed
        if report.leave_to_nvcc:
            return True
        if task.stage.tool.links_program:
            report.output_before_link = (report.stdout, report.stderr)
        report.stdout += self._call.without_scratch(completed.stdout)
        report.stderr += self._call.without_scratch(completed.stderr)
        if completed.status != 0:
            report.status = completed.status
            # With -t nvcc has a status of its own for whatever fails (255).
            is_odd = self._invocation.threads != 1 and "threads" in self._invocation.options
            is_odd |= plan.keeps_intermediates  # it leaves what it had made until then
            if is_odd or not _is_users_error(task.stage, completed, plan.scratch):
                report.leave_to_nvcc = "odd_failure"
        elif _names_intermediates(task.stage, self._call):
            report.leave_to_nvcc = "keeps_intermediates"
        elif not _deliver(task, self._call, self._invocation.keep_directory or ""):
            report.leave_to_nvcc = "unwritable_output"
        else:
            self._tasks.delivered(task)
            return False
        return True


def _written_by(task: Task) -> str:
    return task.stage.outputs[0].path if task.stage.outputs else ""


def _is_users_error(stage: Stage, completed: Completed, scratch: str) -> bool:
    """Whether nvcc would end the same way: a tool that complained of the source, and nothing else."""
    return (
        stage.tool.reports_user_errors
        and completed.status > 0
        and bool(completed.stderr.strip())
        and os.fsencode(scratch) not in completed.stderr
        and not any(trouble in completed.stderr for trouble in (*_MACHINE_TROUBLE, *_OWN_OPTIONS))
    )


def _names_intermediates(stage: Stage, call: StagedCall) -> bool:
    """Whether a wrapper has had an object name intermediates that the user keeps, and has elsewhere."""
    if not call.plan.keeps_intermediates or not stage.tool.is_host_compiler:
        return False
    scratch = os.fsencode(call.plan.scratch)
    products = [run_stage.content_of(call, out) for out in stage.outputs if out.destination]
    return any(scratch in content or elf.hides_text(content) for content in products)


def _deliver(task: Task, call: StagedCall, kept_in: str) -> bool:
    """Write the stage's products where the user wants them; False where nvcc should report why not."""
    wanted, stage = [], task.stage
    for output in stage.outputs:
        destination = output.destination or output.kept_as
        if not destination or (output.is_in_place and not task.is_hit):
            continue
        is_kept = bool(output.kept_as)
        content = run_stage.as_kept(call, output, kept_in) if is_kept else run_stage.content_of(call, output)
        blob = "" if is_kept else call.store.path(store.BLOB, call.workspace.digest_of(output.path))
        wanted.append(Product(destination, content, blob, unlink_first=stage.tool.unlinks_output))
    return _is_delivered(wanted)


def _write_dependency_file(step: DependencyFile, call: StagedCall, invocation: Invocation) -> bool:
    """Write it as nvcc does, right after preprocessing: it is there even if the compile then fails."""
    entered = passes.union([call.workspace.passes[path].listed for path in step.preprocessed])
    return _is_delivered([Product(step.path, products.rule(entered, invocation))])


def _is_delivered(wanted: list[Product]) -> bool:
    try:
        products.write_all(wanted)
    except OSError:
        return False
    return True


class Progress:
    """Tells in the log, for people who wait, what became of each stage as it ends."""

    def __init__(self, log_path: str) -> None:
        self._log_path = log_path
        self._started = time.monotonic()

    def ended(self, task: Task) -> None:
        if not self._log_path or not task.completed:
            return
        stage, completed = task.stage, task.completed
        read_later = [out.path for out in stage.outputs if out.role not in stage.grammar.unread]
        written = os.path.basename(read_later[0]) if read_later else ""
        if task.is_hit:
            became = f"hit, saves {completed.cpu or completed.seconds:.2f} s"
        else:
            became = f"ran {completed.seconds:.2f} s"
            costs = task.made.costs if task.made else None
            became += f" on another machine ({costs.shown()})" if costs else ""
            became += f" here, where it was sent ({task.why_here})" if task.why_here and not costs else ""
            became += f", after {task.in_vain:.2f} s in vain" if task.in_vain else ""
            became += f", status {completed.status}" if completed.status else ""
        self.note(f"{stage.kind} {written}: {became}")

    def note(self, message: str) -> None:
        """Tell something, with the seconds since the call began."""
        log.write(self._log_path, f"+{time.monotonic() - self._started:.2f} s {message}")
