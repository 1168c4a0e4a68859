"""Delivering the results of a call in nvcc's order.

Stages end in any order (schedule.py); products and messages are delivered in the order in which nvcc runs the
stages, up to the first that failed. Messages are collected and returned, not printed, so that a call can be
left to nvcc up to the last moment.
"""

from __future__ import annotations

import os

from nvccache import passes
from nvccache.plan.model import DependencyFile
from nvccache.records import products
from nvccache.records.products import Product
from nvccache.run import run_stage
from nvccache.run.stage_run import State
from nvccache.store import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.commandline.invocation import Invocation
    from nvccache.machine.process import Completed
    from nvccache.plan.model import Stage
    from nvccache.run.call import Compile
    from nvccache.run.order import Order
    from nvccache.run.report import Report
    from nvccache.run.stage_run import StageRun

# How a release that takes no id of ours might complain.
_OWN_OPTIONS = (b"module id", b"module_id")
# Messages about the machine, whose trouble may be over a moment later.
_MACHINE_TROUBLE = (b"No space left", b"out of memory", b"annot allocate", b"virtual memory", b"signal")


class Delivery:
    """The products and messages of one call; collects messages and the status in the report."""

    def __init__(self, call: Compile, invocation: Invocation, order: Order, report: Report) -> None:
        self.has_ended = False
        self._call = call
        self._invocation = invocation
        self._order = order
        self._report = report
        self._runs = {run.number: run for run in call.runs}
        self._next = 0  # the step to deliver next

    def advance(self) -> bool:
        """Deliver the steps that are done; whether there were any."""
        before, steps = self._next, self._call.plan.steps
        while self._next < len(steps) and not self.has_ended:
            step = steps[self._next]
            if isinstance(step, DependencyFile):
                self._write_dependency_file(step)
            elif self._runs[self._next].state == State.DONE:
                self._deliver(self._runs[self._next])
            else:
                break
            self._next += 1
        self.has_ended = self.has_ended or self._next == len(steps)
        return self._next != before

    def _deliver(self, run: StageRun) -> None:
        """Deliver a stage; the call ends if it failed or its product cannot be written."""
        completed, report = run.completed, self._report
        assert completed
        if report.leave_to_nvcc:
            self.has_ended = True
            return
        report.stdout += self._call.without_scratch(completed.stdout)
        report.stderr += self._call.without_scratch(completed.stderr)
        if completed.status == 0:
            self._write(_products_of(run, self._call))
            self._order.note_delivery(run)
            return
        self.has_ended = True
        report.status = completed.status
        # With -t, nvcc returns 255 whatever fails.
        is_odd = self._invocation.threads != 1 and "threads" in self._invocation.options
        is_odd |= self._may_fail_by_observer(run)
        if is_odd or not _is_source_error(run.stage, completed, self._call.plan.scratch):
            report.leave_to_nvcc = "odd_failure"

    def _write_dependency_file(self, step: DependencyFile) -> None:
        """Write it right after preprocessing, like nvcc: it is there even if the compile then fails."""
        entered = passes.union([self._call.intermediates.passes[path].listed for path in step.preprocessed])
        self._write([Product(step.path, products.rule(entered, self._invocation))])

    def _write(self, wanted: list[Product]) -> None:
        """Write products to the user's paths; if that fails, nvcc has to report why."""
        try:
            products.write_all(wanted)
        except OSError:
            self._report.leave_to_nvcc = "unwritable_output"
            self.has_ended = True

    def _may_fail_by_observer(self, run: StageRun) -> bool:
        """Whether the observer may have made a tool fail: one linked with musl, or with AddressSanitizer."""
        logs = run.tool_run.logs if run.tool_run and not self._call.watch.is_blind else ()
        return any(log.read().incomplete for log in logs)


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
    """Whether a tool reported errors in the source and nothing else, so that nvcc would fail the same."""
    return (
        stage.tool.reports_user_errors
        and completed.status > 0
        and bool(completed.stderr.strip())
        and os.fsencode(scratch) not in completed.stderr
        and not any(trouble in completed.stderr for trouble in (*_MACHINE_TROUBLE, *_OWN_OPTIONS))
    )
