"""The stages of one call that are on other machines, and when one has been there for too long.

A stage that is away keeps its claim and has neither slot nor memory. It is sent where no core is idle here. A
second try begins here when one is overdue, or waits for a worker while a core is idle: the first that ends
counts.
"""

from __future__ import annotations

import time

from nvccache.compile.tasks import State
from nvccache.execution.run_stage import LostResultError
from nvccache.remote_execution import faults
from nvccache.remote_execution.faults import AwayError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nvccache.compile.jobs import Job, Jobs
    from nvccache.compile.tasks import Task
    from nvccache.execution.send_stage import Sending
    from nvccache.machine.slots import PoolSlot
    from nvccache.remote_execution.work import CameBack

IDLE, OVERDUE = "a core is idle", "it is overdue"
_PATIENCE = 1.0  # seconds in a queue before an idle core takes over
_LATE_FACTOR, _LATE_SECONDS = 1.5, 2.0  # of what a stage is expected to take, and on top of it
_UNMOVED_SECONDS = 3.0  # in a queue, from which on the engine is left alone


class Trip:
    """One stage on its way to another machine and back. `told` holds the try, once there is one."""

    __slots__ = ("expected", "place", "started", "told")

    def __init__(self, place: PoolSlot, expected: float) -> None:
        self.place = place
        self.expected = expected
        self.started = time.monotonic()
        self.told: list[Any] = []

    @property
    def is_queued(self) -> bool:
        return bool(self.told) and bool(self.told[0].is_queued)

    @property
    def has_not_moved(self) -> bool:
        """Whether it waits for a worker, or for an answer of any kind."""
        return self.is_queued or (bool(self.told) and not self.told[0].has_answered)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


class Away:
    """For the main thread of one call."""

    def __init__(self, sending: Sending, jobs: Jobs) -> None:
        self._sending = sending
        self._jobs = jobs
        self._trips: dict[Task, Trip] = {}

    def reserve(self, task: Task) -> bool:
        """Whether a stage that has to run is to be sent; it has a place then."""
        if task.stays:
            return False
        expected = self._sending.expected_seconds(task.stage)
        place = self._sending.executor.place() if expected else None
        if not place:
            return False
        self._trips[task] = Trip(place, expected)
        return True

    def start(self, task: Task) -> None:
        """Send a stage for which there is a place."""
        trip, stage = self._trips[task], task.stage
        task.state = State.AWAY
        task.sent = self._jobs.start(lambda handle: self._sending.run(stage, handle, trip.told))

    def need_of_help(self, task: Task) -> str:
        """Why a stage that is away should be tried here as well, or empty."""
        trip = self._trips.get(task)
        if not trip or task.state != State.AWAY or task.job or task.back:
            return ""
        allowance = trip.told[0].allowance if trip.told else 0.0
        if trip.seconds > trip.expected * _LATE_FACTOR + _LATE_SECONDS + allowance:
            return OVERDUE
        return IDLE if trip.is_queued and trip.seconds > _PATIENCE else ""

    def end(self, job: Job) -> Task | None:
        """The stage of a job that sent one, with `back` if it came back; None for another job.

        Raises what is no trouble of other machines.
        """
        task = next((task for task in self._trips if task.sent is job), None)
        if task is None:
            return None
        task.sent = None
        self.give_place_back(task)
        if job.error is None:
            self._sending.executor.succeeded()
            if task.state == State.AWAY:
                task.back = job.result
            return task
        task.stays = True
        trouble = self._as_trouble(job.error)
        self._sending.executor.failed(trouble)
        if task.state == State.AWAY:
            task.state = State.RUNNING if task.job else State.READY
            task.why_here = trouble.word
        return task

    def _as_trouble(self, error: BaseException) -> AwayError:
        """What went wrong with a stage that was sent; raises what is to surface."""
        if isinstance(error, AwayError):
            return error
        if isinstance(error, OSError):
            return AwayError(faults.FAILED, str(error))
        is_bug = isinstance(error, Exception) and not isinstance(error, LostResultError)
        if not is_bug or self._sending.executor.is_strict:
            raise error
        return AwayError(faults.BROKEN, f"{type(error).__name__}: {error}")

    def overtake(self, task: Task) -> None:
        """The try here was first: end the other."""
        trip = self._trips.get(task)
        if not trip or not task.sent:
            return
        if trip.seconds > _UNMOVED_SECONDS and trip.has_not_moved:
            word = faults.NO_WORKERS if trip.is_queued else faults.TIMEOUT
            self._sending.executor.failed(AwayError(word, f"nothing has begun after {trip.seconds:.1f} s"))
        elif not trip.has_not_moved:
            self._sending.executor.lost()
        task.why_here = faults.OVERTAKEN
        task.sent.handle.end()

    def give_place_back(self, task: Task) -> None:
        trip = self._trips.pop(task, None)
        if trip:
            trip.place.release()

    def give_all_back(self) -> None:
        for task in tuple(self._trips):
            self.give_place_back(task)

    def note_time(self, task: Task) -> None:
        """Remember what a stage took, for the next time, and that it failed elsewhere if only there."""
        completed = task.completed
        if completed and completed.status == 0:
            self._sending.note_time(task.stage, completed.seconds)
            if task.why_here == faults.FAILED:
                self._sending.executor.lost()

    def take(self, task: Task) -> Any:
        """What a stage has made elsewhere, taken in as if it had run here; raises OSError."""
        back: CameBack | None = task.back
        assert back
        task.back = None
        return self._sending.take(task.stage, back)
