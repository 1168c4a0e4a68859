"""Other machines as a source of results.

A stage is sent if no core is idle here. Meanwhile it keeps its claim, but no local slot and no memory. If it
gets no result, it runs here, and nothing is sent for a while (remote/outages.py).
"""

from __future__ import annotations

from nvccache import endpoint
from nvccache.compile.jobs import Jobs
from nvccache.compile.tasks import Promise, Source, State, Task
from nvccache.config import Config
from nvccache.execution.run_stage import LostResultError, Made
from nvccache.machine.slots import PoolSlot
from nvccache.remote_execution import faults
from nvccache.remote_execution.executor import Executor
from nvccache.remote_execution.faults import ExecutorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.compile.tasks import SourceOf


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
        """A promise for a stage that may be sent, at most one per stage."""
        if task.stays_here or any(isinstance(promise, RemoteRun) for promise in task.promises):
            return None
        slot = self._executor.take_slot() if self._executor.may_send(task.stage) else None
        if not slot:
            return None
        self._slots.append(slot)
        return RemoteRun(task, self._executor, slot)

    def note_end(self, task: Task) -> None:
        """A stage that failed elsewhere and not here tells of a fault there."""
        if task.why_here == faults.FAILED and task.completed and task.completed.status == 0:
            self._executor.begin_outage(faults.FAILED, "a stage failed there and not here")

    def close(self) -> None:
        for slot in self._slots:
            slot.release()


class RemoteRun(Promise):
    """A stage's tool runs on another machine."""

    def __init__(self, task: Task, executor: Executor, slot: PoolSlot) -> None:
        super().__init__(task)
        self._executor = executor
        self._slot = slot

    def begin(self, jobs: Jobs) -> None:
        self.job = jobs.start(lambda handle: self._executor.run(self.task.stage, handle))

    def end(self) -> bool:
        """Raises errors that remote execution did not cause."""
        assert self.job
        self._slot.release()
        if self.job.error is None:
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
