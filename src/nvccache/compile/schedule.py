"""Which stage runs when: by what it reads and who makes that, as slots, memory and other processes allow.

A stage is looked up as soon as the digests of all it reads are known. If the cache does not have it, the
sources are queried for it (sources.py), and what they promise is waited for. Results go to the store in the
background, when the stages that were waiting for them have started.

Some stages can run before nvcc's module id is known, with one that is a guess (seeding.py). A wrong guess
costs a run, mostly. So a stage guesses only on an idle core, next to those that the call uses already,
or on another machine, and not where that was in vain before. Everywhere else it waits for the stage that
makes the id, which is short in comparison, and reads it. What a guess has made is not gone by before it is
known to be right: until then its task is GUESSED, and holds neither slot nor memory.
"""

from __future__ import annotations

import signal

from nvccache.compile import sources
from nvccache.compile.jobs import Background, Job, Jobs
from nvccache.compile.sources import Here, OtherProcesses, RemoteCache, Room
from nvccache.compile.tasks import Promise, Source, StageClock, State, Task, Tasks
from nvccache.execution import find_stage, publish_stage, run_stage
from nvccache.machine import watchdog
from nvccache.machine.process import Completed
from nvccache.plan.model import OPAQUE
from nvccache.records.record import Pair
from nvccache.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.compile.tasks import SourceOf
    from nvccache.execution.run_stage import Made
    from nvccache.execution.staged_call import Known, StagedCall
    from nvccache.machine.slots import Slots
    from nvccache.plan.model import Stage
    from nvccache.store.inflight import Claims


def cost_of(made: Made) -> float:
    """The seconds that a stage would have taken on a CPU of its own; no more than it took.

    Of a run on another machine that is not known, and it is taken for as long as it ran there.
    """
    completed = made.completed
    return completed.seconds if made.costs else min(completed.cpu, completed.seconds)


class Schedule:
    """The stages of one call; for the main thread only."""

    def __init__(
        self,
        call: StagedCall,
        slots: Slots,
        claims: Claims | None,
        other_machines: SourceOf | None = None,
        clock: StageClock | None = None,
    ) -> None:
        self.clock = clock or StageClock()
        self.tasks = Tasks(call.plan, call.read_by)
        self._call = call
        self._ids = call.module_ids
        self._room = Room(slots)
        self._remote_cache = RemoteCache(call, self.tasks)
        self._others = OtherProcesses(claims)
        self._here = Here(call, self._room)
        self._makers: list[Source] = [self._here]  # in the order in which they are asked
        if other_machines:
            self._makers = [Here(call, self._room, on_idle_core=True), other_machines(call), self._here]
        self._sources = (self._remote_cache, self._others, *self._makers)
        self._jobs = Jobs()
        self._promises: dict[Job, Promise] = {}
        self._background = Background()
        self._learnt: list[Known] = []  # by its thread

    def look_up(self) -> None:
        """Look up what can be; what is found may let more be looked up."""
        before = -1
        while before != self.tasks.count_done():
            before = self.tasks.count_done()
            for task in self.tasks.all:
                if self.tasks.can_be_looked_up(task) and not self._look_up(task):
                    question = self._remote_cache.offer(task)
                    if question:
                        self._begin(question)

    def start(self) -> bool:
        """Start what has to be made; whether results were found meanwhile, so that more may be looked up."""
        before = self.tasks.count_done()
        self._room.is_full = False
        guesses_last = sorted(self.tasks.by_urgency, key=lambda task: self._ids.must_guess_id(task.stage))
        for task in filter(self.tasks.may_run, guesses_last):
            for promise in [each for each in task.promises if each.has_ended()]:
                self._end(promise)
                self._look_up(task)
            if task.waits_for_slot:
                task.guesses = self._ids.must_guess_id(task.stage)
                if not (task.guesses and self._ids.has_guessed_wrong(task.stage)):
                    self._start(task)
        if before != self.tasks.count_done():
            return True
        if not any(task.waits_for_slot and not task.guesses for task in self.tasks.all):
            self._room.rest()
        return False

    def wait(self) -> list[Task]:
        """The stages that have come to their end, after waiting for one; some more may be ready now.

        Raises RuntimeError where nothing would ever end, which nvcc is better than.
        """
        guessed = [task for task in self.tasks.all if task.state == State.GUESSED]
        decided = [task for task in guessed if not self._ids.must_guess_id(task.stage)]
        if decided:
            return [task for task in decided if task.made and self._done(task, task.made)]
        open_tasks = [task for task in self.tasks.wanted() if task.state == State.READY]
        if not self._jobs.are_running and not open_tasks:
            raise RuntimeError("no stage can go on")
        ended = []
        for job in self._jobs.wait(self._idle_seconds(open_tasks)):
            promise = self._promises.pop(job)
            if self._end(promise):
                ended.append(promise.task)
        self._others.beat()
        self._end_wrong_guesses()
        return ended

    def finish(self, is_wanted: bool = True, begins_again: bool = False) -> None:
        """End what still runs, put into the store what was made, and give everything up."""
        # A tool that is asked to stop may take the time it needs; a second signal does not let it.
        signum = signal.SIGKILL if is_wanted else signal.SIGTERM
        scratch = self._call.plan.scratch
        if not begins_again:
            for source in self._sources:
                source.stop()
        self._jobs.stop(signum, lambda: watchdog.kill_tools(scratch))
        if not is_wanted:
            watchdog.kill_tools(scratch)  # also what tools that have ended by themselves left behind
        self._background.finish(is_wanted)
        for learnt in self._learnt:
            self._call.known.add(learnt)
        for source in self._sources:
            source.close()
        if is_wanted and self._background.errors:
            raise self._background.errors[0]

    def store_result(self, task: Task) -> None:
        """Put what a stage has made into the store, later; others may be waiting for it."""
        action, made = task.action, task.made
        if not action or not action.is_cached or not made or task.has_failed:
            return
        timed = replace(made, wall=self.clock.share_of(task, cost_of(made)))

        def publish() -> None:
            try:
                self._learnt.append(publish_stage.publish(self._call, task.stage, action, timed))
            finally:
                self._others.give_up(task)

        # What a pass has read takes longest to find out.
        self._background.add(1 if task.stage.is_preprocessor else 0, publish)

    def _idle_seconds(self, open_tasks: list[Task]) -> float:
        """How long to wait at most, until something has to be looked at again."""
        waits = [promise.poll_seconds for task in open_tasks for promise in task.promises]
        waits_for_slots = any(task.waits_for_slot for task in open_tasks) and self._room.may_become_free()
        if waits_for_slots or self._decided_guesses():
            waits.append(sources.POLL_FOR_SLOTS_SECONDS)
        return min(waits, default=Promise.poll_seconds)

    def _look_up(self, task: Task) -> bool:
        """Whether the stage does not have to run."""
        task.state = State.READY
        if not task.action:
            task.action = find_stage.action_of(self._call, task.stage)
            task.shares = task.action.is_cached
            self._call.known.add_action(task.action)
        found = find_stage.find(self._call, task.stage, task.action)
        return found is not None and self._take_found(task, found)

    def _take_found(self, task: Task, found: Pair) -> bool:
        task.found, result = found, found.result
        task.completed = Completed(0, result.stdout, result.stderr, result.seconds, result.cpu)
        task.state = State.DONE
        self._call.known.add_found(task.stage, found)
        self._drop_promises(task)
        self._others.give_up(task)
        self.clock.note(task)
        return True

    def _start(self, task: Task) -> None:
        """Begin to have a stage made, if there is room for it, and it is for this process to do."""
        maker = next((offer for offer in (source.offer(task) for source in self._makers) if offer), None)
        if not maker:
            return
        lost = run_stage.lost_producers(self._call, task.stage)
        if lost:
            maker.cancel()
            self._make_again(lost)
            return
        had_claim = task.claim
        elsewhere = self._others.offer(task)
        # It may have been stored since it was looked for.
        is_found = not elsewhere and task.claim is not had_claim and self._look_up(task)
        if elsewhere or is_found:
            maker.cancel()
        if not is_found:
            self._begin(elsewhere or maker)

    def _begin(self, promise: Promise) -> None:
        task = promise.task
        if promise.runs_here and task.stage.kind == OPAQUE:
            self._background.finish()  # it may change what is about to be stored
        if promise.is_timed:
            self.clock.start(task)
        promise.begin(self._jobs)
        task.promises.append(promise)
        if promise.job:
            self._promises[promise.job] = promise

    def _make_again(self, stages: list[Stage]) -> None:
        """Run stages whose results are known for what they write, which is not kept."""
        for stage in stages:
            task = self.tasks.that_writes(stage.outputs[0].path)
            if task.run:
                continue
            lost = run_stage.lost_producers(self._call, stage)
            self._make_again(lost)
            run = None if lost else self._here.offer(task, again=True)
            if run:
                self._begin(run)

    def _end(self, promise: Promise) -> bool:
        """Whether a stage has come to its end with this; raises what was raised."""
        task = promise.task
        task.promises.remove(promise)
        has_result = promise.end()
        if task.state == State.DONE:
            self.clock.end(task)
            return False
        if has_result and not task.winner:
            task.winner = promise
            self._drop_promises(task)
        if not any(other.is_timed for other in task.promises):
            self.clock.end(task)
        if task.winner:
            return not task.run and self._take(task)
        if promise.is_wrong:
            self._throw_away(task, promise.job.result if promise.job else None)
        return False

    def _drop_promises(self, task: Task) -> None:
        """The task has a result, and what else was promised is not wanted; jobs come to their end later."""
        for promise in task.promises:
            promise.lose()
        task.promises = [promise for promise in task.promises if promise.job]

    def _take(self, task: Task) -> bool:
        """Take the result of the first promise that had one; whether that is the stage's end."""
        winner, task.winner = task.winner, None
        assert winner
        result = winner.take()
        return self._take_found(task, result) if isinstance(result, Pair) else self._done(task, result)

    def _done(self, task: Task, made: Made) -> bool:
        """Whether what a stage has made can be gone by; else its task stays open, or starts again."""
        task.made = made
        if made.completed.status == 0 and self._is_guess(task):
            task.state = State.GUESSED
            return False
        if made.completed.status == 0 and self._ids.has_wrong_id(task.stage):
            self._throw_away(task, made)
            return False
        task.state = State.DONE
        task.completed = made.completed
        for source in self._makers:
            source.note_end(task)
        if task.has_failed:
            for dropped in self.tasks.drop_after(task):
                for promise in dropped.promises:
                    promise.cancel()
            self._others.give_up(task)
        return True

    def _is_guess(self, task: Task) -> bool:
        """Whether what a stage has made may hold an id that is not nvcc's."""
        return self._ids.must_guess_id(task.stage) and not self._ids.is_id_absent(task.stage)

    def _throw_away(self, task: Task, made: Made | None) -> None:
        """A stage has run in vain, to its end or not: it has to run again, and reads the id then."""
        task.in_vain += made.completed.seconds if made else 0.0
        task.made = None
        task.state = State.READY
        self._ids.note_wrong_guess(task.stage)
        self._others.give_up(task)

    def _decided_guesses(self) -> list[tuple[Task, Promise]]:
        """Those that still run, though what they guess is known."""
        running = [(task, task.run) for task in self.tasks.all if task.guesses]
        return [(task, run) for task, run in running if run and not self._ids.must_guess_id(task.stage)]

    def _end_wrong_guesses(self) -> None:
        """End tools that are observed to have guessed wrong."""
        for task, run in self._decided_guesses():
            is_wrong = self._ids.writes_wrong_id(task.stage)
            if is_wrong is None:
                continue
            task.guesses = False  # right or wrong, it is checked once
            if is_wrong:
                run.is_wrong = True
                run.cancel()
