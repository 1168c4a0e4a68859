"""The stages of one call on their way: their states, their times, and which can be looked up.

Knows nothing of slots, other processes or the store.
"""

from __future__ import annotations

import time

from nvccache import module_id as ids
from nvccache.execution import rehearsals
from nvccache.plan.model import Stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from nvccache.compile.jobs import Job, Jobs
    from nvccache.execution.context import Action
    from nvccache.execution.run_stage import Made
    from nvccache.execution.staged_call import StagedCall
    from nvccache.machine.process import Completed
    from nvccache.machine.slots import Slot
    from nvccache.plan.model import Plan
    from nvccache.records.record import Pair
    from nvccache.store.event_line import StageEvent
    from nvccache.store.inflight import Claim

_IDLE_SECONDS = 0.5
_LONG_SECONDS = 0.5  # compared with which a round trip to another cache is short


class State:
    """Plain strings: an Enum takes as long to make as the rest of this module."""

    WAITING = "waits for what it reads"
    READY = "has no result yet"  # sources may be at work on one: its promises
    GUESSED = "has run, and may have guessed wrong"
    DONE = "done"


class Task:
    """One stage on its way."""

    def __init__(self, number: int, stage: Stage) -> None:
        self.number = number  # in nvcc's order
        self.stage = stage
        self.state = State.WAITING
        self.action: Action | None = None  # its keys, when it has been looked up
        self.found: Pair | None = None  # its result, if some cache has it
        self.made: Made | None = None  # or else that of a run
        self.completed: Completed | None = None
        self.event: StageEvent | None = None  # what became of it, when the call has ended
        self.promises: list[Promise] = []  # begun, and not at their end
        self.winner: Promise | None = None  # with the result, until that is taken
        self.shares = True  # whether it is worth waiting for others that run the same
        self.claim: Claim | None = None
        self.was_elsewhere = False  # whether another process ran it meanwhile
        self.guesses = False  # the module id, see schedule.py
        self.in_vain = 0.0  # seconds for which its tool ran with another id than nvcc's
        self.slot_number = -1  # of the one that it ran in
        self.stays = False  # whether it is not sent to another machine again
        self.why_here = ""  # though it was sent: a word of the event log

    @property
    def is_hit(self) -> bool:
        return self.found is not None

    @property
    def is_moved(self) -> bool:
        """Whether its result was made from text whose lines are elsewhere."""
        if not self.found or not self.action:
            return False
        return tuple(self.found.result.text) != self.action.text

    @property
    def has_failed(self) -> bool:
        return self.completed is not None and self.completed.status != 0

    @property
    def has_warned(self) -> bool:
        """Whether its tool printed something, and did not fail."""
        completed = self.completed
        return completed is not None and completed.status == 0 and bool(completed.stdout or completed.stderr)

    @property
    def run(self) -> Promise | None:
        """The run of its tool here, while there is one."""
        return next((promise for promise in self.promises if promise.runs_here), None)

    @property
    def waits_for_slot(self) -> bool:
        """Whether a run here could begin, if there were a slot."""
        is_open = self.state == State.READY and self.winner is None
        return is_open and all(promise.admits(None) for promise in self.promises)


class Promise:
    """What one source does for one task.

    Its job ends when it has come to its end, with a result or without; one that has no job is asked from time
    to time.
    """

    runs_here = False  # so that a result from elsewhere has to wait for its end
    is_timed = True  # it takes the stage's time: the stage does not go on otherwise
    poll_seconds = _IDLE_SECONDS

    def __init__(self, task: Task) -> None:
        self.task = task
        self.job: Job | None = None
        self.is_wrong = False  # a run that is ended, since it guessed wrong

    def begin(self, jobs: Jobs) -> None:
        raise NotImplementedError

    def admits(self, slot: Slot | None) -> bool:
        """Whether the stage may also run here, in this slot; with None, in any slot."""
        return False

    def has_ended(self) -> bool:
        """Without a job: whether it has come to its end."""
        return False

    def end(self) -> bool:
        """Give back what it holds, as it has ended; whether there is a result. Raises what has gone wrong."""
        raise NotImplementedError

    def take(self) -> Pair | Made:
        """The result, taken in as if it had been found or made here; raises OSError."""
        raise NotImplementedError

    def cancel(self) -> None:
        """It is not wanted any more, or never was begun."""
        if self.job:
            self.job.handle.end()

    def lose(self) -> None:
        """Another promise of the task was first."""
        self.cancel()


class Source:
    """Who can give results; for the main thread of one call."""

    def offer(self, task: Task) -> Promise | None:
        """What could be begun now to get the result of a stage, or None."""
        raise NotImplementedError

    def note_end(self, task: Task) -> None:
        """A stage has run to its end, here or elsewhere."""

    def stop(self) -> None:
        """Have nothing waited for any more."""

    def close(self) -> None:
        """Give back all that is held, for jobs that were stopped as well."""


if TYPE_CHECKING:
    SourceOf = Callable[[StagedCall], Source]  # makes the source of one call


def _urgency(task: Task) -> tuple[int, int]:
    """What comes first is smaller."""
    tool = task.stage.tool
    return -tool.priority, -task.number if tool.starts_in_reverse else task.number


def _may_do_anything(task: Task) -> bool:
    """Whether its stage runs a wrapper of a host compiler, and it is not known what the wrapper becomes."""
    return rehearsals.runs_host_compiler(task.stage) and not task.stage.command


class Tasks:
    """The stages of one call, in nvcc's order. `read_by` tells which intermediates a stage reads."""

    def __init__(self, plan: Plan, read_by: Callable[[Stage], list[str]]) -> None:
        self.all = [Task(number, step) for number, step in enumerate(plan.steps) if isinstance(step, Stage)]
        self.by_urgency = sorted(self.all, key=_urgency)
        self._plan = plan
        self._read_by = read_by
        self._by_output = {output.path: task for task in self.all for output in task.stage.outputs}
        self._delivered_up_to = 0  # the products of stages before this one are where the user wants them
        self._limit = len(plan.steps)  # stages behind this one do not run any more

    def that_writes(self, path: str) -> Task:
        return self._by_output[path]

    def is_done(self, path: str) -> bool:
        """Whether the stage is done that writes a file."""
        return self._by_output[path].state == State.DONE

    def ended(self) -> list[Task]:
        return [task for task in self.all if task.completed]

    def diagnostics(self) -> bytes:
        """All that the tools have printed by now."""
        completed = [task.completed for task in self.all]
        return b"".join([done.stdout + done.stderr for done in completed if done])

    def count_done(self) -> int:
        return sum(task.state == State.DONE for task in self.all)

    def may_run(self, task: Task) -> bool:
        """Whether it is wanted: nothing before it in nvcc's order has failed."""
        return task.number < self._limit

    def wanted(self) -> list[Task]:
        """Those that nvcc would run as well, as far as it is known."""
        return [task for task in self.all if self.may_run(task)]

    def delivered(self, task: Task) -> None:
        """The products of a stage, and of those before it, are where the user wants them."""
        self._delivered_up_to = task.number + 1

    def drop_after(self, task: Task) -> list[Task]:
        """The stages behind this one in nvcc's order would not have run: it failed."""
        self._limit = min(self._limit, task.number)
        return [other for other in self.all if other.number > self._limit]

    def can_be_looked_up(self, task: Task) -> bool:
        if task.state != State.WAITING or task.number > self._limit:
            return False
        if task.stage.grammar.stays_in_order or any(
            other.stage.grammar.stays_in_order and other.number < task.number and other.state != State.DONE
            for other in self.all
        ):
            # It reads and writes what is only known to itself: it keeps its place in nvcc's order.
            # What is not understood may also work on products, which have to be where it expects them.
            before = [other for other in self.all if other.number < task.number]
            return all(other.state == State.DONE and other.number < self._delivered_up_to for other in before)
        if _may_do_anything(task) and any(
            _may_do_anything(other) and other.number < task.number and other.state != State.DONE
            for other in self.all
            if other.stage.is_preprocessor == task.stage.is_preprocessor  # compiles wait for passes
        ):
            return False  # they may use one file in turns
        needs_all_text = task.stage.tool.waits_for_passes or ids.generates(task.stage)
        if needs_all_text and not self._passes_are_known(task):
            return False
        read = self._read_by(task.stage)
        return all(self.is_done(path) for path in read if path in self._by_output)

    def reads_quick_output(self, task: Task) -> bool:
        """Whether a stage reads what another has just made in no time, as no cache had it; passes aside.

        It is unlikely that somebody has its result, and asking would take longer, by comparison, than where
        the other took long: an edit of host code leaves the device code as it was.
        """
        read = [path for path in self._read_by(task.stage) if path in self._by_output]
        makers = [self._by_output[path] for path in read]
        made = [maker for maker in makers if not maker.is_hit and not maker.stage.is_preprocessor]
        return any(maker.completed and maker.completed.seconds < _LONG_SECONDS for maker in made)

    def _passes_are_known(self, task: Task) -> bool:
        """Whether all passes are done that can run before a stage: not those behind one that failed."""
        end = min(self._limit + 1, self._plan.end_of_passes(task.number))
        passes = [other for other in self.all if other.stage.is_preprocessor and other.number < end]
        return all(other.state == State.DONE for other in passes)


class StageClock:
    """When the stages of one call ran, and which share of the call's wall time each of them took.

    Tools that run side by side share the time: what they take together is what the call waited for them, and
    the shares of all stages add up to the time in which a tool ran. On a machine that does more than this
    call, a tool waits for a CPU for a part of that. What a stage saves that is found later is the rest of its
    share. In seconds since the call began, by the monotonic clock; for one thread only.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self.began = self._last = now()
        self._running: set[Hashable] = set()
        self._starts: dict[Hashable, float] = {}
        self._shares: dict[Hashable, float] = {}  # of the time that passed
        self._times: dict[Hashable, float] = {}  # for which its tool ran

    def start(self, stage: Hashable) -> None:
        """A tool begins to run for this stage, perhaps once more."""
        self._pass()
        self._running.add(stage)
        self._starts.setdefault(stage, self._last - self.began)

    def end(self, stage: Hashable) -> None:
        """It has ended; again is once."""
        self._pass()
        self._running.discard(stage)

    def note(self, stage: Hashable) -> None:
        """It was found now, and needs no tool."""
        self._starts.setdefault(stage, self._now() - self.began)

    def start_of(self, stage: Hashable) -> float:
        """When its tool began to run, or when it was found; 0 if neither."""
        return self._starts.get(stage, 0.0)

    def share_of(self, stage: Hashable, cost: float) -> float:
        """What of the call's wall time the stage took until now, had its tool run for `cost` seconds only."""
        self._pass()
        ran = self._times.get(stage, 0.0)
        return self._shares[stage] * min(1.0, cost / ran) if ran > 0 else 0.0

    @property
    def busy(self) -> float:
        """The seconds in which a tool ran."""
        self._pass()
        return sum(self._shares.values())

    def _pass(self) -> None:
        now = self._now()
        for stage in self._running:
            share = (now - self._last) / len(self._running)
            self._shares[stage] = self._shares.get(stage, 0.0) + share
            self._times[stage] = self._times.get(stage, 0.0) + now - self._last
        self._last = now
