"""Which stage runs when: by what it reads and who makes that, as slots, memory and other processes allow.

A stage is looked up as soon as the digests of all it reads are known; other caches are asked for it on a
thread, while other stages go on. If it has to run, it needs a slot, a claim against other processes that want
the same, and, beside others of this call, memory. A claim is only held by a stage that runs, so that no two
processes wait for each other (docs/development/decisions/065-no-circles-of-waiting.md).
Results go to the store in the background, when the stages that were waiting for them have started.
"""

from __future__ import annotations

import signal

from nvccache.compile.asking import Asking
from nvccache.compile.guesses import Guesses
from nvccache.compile.jobs import Background, Job, Jobs
from nvccache.compile.stage_clock import StageClock
from nvccache.compile.tasks import Known, State, Task, Tasks
from nvccache.execution import find_stage, publish_stage, run_stage
from nvccache.machine import slots, watchdog
from nvccache.machine.process import Completed
from nvccache.plan.model import OPAQUE
from nvccache.store import inflight
from nvccache.store.inflight import Claims, Wait
from nvccache.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.compile.away import Away
    from nvccache.execution.find_stage import Lookup
    from nvccache.execution.publish_stage import Published
    from nvccache.execution.run_stage import Made
    from nvccache.execution.staged_call import StagedCall
    from nvccache.machine.slots import Slot, Slots
    from nvccache.plan.model import Stage

_POLL_SECONDS = 0.02  # for claims that others give up
_POLL_FOR_SLOTS_SECONDS = 0.1
_IDLE_SECONDS = 0.5


def memory_of(stage: Stage, input_bytes: int) -> int:
    return slots.memory_of(stage.tool.memory_factor, input_bytes, is_heavy=stage.tool.is_heavy)


def cost_of(made: Made) -> float:
    """The seconds that a stage would have taken on a CPU of its own; no more than it took.

    Of a run on another machine that is not known, and it is taken for as long as it ran there.
    """
    completed = made.completed
    return completed.seconds if made.costs else min(completed.cpu, completed.seconds)


class Room:
    """What the stages of one call take while they run: a slot, and memory beside each other."""

    def __init__(self, slots: Slots, tasks: Tasks) -> None:
        self._slots = slots
        self._tasks = tasks
        self._spare: Slot | None = None  # the call's own slot is kept between its stages
        self.is_full = False  # whether there was no slot when last asked for

    def take(self, task: Task, input_bytes: int) -> bool:
        """Whether a stage can start; it has a slot then."""
        slot, self._spare = self._spare or self._slots.take(), None
        if not slot:
            self.is_full = True
            return False
        task.memory = memory_of(task.stage, input_bytes)
        promised = sum(other.memory for other in self._tasks.all if other.slot)
        if promised and not slots.has_memory(task.memory, promised):
            self._keep_or_release(slot)
            return False
        task.slot = slot
        return True

    def give_back(self, task: Task) -> None:
        if task.slot:
            self._keep_or_release(task.slot)
            task.slot = None

    def rest_if_idle(self) -> None:
        """While others do all that is left to do, the slot is theirs."""
        waiting = (task.state == State.READY and not task.guesses for task in self._tasks.all)
        if self._spare and not any(waiting) and not any(task.slot for task in self._tasks.all):
            self._spare.release()
            self._spare = None

    def may_become_free(self) -> bool:
        return self._slots.may_become_free()

    def release_all(self) -> None:
        self._slots.release_all()
        self._spare = None

    def _keep_or_release(self, slot: Slot) -> None:
        # Outside the pool it is better to ask again: one may have become free.
        if slot.is_own and slot.is_in_pool and not self._spare:
            self._spare = slot
        else:
            slot.release()


def _away(call: StagedCall, jobs: Jobs) -> Away | None:
    if not call.context.executor:
        return None
    from nvccache.compile.away import Away
    from nvccache.execution.send_stage import Sending

    return Away(Sending(call, call.context.executor), jobs)


class Schedule:
    """The stages of one call; for the main thread only."""

    def __init__(
        self, call: StagedCall, slots: Slots, claims: Claims | None, clock: StageClock | None = None
    ) -> None:
        self.clock = clock or StageClock()
        self.tasks = Tasks(call.plan, call.read_by)
        self.known = Known()
        self._call = call
        self._room = Room(slots, self.tasks)
        self._claims = claims
        self._jobs = Jobs()
        self._asking = Asking(call, self.tasks, self._jobs)
        self._away = _away(call, self._jobs)
        self._guesses = Guesses(call.own_ids, self.tasks)
        self._background = Background()
        self._published: list[tuple[Stage, Published]] = []  # by another thread, and not yet known

    def look_up(self) -> None:
        """Look up what can be; what is found may let more be looked up."""
        before = -1
        while before != self.tasks.count_done():
            before = self.tasks.count_done()
            for task in self.tasks.all:
                if self.tasks.can_be_looked_up(task) and not self._look_up(task):
                    self._asking.start(task)

    def start(self) -> bool:
        """Start what has to run; whether results were found meanwhile, so that more may be looked up."""
        before = self.tasks.count_done()
        self._room.is_full = False
        for task in self._guesses.last(self.tasks.by_urgency):
            if task.state == State.ELSEWHERE:
                self._look_elsewhere(task)
            may_be_sent = self._away is not None and not task.stays
            if (
                task.state == State.READY
                and self.tasks.may_run(task)
                and (may_be_sent or not self._room.is_full)
            ):
                self._start(task)
        if before != self.tasks.count_done():
            return True
        self._help_those_away()
        self._room.rest_if_idle()
        return False

    def wait(self) -> list[Task]:
        """The stages that have come to their end, after waiting for one; some more may be ready now.

        Raises RuntimeError where nothing would ever end, which nvcc is better than.
        """
        decided = self._guesses.decided()
        if decided:
            return [task for task, made in decided if self._done(task, made)]
        states = self.tasks.states()
        if not self._jobs.are_running and states.isdisjoint((State.READY, State.ELSEWHERE)):
            raise RuntimeError("no stage can go on")
        waits_for_slots = State.AWAY in states or (State.READY in states and self._room.may_become_free())
        is_polled = waits_for_slots or self._guesses.running()
        idle = _POLL_FOR_SLOTS_SECONDS if is_polled else _IDLE_SECONDS
        jobs = self._jobs.wait(_POLL_SECONDS if State.ELSEWHERE in states else idle)
        if self._claims:
            self._claims.beat()
        ended = [task for task in map(self._end, jobs) if task]
        self._guesses.end_wrong_ones()
        return ended

    def finish(self, is_wanted: bool = True, begins_again: bool = False) -> None:
        """End what still runs, put into the store what was made, and give everything up."""
        # What was told to stop may take the time it needs; whoever cannot wait tells it twice.
        signum = signal.SIGKILL if is_wanted else signal.SIGTERM
        scratch = self._call.plan.scratch
        if not begins_again:
            self._asking.give_up()
        self._jobs.stop(signum, lambda: watchdog.end_tools(scratch))
        if not is_wanted:
            watchdog.end_tools(scratch)  # also what tools that have ended by themselves left behind
        self._background.finish(is_wanted)
        for stage, published in self._published:
            self.known.take_published(stage, published)
        self._published.clear()
        for task in self.tasks.all:
            if task.wait:
                task.wait.leave()
                task.wait = None
        if self._away:
            self._away.give_all_back()
        if self._claims:
            self._claims.give_up_all()
        self._room.release_all()
        if is_wanted and self._background.errors:
            raise self._background.errors[0]

    def _look_up(self, task: Task) -> bool:
        """Whether the stage does not have to run."""
        task.state = State.READY
        return self._take_lookup(
            task, find_stage.find(self._call, task.stage, self.known.passes, task.lookup)
        )

    def _take_found(self, task: Task) -> Task:
        """Take what another cache has of a stage, which may have been about to run."""
        if task.wait:
            task.wait.leave()
            task.wait = None
            self.clock.end(task)
        self._give_claim_up(task)
        self._take_lookup(task, self._asking.take(task))
        return task

    def _take_lookup(self, task: Task, lookup: Lookup) -> bool:
        task.lookup = lookup
        self.known.take_lookup(task.stage, lookup)
        if not lookup.found:
            task.shares = task.shares and lookup.is_cached
            return False
        found = lookup.found.result
        task.completed = Completed(0, found.stdout, found.stderr, found.seconds, found.cpu)
        task.is_hit = True
        task.state = State.DONE
        self.clock.note(task)
        return True

    def _look_elsewhere(self, task: Task) -> None:
        assert task.wait
        found = task.wait.look()
        if found == inflight.HELD:
            return
        task.wait.leave()
        task.wait = None
        self.clock.end(task)
        task.shares = found == inflight.FREE
        self._look_up(task)

    def _start(self, task: Task) -> None:
        if self._guesses.has_to_wait(task) or self._lacks_input(task):
            return
        has_room = not self._room.is_full and self._has_room(task)
        if has_room and not self._guesses.may_take(task):
            self._room.give_back(task)
            has_room = False
        is_sent = self._is_sent(task)
        if not has_room and not is_sent:
            return
        if self._claims and task.shares and not task.claim and not self._claim(task):
            self._room.give_back(task)
            if self._away:
                self._away.give_place_back(task)
            return
        if is_sent and self._away:
            self._room.give_back(task)
            self.clock.start(task)
            self._away.start(task)
            return
        self._run(task)

    def _is_sent(self, task: Task) -> bool:
        """Whether a stage is sent to another machine, since no core is idle here."""
        is_core_idle = task.slot is not None and task.slot.is_in_pool
        return self._away is not None and not is_core_idle and self._away.reserve(task)

    def _help_those_away(self) -> None:
        """Begin a second try here of stages that are on other machines for too long."""
        for task in self.tasks.by_urgency if self._away else ():
            assert self._away
            need = self._away.need_of_help(task)
            if not need or self._room.is_full or self._lacks_input(task) or not self._has_room(task):
                continue
            if need == "a core is idle" and not (task.slot and task.slot.is_in_pool):
                self._room.give_back(task)
                continue
            self._run(task)
            task.state = State.AWAY

    def _run(self, task: Task) -> None:
        stage = task.stage
        if stage.kind == OPAQUE:
            self._background.finish()  # it may change what is about to be stored
        task.state = State.RUNNING
        task.slot_number = task.slot.number if task.slot else -1
        self.clock.start(task)
        task.job = self._jobs.start(lambda handle: run_stage.run(self._call, stage, handle))

    def _claim(self, task: Task) -> bool:
        """Whether this process is to run the stage: it has no result yet, and nobody else runs it."""
        assert self._claims and task.lookup
        claim = self._claims.take(task.lookup.claim_key)
        if isinstance(claim, Wait):
            task.wait = claim
            task.state = State.ELSEWHERE
            task.was_elsewhere = True
            self.clock.start(task)  # waiting for a tool of another process is neither cost nor saving
            return False
        task.claim = claim
        if self._look_up(task):  # it may have been stored since it was looked for
            self._give_claim_up(task)
            return False
        return True

    def _lacks_input(self, task: Task) -> bool:
        """Whether something it reads has to be made again first; that is seen to."""
        lost = run_stage.lost_producers(self._call, task.stage)
        for producer in lost:
            self._make_again(self.tasks.that_writes(producer.outputs[0].path))
        return bool(lost)

    def _make_again(self, task: Task) -> None:
        """Run a stage whose result is known for what it writes, which is not kept."""
        if task.again or self._lacks_input(task) or not self._has_room(task):
            return
        stage = task.stage
        self.clock.start(task)
        task.again = self._jobs.start(lambda handle: run_stage.run_again(self._call, stage, handle))

    def _has_room(self, task: Task) -> bool:
        return self._room.take(task, self._call.input_bytes(task.stage))

    def _end(self, job: Job) -> Task | None:
        """Take a job's result; raises what it raised."""
        asked = self._asking.end(job)
        if asked:
            return self._take_found(asked) if asked.found and not asked.job else None
        sent = self._away.end(job) if self._away else None
        if sent:
            return self._take_back(sent)
        task = self.tasks.of_job(job)
        self.clock.end(task)
        self._room.give_back(task)
        if job.handle.is_ended:
            is_over = job is task.job
            if is_over:
                task.job = None
            if task.found:
                return self._take_found(task)
            if is_over and task.is_wrong:
                self._guesses.throw_away(task, job.result)
                self._give_claim_up(task)
                return None
            return self._take_back(task) if task.back and is_over else None
        if job.error:
            raise job.error
        self.known.take_made(job.result)
        if job is task.again:
            task.again = None
            return None
        task.job = None
        if self._away:
            self._away.overtake(task)
        return self._done(task, job.result)

    def _take_back(self, task: Task) -> Task | None:
        """Take what a stage has made on another machine, when its try here has ended, if there is one."""
        if not task.back:
            if task.state == State.READY:
                self.clock.end(task)
            return None
        if task.job:
            task.job.handle.end()
            return None
        assert self._away
        self.clock.end(task)
        made = self._away.take(task)
        self.known.take_made(made)
        return self._done(task, made)

    def _done(self, task: Task, made: Made) -> Task | None:
        if not self._guesses.end(task, made):
            if task.state == State.READY:
                self._give_claim_up(task)
            return None
        task.state = State.DONE
        task.made = made
        task.completed = made.completed
        if self._away:
            self._away.note_time(task)
        if task.has_failed:
            self.tasks.drop_after(task)
            self._give_claim_up(task)
        return task

    def store_result(self, task: Task) -> None:
        """Put what a stage has made into the store, later; others may be waiting for it."""
        lookup, made = task.lookup, task.made
        if not lookup or not lookup.is_cached or not made or task.has_failed:
            return

        timed = replace(made, wall=self.clock.share_of(task, cost_of(made)))

        def publish() -> None:
            try:
                self._published.append(
                    (task.stage, publish_stage.publish(self._call, task.stage, lookup, timed))
                )
            finally:
                self._give_claim_up(task)

        # What a pass has read takes longest to find out.
        self._background.add(1 if task.stage.is_preprocessor else 0, publish)

    def _give_claim_up(self, task: Task) -> None:
        claim, task.claim = task.claim, None
        if claim and self._claims:
            self._claims.give_up(claim)
