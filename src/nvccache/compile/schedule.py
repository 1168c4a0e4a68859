"""Which stage runs when: by what it reads and who makes that, as slots, memory and other processes allow.

A stage is looked up as soon as the digests of all it reads are known. If it has to run, it needs a slot, a
claim against other processes that want the same, and, beside others of this call, memory. A claim is only
held by a stage that runs, so that no two processes wait for each other (docs/development/design-notes.md).
Results go to the store in the background, when the stages that were waiting for them have started.
"""

from __future__ import annotations

import enum
import signal

from nvccache.compile.jobs import Background, Job, Jobs
from nvccache.machine import memory, watchdog
from nvccache.machine.process import Completed
from nvccache.plan.model import OPAQUE, Stage
from nvccache.store import inflight
from nvccache.store.inflight import Claim, Claims, Wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.execution.execution import Execution
    from nvccache.execution.find_stage import Lookup
    from nvccache.execution.run_stage import Made
    from nvccache.machine.slots import Slot, Slots

_POLL_SECONDS = 0.02  # for claims that others give up
_POLL_FOR_SLOTS_SECONDS = 0.1
_IDLE_SECONDS = 0.5
# What the whole takes after a stage, roughly, in tenths of a Thrust compile: the longest way goes first. The
# host's side goes before, since it is the one that tells of errors first.
_WEIGHTS = {"host_preprocess": 30, "cudafe": 29, "device_preprocess": 9, "cicc": 8, "ptxas": 4}


class State(enum.Enum):
    WAITING = "waits for what it reads"
    READY = "has to run"
    ELSEWHERE = "is run by another process"
    RUNNING = "runs"
    DONE = "done"


class Task:
    """One stage on its way."""

    __slots__ = (
        "again",
        "claim",
        "completed",
        "is_hit",
        "job",
        "lookup",
        "made",
        "memory",
        "number",
        "shares",
        "slot",
        "stage",
        "state",
        "wait",
    )

    def __init__(self, number: int, stage: Stage) -> None:
        self.number = number  # in nvcc's order
        self.stage = stage
        self.state = State.WAITING
        self.lookup: Lookup | None = None
        self.completed: Completed | None = None
        self.made: Made | None = None
        self.is_hit = False
        self.shares = True  # whether it is worth waiting for others that run the same
        self.claim: Claim | None = None
        self.wait: Wait | None = None
        self.slot: Slot | None = None
        self.job: Job | None = None
        self.again: Job | None = None
        self.memory = 0

    @property
    def has_failed(self) -> bool:
        return self.completed is not None and self.completed.status != 0


def _urgency(task: Task) -> tuple[int, int]:
    """What comes first is smaller.

    Of several ptxas the last comes first: architectures are mostly listed from old to new, ptxas takes
    longest for new ones, and a long one that starts last leaves the other cores idle.
    """
    kind = task.stage.kind
    return -_WEIGHTS.get(kind, 0), -task.number if kind == "ptxas" else task.number


class Schedule:
    """The stages of one call; for the main thread only."""

    def __init__(self, execution: Execution, slots: Slots, claims: Claims | None) -> None:
        self.tasks = [
            Task(number, step) for number, step in enumerate(execution.plan.steps) if isinstance(step, Stage)
        ]
        self._execution = execution
        self._slots = slots
        self._claims = claims
        self._jobs = Jobs()
        self._background = Background()
        self._spare: Slot | None = None  # the call's own slot is kept between its stages
        self._by_output = {output.path: task for task in self.tasks for output in task.stage.outputs}
        self._order = sorted(self.tasks, key=_urgency)
        self._delivered_up_to = 0  # the products of stages before this one are where the user wants them
        self._limit = len(execution.plan.steps)  # stages behind this one do not run any more
        self._is_full = False  # whether there was no slot when last asked for

    def advance(self) -> None:
        """Look up and start what can be."""
        self.look_up()
        while self.start():
            self.look_up()

    def look_up(self) -> None:
        """Look up what can be; what is found may let more be looked up."""
        before = -1
        while before != self._count_done():
            before = self._count_done()
            for task in self.tasks:
                if self._can_be_looked_up(task):
                    self._look_up(task)

    def start(self) -> bool:
        """Start what has to run; whether results were found meanwhile, so that more may be looked up."""
        before = self._count_done()
        self._is_full = False
        for task in self._order:
            if task.state is State.ELSEWHERE:
                self._look_elsewhere(task)
            if task.state is State.READY and task.number < self._limit and not self._is_full:
                self._start(task)
        if before != self._count_done():
            return True
        self._rest_if_idle()
        return False

    def is_made(self, path: str) -> bool:
        """Whether the stage that writes a file has ended; on its thread it may be known before."""
        return self._by_output[path].state is State.DONE

    def _count_done(self) -> int:
        return sum(task.state is State.DONE for task in self.tasks)

    def wait(self) -> list[Task]:
        """The stages that have come to their end, after waiting for one; some more may be ready now.

        Raises RuntimeError where nothing would ever end, which nvcc is better than.
        """
        states = {task.state for task in self.tasks if task.number < self._limit}
        if not self._jobs.are_running and states.isdisjoint((State.READY, State.ELSEWHERE)):
            raise RuntimeError("no stage can go on")
        waits_for_slots = State.READY in states and self._slots.may_become_free()
        idle = _POLL_FOR_SLOTS_SECONDS if waits_for_slots else _IDLE_SECONDS
        jobs = self._jobs.wait(_POLL_SECONDS if State.ELSEWHERE in states else idle)
        if self._claims:
            self._claims.beat()
        return [task for task in map(self._end, jobs) if task]

    def finish(self, is_wanted: bool = True) -> None:
        """End what still runs, put into the store what was made, and give everything up."""
        # What was told to stop may take the time it needs; whoever cannot wait tells it twice.
        signum = signal.SIGKILL if is_wanted else signal.SIGTERM
        scratch = self._execution.plan.scratch
        self._jobs.stop(signum, lambda: watchdog.end_tools(scratch))
        if not is_wanted:
            watchdog.end_tools(scratch)  # also what tools that have ended by themselves left behind
        self._background.finish(is_wanted)
        for task in self.tasks:
            if task.wait:
                task.wait.leave()
                task.wait = None
        if self._claims:
            self._claims.give_up_all()
        self._slots.release_all()
        self._spare = None
        if is_wanted and self._background.errors:
            raise self._background.errors[0]

    def delivered(self, task: Task) -> None:
        """The products of a stage, and of those before it, are where the user wants them."""
        self._delivered_up_to = task.number + 1

    def drop_after(self, task: Task) -> None:
        """The stages behind this one in nvcc's order would not have run: it failed."""
        self._limit = min(self._limit, task.number)
        for other in self.tasks:
            if other.number > self._limit and other.job:
                other.job.handle.end()

    def _can_be_looked_up(self, task: Task) -> bool:
        if task.state is not State.WAITING or task.number > self._limit:
            return False
        if task.stage.grammar.stays_in_order or any(
            other.stage.grammar.stays_in_order
            and other.number < task.number
            and other.state is not State.DONE
            for other in self.tasks
        ):
            # It reads and writes what is only known to itself: it keeps its place in nvcc's order.
            # What is not understood may also work on products, which have to be where it expects them.
            before = [other for other in self.tasks if other.number < task.number]
            return all(other.state is State.DONE and other.number < self._delivered_up_to for other in before)
        if self._reads_undelivered(task):
            return False
        if task.stage.kind == "host_compile" and not self._passes_are_known():
            return False
        read = self._execution.read_by(task.stage)
        return all(self._by_output[path].state is State.DONE for path in read if path in self._by_output)

    def _reads_undelivered(self, task: Task) -> bool:
        """Whether nvcc has this stage read a product where it will lie, as ptxas does to check PTX."""
        return any(
            output.destination in task.stage.possible_files
            for other in self.tasks
            if other.number < task.number and other.number >= self._delivered_up_to
            for output in other.stage.outputs
        )

    def _passes_are_known(self) -> bool:
        """Whether all passes are done that are going to run: not those behind a stage that failed."""
        passes = [task for task in self.tasks if task.stage.is_preprocessor and task.number <= self._limit]
        return all(task.state is State.DONE for task in passes)

    def _look_up(self, task: Task) -> bool:
        """Whether the stage does not have to run."""
        task.state = State.READY
        if not self._execution.is_cached(task.stage):
            task.shares = False
            return False
        finder = self._execution.finder
        task.lookup = (
            finder.look_again(task.stage, task.lookup) if task.lookup else finder.look_up(task.stage)
        )
        if not task.lookup.entry:
            return False
        entry = task.lookup.entry
        self._execution.finder.accept(task.stage, task.lookup)
        task.completed = Completed(0, entry.stdout, entry.stderr, entry.seconds)
        task.is_hit = True
        task.state = State.DONE
        return True

    def _look_elsewhere(self, task: Task) -> None:
        assert task.wait
        found = task.wait.look()
        if found == inflight.HELD:
            return
        task.wait.leave()
        task.wait = None
        task.shares = found == inflight.FREE
        self._look_up(task)

    def _start(self, task: Task) -> None:
        if self._lacks_input(task) or not self._take_slot(task):
            return
        if self._claims and task.shares and task.lookup and not self._claim(task):
            self._give_slot_back(task)
            return
        stage = task.stage
        if stage.kind == OPAQUE:
            self._background.finish()  # it may change what is about to be stored
        task.state = State.RUNNING
        task.job = self._jobs.start(lambda handle: self._execution.runs.run(stage, handle))

    def _claim(self, task: Task) -> bool:
        """Whether this process is to run the stage: it has no result yet, and nobody else runs it."""
        assert self._claims and task.lookup
        claim = self._claims.take(task.lookup.claim_key)
        if isinstance(claim, Wait):
            task.wait = claim
            task.state = State.ELSEWHERE
            return False
        task.claim = claim
        if self._look_up(task):  # it may have been stored since it was looked for
            self._give_claim_up(task)
            return False
        return True

    def _lacks_input(self, task: Task) -> bool:
        """Whether something it reads has to be made again first; that is seen to."""
        lost = self._execution.runs.lost_producers(task.stage)
        for producer in lost:
            self._make_again(self._by_output[producer.outputs[0].path])
        return bool(lost)

    def _make_again(self, task: Task) -> None:
        """Run a stage whose result is known for what it writes, which is not kept."""
        if task.again or self._lacks_input(task) or not self._take_slot(task):
            return
        stage = task.stage
        task.again = self._jobs.start(lambda handle: self._execution.runs.run_again(stage, handle))

    def _take_slot(self, task: Task) -> bool:
        slot, self._spare = self._spare or self._slots.take(), None
        if not slot:
            self._is_full = True
            return False
        task.memory = memory.estimate(task.stage.kind, self._execution.input_bytes(task.stage))
        promised = sum(other.memory for other in self.tasks if other.slot)
        if promised and not memory.has_room(task.memory, promised):
            self._keep_or_release(slot)
            return False
        task.slot = slot
        return True

    def _keep_or_release(self, slot: Slot) -> None:
        # Without a place it is better to ask again: one may have become free.
        if slot.is_own and slot.is_in_pool and not self._spare:
            self._spare = slot
        else:
            slot.release()

    def _give_slot_back(self, task: Task) -> None:
        if task.slot:
            self._keep_or_release(task.slot)
            task.slot = None

    def _rest_if_idle(self) -> None:
        """While others do all that is left to do, the slot is theirs."""
        if self._spare and not any(task.state is State.READY or task.slot for task in self.tasks):
            self._spare.release()
            self._spare = None

    def _end(self, job: Job) -> Task | None:
        """Take a job's result; raises what it raised."""
        task = next(task for task in self.tasks if job in (task.job, task.again))
        self._give_slot_back(task)
        if job.handle.is_ended:
            return None
        if job.error:
            raise job.error
        if job is task.again:
            task.again = None
            return None
        task.job = None
        task.state = State.DONE
        task.made = job.result
        task.completed = job.result.completed
        if task.has_failed:
            self.drop_after(task)
            self._give_claim_up(task)
        return task

    def store_result(self, task: Task) -> None:
        """Put what a stage has made into the store, later; others may be waiting for it."""
        lookup, made = task.lookup, task.made
        if not lookup or not made or task.has_failed:
            return

        def publish() -> None:
            try:
                self._execution.publisher.publish(task.stage, lookup, made)
            finally:
                self._give_claim_up(task)

        # What a pass has read takes longest to find out.
        self._background.add(1 if task.stage.is_preprocessor else 0, publish)

    def _give_claim_up(self, task: Task) -> None:
        claim, task.claim = task.claim, None
        if claim and self._claims:
            self._claims.give_up(claim)
