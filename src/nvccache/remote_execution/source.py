"""Other machines as a source of results: when a stage is sent, and when it is tried here as well.

A stage that is away keeps its claim and has neither slot nor memory. It is sent where no core is idle here. A
second try begins here when one is overdue, or waits for a worker while a core is idle: the first that ends
counts.
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
from nvccache.remote_execution.work import CameBack

TYPE_CHECKING = False  # a call loads the one of these that it needs
if TYPE_CHECKING:
    from nvccache.compile.tasks import SourceOf
    from nvccache.remote_execution.engine import EngineTry
    from nvccache.remote_execution.prefix import LauncherTry

_PATIENCE = 1.0  # seconds in a queue before an idle core takes over
_LATE_FACTOR, _LATE_SECONDS = 1.5, 2.0  # of what a stage is expected to take, and on top of it
_UNMOVED_SECONDS = 3.0  # in a queue, from which on the engine is left alone


def of_config(config: Config) -> SourceOf:
    """What makes the source of a call, on the executor that is set."""
    where = endpoint.parse(config.executor)
    return lambda call: OtherMachines(Executor(call, where, config))


class OtherMachines(Source):
    """The executor of one call."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._places: list[PoolSlot] = []

    def offer(self, task: Task) -> RemoteRun | None:
        """A place for a stage that is worth sending, once."""
        if task.stays or any(isinstance(promise, RemoteRun) for promise in task.promises):
            return None
        expected = self._executor.expected_seconds(task.stage)
        place = self._executor.place() if expected else None
        if not place:
            return None
        self._places.append(place)
        return RemoteRun(task, self._executor, place, expected)

    def note_end(self, task: Task) -> None:
        """Remember what a stage took, for the next time, and that it failed elsewhere if only there."""
        completed = task.completed
        if completed and completed.status == 0:
            self._executor.remember(task.stage, completed.seconds)
            if task.why_here == faults.FAILED:
                self._executor.lost()

    def close(self) -> None:
        for place in self._places:
            place.release()


class RemoteRun(Promise):
    """A stage's tool runs on another machine."""

    __slots__ = ("_attempt", "_executor", "_expected", "_place", "_started")
    poll_seconds = sources.POLL_FOR_SLOTS_SECONDS

    def __init__(self, task: Task, executor: Executor, place: PoolSlot, expected: float) -> None:
        super().__init__(task)
        self._executor = executor
        self._place = place
        self._expected = expected  # seconds
        self._started = time.monotonic()
        self._attempt: EngineTry | LauncherTry | None = None  # once its inputs are made

    def begin(self, jobs: Jobs) -> None:
        self.job = jobs.start(self._run)

    def _run(self, handle: Handle) -> CameBack:
        self._attempt = self._executor.attempt(self.task.stage, handle)
        return self._executor.checked(self.task.stage, self._attempt.run())

    def admits(self, slot: Slot | None) -> bool:
        """Beside one that is overdue, in any slot; beside one in a queue, on an idle core."""
        allowance = self._attempt.allowance if self._attempt else 0.0
        if self._seconds > self._expected * _LATE_FACTOR + _LATE_SECONDS + allowance:
            return True
        return self._is_queued and self._seconds > _PATIENCE and (slot is None or slot.is_in_pool)

    def end(self) -> bool:
        """Raises what is no trouble of other machines."""
        assert self.job
        self._place.release()
        if self.job.error is None:
            self._executor.succeeded()
            return True
        trouble = self._as_trouble(self.job.error)
        self._executor.failed(trouble)
        self.task.stays = True
        if self.task.state == State.READY and not self.task.winner:
            self.task.why_here = trouble.word
        return False

    def take(self) -> Made:
        assert self.job
        return self._executor.take(self.task.stage, self.job.result)

    def cancel(self) -> None:
        if self.job:
            self.job.handle.end()
        else:
            self._place.release()

    def lose(self) -> None:
        """The try here was first."""
        has_begun = self._attempt is not None and self._attempt.has_answered and not self._is_queued
        if has_begun:
            self._executor.lost()
        elif self._attempt and self._seconds > _UNMOVED_SECONDS:
            word = faults.NO_WORKERS if self._is_queued else faults.TIMEOUT
            self._executor.failed(ExecutorError(word, f"nothing has begun after {self._seconds:.1f} s"))
        self.task.why_here = faults.OVERTAKEN
        self.cancel()

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def _is_queued(self) -> bool:
        return self._attempt is not None and self._attempt.is_queued

    def _as_trouble(self, error: BaseException) -> ExecutorError:
        """What went wrong with a stage that was sent; raises what is to surface."""
        if isinstance(error, ExecutorError):
            return error
        if isinstance(error, OSError):
            return ExecutorError(faults.FAILED, str(error))
        is_bug = isinstance(error, Exception) and not isinstance(error, LostResultError)
        if not is_bug or self._executor.is_strict:
            raise error
        return ExecutorError(faults.BROKEN, f"{type(error).__name__}: {error}")
