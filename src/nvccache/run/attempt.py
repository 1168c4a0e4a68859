"""Carrying out the stages of a call, and delivering their results in nvcc's order.

Stages end in any order (schedule.py); products and messages are delivered in the order in which nvcc runs the
stages, up to the first that failed. Messages are collected and returned, not printed, so that a call can be
left to nvcc up to the last moment. Names no tool.

Results may come from text with other line numbers (find_stage.py). If something shows line numbers, those
results are forgotten, and their stages are carried out again.
"""

from __future__ import annotations

import os

from nvccache import module_id, passes
from nvccache.plan import model
from nvccache.plan.model import DependencyFile
from nvccache.records import products
from nvccache.records.products import Product
from nvccache.run import run_stage
from nvccache.run.call import Report
from nvccache.run.run_stage import LostResultError
from nvccache.run.schedule import Schedule
from nvccache.run.stage_run import State
from nvccache.run.wrappers import PLACES
from nvccache.store import store
from nvccache.store.event_line import CACHED, FAILED, HIT, RAN, SHARED, StageEvent
from nvccache.store.locks import Claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.config import Config
    from nvccache.machine.process import Completed
    from nvccache.machine.slots import Slots
    from nvccache.plan.model import Stage
    from nvccache.run.call import Compile
    from nvccache.run.stage_run import MakeExecutor, StageRun

# How a release of nvcc that does not accept our module id might complain.
_OWN_OPTIONS = (b"module id", b"module_id")
# Messages about problems of the machine, which may be over a moment later.
_MACHINE_TROUBLE = (b"No space left", b"out of memory", b"annot allocate", b"virtual memory", b"signal")


class LinesMatterError(Exception):
    """Line numbers matter; the message says why."""


def run_stages(call: Compile, slots: Slots) -> Report:
    """Carry out the stages and deliver their results.

    Raises OSError for problems with the scratch directory, LostResultError when a result is lost.
    """
    config = call.request.config
    claims = None if config.readonly or config.recache else Claims(call.store.directory)
    delivery = Delivery(call)
    schedule = Schedule(call, slots, claims, _executor(config), delivery.check)
    try:
        while not delivery.has_ended:
            try:
                schedule.advance()
                if not delivery.advance(schedule):
                    schedule.wait()
            except (LinesMatterError, LostResultError) as reason:
                # A lost result that was made from text with other lines cannot be made again from this call's
                # text.
                if not any(run.has_other_lines for run in call.runs):
                    raise
                call.note(f"{reason}: compiling again with correct line numbers")
                schedule.begin_again()
                delivery.begin_again()
        schedule.finish()
    except BaseException:
        schedule.stop()
        raise
    report = delivery.report
    for run in call.runs:
        run.event = _event_of(run, call) if run.completed else None
    report.stages = [run.event for run in call.runs if run.event]
    return report


class Delivery:
    """The products and messages of one call; collects messages and the status in the report."""

    def __init__(self, call: Compile) -> None:
        self._call = call
        self._runs = {run.number: run for run in call.runs}
        self.begin_again()

    def begin_again(self) -> None:
        self.report = Report(stderr=self._call.messages)
        self.has_ended = False
        self._next = 0  # the step to deliver next

    def check(self, run: StageRun) -> None:
        """Raise LinesMatterError if a result shows line numbers of other text, before more stages start."""
        _log_result(run, self._call)
        if run.tool_run and run.tool_run.path_dependence:
            self.report.leave_to_nvcc = "host_side_output"
        shows_lines = run.stage.tool.shows_lines and (run.has_warned or PLACES in run.wrapper_effects)
        if shows_lines and any(other.has_other_lines for other in self._call.runs):
            raise LinesMatterError(
                "there are diagnostics" if run.has_warned else "a wrapper may make line numbers matter"
            )

    def advance(self, schedule: Schedule) -> bool:
        """Deliver the steps that are done; returns whether there were any."""
        before, steps = self._next, self._call.plan.steps
        while self._next < len(steps) and not self.has_ended:
            step = steps[self._next]
            if isinstance(step, DependencyFile):
                # Right after preprocessing, as nvcc does: it exists even if the compile then fails.
                lists = [self._call.intermediates.passes[path].listed for path in step.preprocessed]
                rule = products.rule(passes.union(lists), self._call.request.invocation)
                self._write([Product(step.path, rule)])
            elif self._runs[self._next].state == State.DONE:
                self._deliver(self._runs[self._next])
            else:
                break
            self._next += 1
            schedule.delivered_up_to = self._next
        self.has_ended = self.has_ended or self._next == len(steps)
        return self._next != before

    def _deliver(self, run: StageRun) -> None:
        """Deliver a stage; the call ends if it failed or its product cannot be written."""
        completed, report = run.completed, self.report
        assert completed
        if report.leave_to_nvcc:
            self.has_ended = True
            return
        report.stdout += self._call.without_scratch(completed.stdout)
        report.stderr += self._call.without_scratch(completed.stderr)
        if completed.status == 0:
            self._write(_products_of(run, self._call))
            return
        self.has_ended = True
        report.status = completed.status
        # With -t, nvcc returns 255 whatever fails.
        invocation = self._call.request.invocation
        is_odd = invocation.threads != 1 and "threads" in invocation.options
        # The observer may have made a tool fail: one linked with musl, or with AddressSanitizer.
        run_log = run.tool_run.log if run.tool_run else None
        is_odd |= bool(run_log and run_log.read().incomplete)
        if is_odd or not _is_source_error(run.stage, completed, self._call.plan.scratch):
            report.leave_to_nvcc = "odd_failure"

    def _write(self, wanted: list[Product]) -> None:
        """Write products to the user's paths; if that fails, nvcc has to report why."""
        try:
            products.write_all(wanted)
        except OSError:
            self.report.leave_to_nvcc = "unwritable_output"
            self.has_ended = True


def _products_of(run: StageRun, call: Compile) -> list[Product]:
    wanted, stage = [], run.stage
    for output in stage.outputs:
        if not output.destination or (output.is_in_place and not run.is_hit):
            continue
        content = run_stage.content_of(call, output)
        blob = call.store.path(store.BLOB, call.intermediates.digest_of(output.path))
        wanted.append(Product(output.destination, content, blob, unlink_first=stage.tool.unlinks_output))
    return wanted


def _is_source_error(stage: Stage, completed: Completed, scratch: str) -> bool:
    """Whether a tool only reported errors in the source, so that nvcc would fail in the same way."""
    return (
        stage.tool.reports_user_errors
        and completed.status > 0
        and bool(completed.stderr.strip())
        and os.fsencode(scratch) not in completed.stderr
        and not any(trouble in completed.stderr for trouble in (*_MACHINE_TROUBLE, *_OWN_OPTIONS))
    )


def _event_of(run: StageRun, call: Compile) -> StageEvent:
    """The event of a stage that has ended."""
    assert run.completed
    event = StageEvent(
        run.stage.kind,
        (SHARED if run.ran_elsewhere else HIT) if run.is_hit else FAILED if run.has_failed else RAN,
        run.completed.seconds,
        model.architecture_of(run.stage, call.plan.stages),
        run.completed.cpu,
    )
    executor = run.tool_run.executor if run.tool_run else ""
    event.start, event.slot = run.started, -1 if executor or run.is_hit else run.slot_number
    if executor and run.tool_run:
        event.where, event.away = executor, CACHED if run.tool_run.was_cached else ""
    elif not run.is_hit:
        event.away = run.why_here
    return event


def _log_result(run: StageRun, call: Compile) -> None:
    stage, completed = run.stage, run.completed
    if not call.request.config.log or not completed:
        return
    read_later = [out.path for out in stage.outputs if out.role not in stage.grammar.unread]
    written = os.path.basename(read_later[0]) if read_later else ""
    if run.is_hit:
        result = f"hit, saves {completed.cpu or completed.seconds:.2f} s"
    else:
        result = f"ran {completed.seconds:.2f} s"
        executor = run.tool_run.executor if run.tool_run else ""
        result += f" on {executor}" if executor else ""
        result += f" here after all ({run.why_here})" if run.why_here and not executor else ""
        result += f", status {completed.status}" if completed.status else ""
    if path := module_id.file_of(stage):
        result += f", module id {os.fsdecode(call.module_id_of(stage))} in {os.path.basename(path)}"
    call.note(f"{stage.kind} {written}: {result}")


def _executor(config: Config) -> MakeExecutor | None:
    """Remote execution, if set; it is above this package, and loaded only here."""
    if not config.executor:
        return None
    import importlib

    executor = importlib.import_module("nvccache.remote_execution.executor")
    make_executor: MakeExecutor = executor.make_executor(config)
    return make_executor
