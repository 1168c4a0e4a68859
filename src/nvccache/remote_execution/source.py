"""Other machines as a source of results: when a stage is sent, and when it runs here as well.

A stage is sent if no core is idle here. Meanwhile it keeps its claim, but no local slot and no memory. If it
is overdue, or waits for a worker while a core is idle, it also starts here; the first to end wins.
"""

from __future__ import annotations

import time

from nvccache import endpoint
from nvccache.compile import sources
from nvccache.compile.jobs import Jobs
from nvccache.compile.tasks import Promise, Source, State, Task
from nvccache.config import Config
from nvccache.execution.run_stage import LostResultError, Made
from nvccache.machine.process import Handle
from nvccache.machine.slots import PoolSlot, Slot
from nvccache.remote_execution import faults
from nvccache.remote_execution.executor import Executor
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.work import RemoteResult

TYPE_CHECKING = False  # a call loads the one of these that it needs
if TYPE_CHECKING:
    from nvccache.compile.tasks import SourceOf
    from nvccache.remote_execution.engine import EngineExecution
    from nvccache.remote_execution.prefix import LauncherExecution

_PATIENCE = 1.0  # seconds in the queue before an idle core takes over
_LATE_FACTOR, _LATE_SECONDS = 1.5, 2.0  # overdue is factor * expected + seconds
_STUCK_SECONDS = 3.0  # without an answer or a worker, after which the breaker opens


def of_config(config: Config) -> SourceOf:
    """A factory for the source of each call, on the configured executor."""
    where = endpoint.parse(config.executor)
    return lambda call: OtherMachines(Executor(call, where, config))


class OtherMachines(Source):
    """The executor of one call."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._slots: list[PoolSlot] = []

    def offer(self, task: Task) -> RemoteRun | None:
        """A promise for a stage that is worth sending, at most one per stage."""
        if task.stays_here or any(isinstance(promise, RemoteRun) for promise in task.promises):
            return None
        expected = self._executor.expected_seconds(task.stage)
        slot = self._executor.take_slot() if expected else None
        if not slot:
            return None
        self._slots.append(slot)
        return RemoteRun(task, self._executor, slot, expected)

    def note_end(self, task: Task) -> None:
        """Remember how long a stage took, and count a loss if it failed elsewhere and not here."""
        completed = task.completed
        if completed and completed.status == 0:
            self._executor.remember(task.stage, completed.seconds)
            if task.why_here == faults.FAILED:
                self._executor.note_loss()

    def close(self) -> None:
        for slot in self._slots:
            slot.release()


class RemoteRun(Promise):
    """A stage's tool runs on another machine."""

    __slots__ = ("_execution", "_executor", "_expected", "_slot", "_started")
    poll_seconds = sources.POLL_FOR_SLOTS_SECONDS

    def __init__(self, task: Task, executor: Executor, slot: PoolSlot, expected: float) -> None:
        super().__init__(task)
        self._executor = executor
        self._slot = slot
        self._expected = expected  # seconds
        self._started = time.monotonic()
        self._execution: EngineExecution | LauncherExecution | None = None  # set once the inputs are made

    def begin(self, jobs: Jobs) -> None:
        self.job = jobs.start(self._run)

    def _run(self, handle: Handle) -> RemoteResult:
        self._execution = self._executor.prepare(self.task.stage, handle)
        return self._executor.checked(self.task.stage, self._execution.run())

    def admits(self, slot: Slot | None) -> bool:
        """Whether a local run may start as well: in any slot if overdue, on an idle core if queued."""
        allowance = self._execution.allowance if self._execution else 0.0
        if self._seconds > self._expected * _LATE_FACTOR + _LATE_SECONDS + allowance:
            return True
        return self._is_queued and self._seconds > _PATIENCE and (slot is None or slot.is_in_pool)

    def end(self) -> bool:
        """Raises errors that remote execution did not cause."""
        assert self.job
        self._slot.release()
        if self.job.error is None:
            self._executor.note_success()
            return True
        error = self._as_executor_error(self.job.error)
        self._executor.note_failure(error)
        self.task.stays_here = True
        if self.task.state == State.READY and not self.task.winner:
            self.task.why_here = error.fault
        return False

    def take(self) -> Made:
        assert self.job
        return self._executor.take(self.task.stage, self.job.result)

    def cancel(self) -> None:
        if self.job:
            self.job.handle.end()
        else:
            self._slot.release()

    def lose(self) -> None:
        """The local run was first."""
        has_begun = self._execution is not None and self._execution.has_answered and not self._is_queued
        if has_begun:
            self._executor.note_loss()
        elif self._execution and self._seconds > _STUCK_SECONDS:
            fault = faults.NO_WORKERS if self._is_queued else faults.TIMEOUT
            self._executor.note_failure(ExecutorError(fault, f"it did not start in {self._seconds:.1f} s"))
        self.task.why_here = faults.OVERTAKEN
        self.cancel()

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def _is_queued(self) -> bool:
        return self._execution is not None and self._execution.is_queued

    def _as_executor_error(self, error: BaseException) -> ExecutorError:
        """Raises what must surface: LostResultError, interrupts, and bugs if strict."""
        if isinstance(error, ExecutorError):
            return error
        if isinstance(error, OSError):
            return ExecutorError(faults.FAILED, str(error))
        is_bug = isinstance(error, Exception) and not isinstance(error, LostResultError)
        if not is_bug or self._executor.is_strict:
            raise error
        return ExecutorError(faults.BROKEN, f"{type(error).__name__}: {error}")
