"""The stages of one call: their states, their times, and which can be looked up.

Unaware of slots, other processes and the store.
"""

from __future__ import annotations

from nvccache import module_id
from nvccache.plan.model import ANY_WRAPPER, Stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nvccache.compile.jobs import Job, Jobs
    from nvccache.execution.context import Action
    from nvccache.execution.run_stage import Made
    from nvccache.execution.staged_call import StagedCall
    from nvccache.machine.process import Completed
    from nvccache.machine.slots import Slot
    from nvccache.plan.model import Plan
    from nvccache.records.record import Entry
    from nvccache.store.event_line import StageEvent
    from nvccache.store.inflight import Claim

_IDLE_SECONDS = 0.5
_LONG_SECONDS = 0.5  # long compared with a query of a remote


class State:
    """Plain strings: creating an Enum takes as long as importing the rest of this module."""

    WAITING = "waits for its inputs"
    READY = "has no result yet"  # sources may be working on one: its promises
    DONE = "done"


class Task:
    """One stage: its state and result."""

    def __init__(self, number: int, stage: Stage) -> None:
        self.number = number  # in nvcc's order
        self.stage = stage
        self.state = State.WAITING
        self.action: Action | None = None  # its keys, once it has been looked up
        self.found: Entry | None = None  # its result from a cache
        self.made: Made | None = None  # or from a run
        self.record_name = ""  # of that result in the cache
        self.completed: Completed | None = None
        self.event: StageEvent | None = None  # set when the call has ended
        self.promises: list[Promise] = []  # begun and not ended
        self.winner: Promise | None = None  # the promise with the result, until that is taken
        self.may_share = True  # whether to wait for other processes that run the same
        self.claim: Claim | None = None
        self.ran_elsewhere = False  # whether another process ran it
        self.began = 0.0  # when its tool first ran, or it was found, by the monotonic clock
        self.slot_number = -1  # of the slot it ran in
        self.stays_here = False  # whether it must not be sent to another machine again
        self.why_here = ""  # why it ran here although it was sent: a code of the event log

    @property
    def is_hit(self) -> bool:
        return self.found is not None

    @property
    def is_moved(self) -> bool:
        """Whether its result was made from text with other line numbers."""
        if not self.found or not self.action:
            return False
        return tuple(self.found.result.text) != self.action.text

    @property
    def effects_of_wrapper(self) -> Sequence[str]:
        """What its run, now or earlier, showed of its wrapper (wrappers.py)."""
        return self.made.wrapper if self.made else self.found.result.wrapper if self.found else ()

    @property
    def has_failed(self) -> bool:
        return self.completed is not None and self.completed.status != 0

    @property
    def has_warned(self) -> bool:
        """Whether its tool succeeded but printed something."""
        completed = self.completed
        return completed is not None and completed.status == 0 and bool(completed.stdout or completed.stderr)

    @property
    def run(self) -> Promise | None:
        """The current run of its tool on this machine, if there is one."""
        return next((promise for promise in self.promises if promise.runs_here), None)

    @property
    def waits_for_slot(self) -> bool:
        """Whether only a slot is missing for a run here."""
        is_open = self.state == State.READY and self.winner is None
        return is_open and all(promise.admits(None) for promise in self.promises)


class Promise:
    """What one source does for one task.

    It ends with its job, with a result or without; one without a job is polled.
    """

    runs_here = False  # if set, a result from elsewhere is taken only after its end
    is_timed = True  # whether its time counts as the stage's
    poll_seconds = _IDLE_SECONDS

    def __init__(self, task: Task) -> None:
        self.task = task
        self.job: Job | None = None

    def begin(self, jobs: Jobs) -> None:
        raise NotImplementedError

    def admits(self, slot: Slot | None) -> bool:
        """Whether the stage may also run here, in this slot; with None, in any slot."""
        return False

    def has_ended(self) -> bool:
        """Polled if there is no job."""
        return False

    def end(self) -> bool:
        """Release what it holds, after its end; whether there is a result. Raises the job's error."""
        raise NotImplementedError

    def take(self) -> Entry | Made:
        """The result, noted as if it had been found or made here; raises OSError."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Called when it is no longer wanted, perhaps before it began."""
        if self.job:
            self.job.handle.end()

    def lose(self) -> None:
        """Called when another promise of the task has won."""
        self.cancel()


class Source:
    """A source of results; for the main thread of one call."""

    def offer(self, task: Task) -> Promise | None:
        """A promise to get the result of a stage, ready to begin; or None."""
        raise NotImplementedError

    def note_end(self, task: Task) -> None:
        """Called when a stage has run, here or elsewhere."""

    def stop(self) -> None:
        """Stop waiting for anything."""

    def close(self) -> None:
        """Release everything, also for jobs that were stopped."""


if TYPE_CHECKING:
    SourceOf = Callable[[StagedCall], Source]  # makes the source of one call


def _urgency(task: Task) -> tuple[int, int]:
    """A sort key: the most urgent task is the smallest."""
    tool = task.stage.tool
    return -tool.priority, -task.number if tool.starts_in_reverse else task.number


def _is_unknown_wrapper(task: Task) -> bool:
    """Whether its stage runs a wrapper of a host compiler that may do anything."""
    return task.stage.wrapper == ANY_WRAPPER


class Tasks:
    """The stages of one call, in nvcc's order. `read_by` returns the intermediates that a stage reads."""

    def __init__(self, plan: Plan, read_by: Callable[[Stage], list[str]]) -> None:
        self.all = [Task(number, step) for number, step in enumerate(plan.steps) if isinstance(step, Stage)]
        self.by_urgency = sorted(self.all, key=_urgency)
        self._plan = plan
        self._read_by = read_by
        self._by_output = {output.path: task for task in self.all for output in task.stage.outputs}
        self._first_passes: dict[str, Task | None] = {}  # by the file that holds the id
        self._delivered_up_to = 0  # the products of stages before this one have been delivered
        self._limit = len(plan.steps)  # stages after this one do not run

    def task_writing(self, path: str) -> Task:
        return self._by_output[path]

    def ended(self) -> list[Task]:
        return [task for task in self.all if task.completed]

    def count_done(self) -> int:
        return sum(task.state == State.DONE for task in self.all)

    def may_run(self, task: Task) -> bool:
        """Whether nothing before it in nvcc's order has failed."""
        return task.number < self._limit

    def wanted(self) -> list[Task]:
        """The tasks that nvcc would run too, as far as is known."""
        return [task for task in self.all if self.may_run(task)]

    def delivered(self, task: Task) -> None:
        """Note that the products of a stage, and of those before it, have been delivered."""
        self._delivered_up_to = task.number + 1

    def drop_after(self, task: Task) -> list[Task]:
        """The tasks after one that failed, in nvcc's order, which do not run."""
        self._limit = min(self._limit, task.number)
        return [other for other in self.all if other.number > self._limit]

    def can_be_looked_up(self, task: Task) -> bool:
        if task.state != State.WAITING or task.number > self._limit:
            return False
        if task.stage.grammar.stays_in_order or any(
            other.stage.grammar.stays_in_order and other.number < task.number and other.state != State.DONE
            for other in self.all
        ):
            # Its inputs and outputs are not all known, so it stays in nvcc's order. It may also use products,
            # which have to be delivered before.
            before = [other for other in self.all if other.number < task.number]
            return all(other.state == State.DONE and other.number < self._delivered_up_to for other in before)
        if _is_unknown_wrapper(task) and any(
            _is_unknown_wrapper(other) and other.number < task.number and other.state != State.DONE
            for other in self.all
            if other.stage.is_preprocessor == task.stage.is_preprocessor  # compiles wait for passes
        ):
            return False  # they may use the same file, one after the other
        if task.stage.tool.waits_for_passes and not self._passes_are_known(task):
            return False
        # Not all passes: cudafe++, which finds most errors, can run before those for the device.
        first = self._first_pass_for_id(task.stage)
        if first and first.state != State.DONE:
            return False
        read = self._read_by(task.stage)
        return all(self._by_output[path].state == State.DONE for path in read if path in self._by_output)

    def _first_pass_for_id(self, stage: Stage) -> Task | None:
        """The pass whose text is in the module id that a stage reads, if it reads one."""
        path = module_id.file_of(stage)
        if path and path not in self._first_passes:
            first = module_id.first_pass_of(self._plan, stage)
            self._first_passes[path] = self._by_output[first.outputs[0].path] if first else None
        return self._first_passes.get(path)

    def reads_quick_output(self, task: Task) -> bool:
        """Whether a stage reads the output of another, not a pass, that has just run in a short time.

        No cache had that one's result, so none is likely to have this one's, and a query takes long compared
        with what it could save. Where the other took long a query is made: an edit of host code, for example,
        does not change device code.
        """
        read = [path for path in self._read_by(task.stage) if path in self._by_output]
        makers = [self._by_output[path] for path in read]
        made = [maker for maker in makers if not maker.is_hit and not maker.stage.is_preprocessor]
        return any(maker.completed and maker.completed.seconds < _LONG_SECONDS for maker in made)

    def _passes_are_known(self, task: Task) -> bool:
        """Whether all passes that can run before a stage are done; those after a failure cannot."""
        end = min(self._limit + 1, self._plan.end_of_passes(task.number))
        passes = [other for other in self.all if other.stage.is_preprocessor and other.number < end]
        return all(other.state == State.DONE for other in passes)
