"""The algorithm: walk the plan, take each stage from the store or run it, give the user the products.

Names no tool. What goes to the user's streams is collected and handed back, so that a call can still
be left to nvcc up to the last moment.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from nvccache import dependencies, log, markers, outcomes, store
from nvccache.plan import DependencyFile, Stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.execution import Execution
    from nvccache.invocation import Invocation
    from nvccache.process import Completed

# Stages whose failure is the user's error, told on standard error, and which leave no product behind.
_TELLING_STAGES = frozenset({"host_preprocess", "device_preprocess", "cudafe", "cicc"})
# What a tool says when the machine is at fault, which may be over a moment later.
_MACHINE_TROUBLE = (b"No space left", b"out of memory", b"annot allocate", b"virtual memory", b"signal")


@dataclass(slots=True)
class Report:
    """What became of a call: exit code, output, and what each stage cost or saved in seconds.

    `leave_to_nvcc` is the reason why nvcc has to do the call after all, or empty.
    """

    status: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    leave_to_nvcc: str = ""
    stages: list[tuple[str, bool, float]] = field(default_factory=list)
    products: tuple[str, ...] = ()

    @property
    def seconds_saved(self) -> float:
        return sum(seconds for _, is_hit, seconds in self.stages if is_hit)

    @property
    def outcome(self) -> str:
        """The word for it in `nvccache stats`."""
        if self.status != 0:
            return outcomes.FAILED
        counted = [hit for kind, hit, _ in self.stages if not kind.endswith("_preprocess")]
        if all(counted):
            return outcomes.STAGE_HIT
        return outcomes.PARTIAL_HIT if any(counted) else outcomes.MISS


def run(execution: Execution, invocation: Invocation, messages: bytes, log_path: str = "") -> Report:
    """Carry out a plan; `messages` are the driver's own words, which come first.

    Raises OSError for trouble with the scratch directory, execution.LostResultError when a result is lost.
    """
    report = Report(stderr=messages)
    for step in execution.plan.steps:
        if isinstance(step, DependencyFile):
            if not _write_dependency_file(step, execution, invocation):
                report.leave_to_nvcc = "unwritable_output"
                return report
            continue
        completed = _perform(step, execution, report, log_path)
        report.stdout += execution.without_scratch(completed.stdout)
        report.stderr += execution.without_scratch(completed.stderr)
        if completed.status != 0:
            report.status = completed.status
            if not _is_users_error(step, completed, execution):
                report.leave_to_nvcc = "odd_failure"
            return report
        if not _deliver(step, execution):
            report.leave_to_nvcc = "unwritable_output"
            return report
    return report


def _perform(stage: Stage, execution: Execution, report: Report, log_path: str) -> Completed:
    """Take a stage's result from the store, or run it and put it there."""
    from nvccache.process import Completed

    is_cached = execution.is_cached(stage)
    lookup = execution.look_up(stage) if is_cached else None
    if lookup and lookup.entry:
        entry = lookup.entry
        execution.accept(stage, lookup)
        log.write(log_path, f"{stage.kind} hit {lookup.key}")
        report.stages.append((stage.kind, True, entry.seconds))
        return Completed(0, entry.stdout, entry.stderr, 0.0)
    completed = execution.run(stage)
    log.write(log_path, f"{stage.kind} ran {completed.seconds:.3f} s, status {completed.status}")
    if completed.status == 0 and lookup:
        execution.publish(stage, lookup, completed)
    if stage.kind in outcomes.STAGES:
        report.stages.append((stage.kind, False, completed.seconds))
    return completed


def _is_users_error(stage: Stage, completed: Completed, execution: Execution) -> bool:
    """Whether nvcc would end the same way: a tool that complained of the source, and nothing else."""
    scratch = os.fsencode(execution.plan.scratch)
    said = completed.stderr
    return (
        stage.kind in _TELLING_STAGES
        and completed.status > 0
        and bool(said.strip())
        and scratch not in said
        and not any(trouble in said for trouble in _MACHINE_TROUBLE)
    )


def _deliver(stage: Stage, execution: Execution) -> bool:
    """Write the stage's products where the user wants them; False where nvcc should report why not."""
    for output in stage.outputs:
        if not output.destination:
            continue
        content = execution.content_of(output)
        blob = execution.store.path(store.BLOB, execution.workspace.digest_of(output.path))
        try:
            store.restore(content, blob, output.destination, unlink_first=stage.kind == "host_compile")
        except OSError:
            return False
    return True


def _write_dependency_file(step: DependencyFile, execution: Execution, invocation: Invocation) -> bool:
    """Write it as nvcc does, right after preprocessing: it is there even if the compile then fails."""
    entered = markers.union([execution.passes[path].entered for path in step.preprocessed])
    try:
        with open(step.path, "wb") as stream:
            stream.write(dependencies.rule(entered, invocation))
    except OSError:
        return False
    return True
