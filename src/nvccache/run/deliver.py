"""Runs the stages of a call, and delivers their results in nvcc's order.

Stages may end in any order (schedule.py). Their products and messages are delivered in the order in which
nvcc would run the stages; delivery ends with the first stage that failed. Messages are collected and returned
instead of printed, so that the call can still be handed to nvcc at the last moment. This module treats all
tools alike.

A stage's result may have been made from the same text at other line numbers (find_stage.py). If messages or
debug information turn out to show line numbers, such results are dropped, and their stages run again.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from nvccache import module_id, passes
from nvccache.config import Config
from nvccache.machine.process import Completed
from nvccache.machine.slots import Slots
from nvccache.plan import model
from nvccache.plan.model import DependencyFile, Stage
from nvccache.records import products
from nvccache.records.products import Product
from nvccache.run import run_stage
from nvccache.run.call import Compile
from nvccache.run.report import LostResultError, Report
from nvccache.run.schedule import Schedule
from nvccache.run.stage_run import MakeExecutor, StageRun, State
from nvccache.run.wrappers import PLACES
from nvccache.store import store
from nvccache.store.event_line import CACHED, FAILED, HIT, RAN, SHARED, StageEvent
from nvccache.store.locks import Claims

# Parts of messages with which a tool might reject the module id that nvccache has chosen.
_OWN_OPTIONS = (b"module id", b"module_id")
# Parts of messages about the machine, such as a full disk; nvcc may succeed a moment later.
_MACHINE_TROUBLE = (b"No space left", b"out of memory", b"annot allocate", b"virtual memory", b"signal")


class LinesMatterError(Exception):
    """The results must not come from text with other line numbers; the message says why."""


def run_stages(call: Compile, slots: Slots, meanwhile: Callable[[], None] = lambda: None) -> Report:
    """Get the results of all stages and deliver them; `meanwhile` is called once the first stages run.

    Raises OSError if the scratch directory cannot be used, and LostResultError if the store has lost a
    result that cannot be made again.
    """
    config = call.request.config
    claims = None if config.readonly or config.recache else Claims(call.store.directory)
    delivery, left_to_do = Delivery(call), [meanwhile]
    schedule = Schedule(call, slots, claims, _executor(config), delivery.check)
    try:
        while not delivery.has_ended:
            try:
                schedule.advance()
                while left_to_do:
                    left_to_do.pop()()
                if not delivery.advance(schedule):
                    schedule.wait()
            except (LinesMatterError, LostResultError) as reason:
                # Beginning again helps only if results come from text with other line numbers, since only
                # these are dropped.
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
    """Writes a call's products in nvcc's order, and collects its messages and exit status in `report`."""

    def __init__(self, call: Compile) -> None:
        self._call = call
        self._runs = {run.number: run for run in call.runs}
        self.begin_again()

    def begin_again(self) -> None:
        self.report = Report(stderr=self._call.messages)
        self.has_ended = False
        self._next = 0  # the index of the step to deliver next

    def check(self, run: StageRun) -> None:
        """Raise LinesMatterError if this stage shows line numbers, and a result has outdated ones.

        Called when a stage has ended, before more stages start.
        """
        _log_result(run, self._call)
        if run.tool_run and run.tool_run.path_dependence:
            self.report.leave_to_nvcc = "host_side_output"
        shows_lines = run.stage.tool.shows_lines and (run.has_warned or PLACES in run.wrapper_effects)
        if shows_lines and any(other.has_other_lines for other in self._call.runs):
            raise LinesMatterError(
                "there are diagnostics" if run.has_warned else "a wrapper's result may depend on line numbers"
            )

    def advance(self, schedule: Schedule) -> bool:
        """Deliver the next steps that are done; returns whether there were any."""
        before, steps = self._next, self._call.plan.steps
        while self._next < len(steps) and not self.has_ended:
            step = steps[self._next]
            if isinstance(step, DependencyFile):
                # nvcc writes the depfile right after preprocessing, so it exists even if the compile fails.
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
        """Deliver the results of one stage; the call ends if it failed or a product cannot be written."""
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
        # With several threads (-t), nvcc returns 255 instead of the exit status of the tool that failed.
        invocation = self._call.request.invocation
        is_odd = invocation.threads != 1 and "threads" in invocation.options
        # A tool may have failed because the observer was preloaded: one that uses musl, for example.
        run_log = run.tool_run.log if run.tool_run else None
        is_odd |= bool(run_log and run_log.read().incomplete)
        if is_odd or not _is_source_error(run.stage, completed, self._call.plan.scratch):
            report.leave_to_nvcc = "odd_failure"

    def _write(self, wanted: list[Product]) -> None:
        """Write products to the user's paths; if that fails, nvcc has to run the call and report why."""
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
        if run.why_here and not executor:
            result += f" here, although it was sent to another machine ({run.why_here})"
        result += f", status {completed.status}" if completed.status else ""
    if path := module_id.file_of(stage):
        result += f", module id {os.fsdecode(call.module_id_of(stage))} in {os.path.basename(path)}"
    call.note(f"{stage.kind} {written}: {result}")


def _executor(config: Config) -> MakeExecutor | None:
    """The function that creates the executor; None if the settings name none.

    Its package is above this one in the order of imports, so it is imported by name, and only here.
    """
    if not config.executor:
        return None
    import importlib

    executor = importlib.import_module("nvccache.remote_execution.executor")
    make_executor: MakeExecutor = executor.make_executor(config)
    return make_executor
