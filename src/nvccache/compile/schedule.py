"""Which stage runs when, depending on its inputs, and on slots, memory and other processes.

A stage is looked up as soon as the digests of all its inputs are known. If the cache does not have it, the
sources (sources.py) are queried for it, and the schedule waits for what they promise. Results are stored in
the background, after the stages that were waiting for them have started.
"""

from __future__ import annotations

import time

from nvccache.compile import sources
from nvccache.compile.jobs import Background, Job, Jobs
from nvccache.compile.sources import Here, OtherProcesses, RemoteCache, Room
from nvccache.compile.tasks import Promise, Source, State, Task, Tasks
from nvccache.execution import find_stage, publish_stage, run_stage
from nvccache.machine import watchdog
from nvccache.machine.process import Completed
from nvccache.plan.model import OPAQUE
from nvccache.records.record import Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.compile.tasks import SourceOf
    from nvccache.execution.run_stage import Made
    from nvccache.execution.staged_call import Known, StagedCall
    from nvccache.machine.slots import Slots
    from nvccache.plan.model import Stage
    from nvccache.store.inflight import Claims


class Schedule:
    """The stages of one call; for the main thread only."""

    def __init__(
        self,
        call: StagedCall,
        slots: Slots,
        claims: Claims | None,
        executor: SourceOf | None = None,
    ) -> None:
        self.tasks = Tasks(call.plan, call.read_by)
        self._call = call
        self._room = Room(slots)
        self._remote_cache = RemoteCache(call, self.tasks)
        self._others = OtherProcesses(claims)
        self._here = Here(call, self._room)
        self._makers: list[Source] = [self._here]  # queried in this order
        if executor:
            self._makers = [Here(call, self._room, on_idle_core=True), executor(call), self._here]
        self._sources = (self._remote_cache, self._others, *self._makers)
        self._jobs = Jobs()
        self._promises: dict[Job, Promise] = {}
        self._background = Background()
        self._learned: list[Known] = []  # by the background thread

    def look_up(self) -> None:
        """Look up all stages that can be; repeats, since a hit may let others be looked up."""
        before = -1
        while before != self.tasks.count_done():
            before = self.tasks.count_done()
            for task in self.tasks.all:
                if self.tasks.can_be_looked_up(task) and not self._look_up(task):
                    query = self._remote_cache.offer(task)
                    if query:
                        self._begin(query)

    def start(self) -> bool:
        """Start stages that have no result; whether results were found meanwhile, for others to use."""
        before = self.tasks.count_done()
        self._room.is_full = False
        for task in filter(self.tasks.may_run, self.tasks.by_urgency):
            for promise in [each for each in task.promises if each.has_ended()]:
                self._end(promise)
                self._look_up(task)
            if task.waits_for_slot:
                self._start(task)
        if before != self.tasks.count_done():
            return True
        if not any(task.waits_for_slot for task in self.tasks.all):
            self._room.release_spare()
        return False

    def wait(self) -> list[Task]:
        """Wait for a stage to end; the stages that have, which may make others ready.

        Raises RuntimeError instead of waiting forever; nvcc runs the call then.
        """
        open_tasks = [task for task in self.tasks.wanted() if task.state == State.READY]
        if not self._jobs.are_running and not open_tasks:
            raise RuntimeError("no stage can go on")
        ended = []
        for job in self._jobs.wait(self._idle_seconds(open_tasks)):
            promise = self._promises.pop(job)
            if self._end(promise):
                ended.append(promise.task)
        return ended

    def finish(self, is_wanted: bool = True, begins_again: bool = False) -> None:
        """End running tools, store results, release everything; unless `is_wanted`, drop unstored results."""
        scratch = self._call.plan.scratch
        if not begins_again:
            for source in self._sources:
                source.stop()
        # Where the user ends the call, a second signal kills tools that do not end.
        self._jobs.stop(not is_wanted, lambda: watchdog.kill_tools(scratch))
        if not is_wanted:
            watchdog.kill_tools(scratch)  # and children that outlive their tools
        self._background.finish(is_wanted)
        for learned in self._learned:
            self._call.known.add(learned)
        for source in self._sources:
            source.close()
        if is_wanted and self._background.errors:
            raise self._background.errors[0]

    def store_result(self, task: Task) -> None:
        """Store a stage's result in the background; other processes may be waiting for it."""
        action, made = task.action, task.made
        if not action or not action.is_cached or not made or task.has_failed:
            return

        def publish() -> None:
            try:
                learned = publish_stage.publish(self._call, task.stage, action, made)
                self._learned.append(learned)
                task.record_name = learned.record_name
            finally:
                self._others.give_up(task)

        # The input records of passes take longest to make.
        self._background.add(1 if task.stage.is_preprocessor else 0, publish)

    def _idle_seconds(self, open_tasks: list[Task]) -> float:
        """The longest time to wait before polling again."""
        waits = [promise.poll_seconds for task in open_tasks for promise in task.promises]
        waits_for_slots = any(task.waits_for_slot for task in open_tasks) and self._room.may_become_free()
        if waits_for_slots:
            waits.append(sources.POLL_FOR_SLOTS_SECONDS)
        return min(waits, default=Promise.poll_seconds)

    def _look_up(self, task: Task) -> bool:
        """Look a stage up in the store; whether it hit."""
        task.state = State.READY
        if not task.action:
            task.action = find_stage.action_of(self._call, task.stage)
            task.may_share = task.action.is_cached
            self._call.known.add_action(task.action)
        found = find_stage.find(self._call, task.stage, task.action)
        return found is not None and self._take_found(task, found)

    def _take_found(self, task: Task, found: Entry) -> bool:
        task.found, result = found, found.result
        task.completed = Completed(0, result.stdout, result.stderr, result.seconds, result.cpu)
        task.state = State.DONE
        self._call.known.add_found(task.stage, found)
        self._drop_promises(task)
        self._others.give_up(task)
        task.began = task.began or time.monotonic()
        return True

    def _start(self, task: Task) -> None:
        """Start a stage, or wait for another process that runs it; not without a slot and memory."""
        maker = next((offer for offer in (source.offer(task) for source in self._makers) if offer), None)
        if not maker:
            return
        lost = run_stage.lost_producers(self._call, task.stage)
        if lost:
            maker.cancel()
            self._run_lost(lost)
            return
        had_claim = task.claim
        elsewhere = self._others.offer(task)
        # It may have been stored since it was looked up.
        is_found = not elsewhere and task.claim is not had_claim and self._look_up(task)
        if elsewhere or is_found:
            maker.cancel()
        if not is_found:
            self._begin(elsewhere or maker)

    def _begin(self, promise: Promise) -> None:
        task = promise.task
        if promise.runs_here and task.stage.kind == OPAQUE:
            self._background.finish()  # it may change files that are about to be stored
        if promise.is_timed:
            task.began = task.began or time.monotonic()
        promise.begin(self._jobs)
        task.promises.append(promise)
        if promise.job:
            self._promises[promise.job] = promise

    def _run_lost(self, stages: list[Stage]) -> None:
        """Run stages again whose digests are known but whose outputs are lost or never stored."""
        for stage in stages:
            task = self.tasks.task_writing(stage.outputs[0].path)
            if task.run:
                continue
            lost = run_stage.lost_producers(self._call, stage)
            self._run_lost(lost)
            run = None if lost else self._here.offer(task, again=True)
            if run:
                self._begin(run)

    def _end(self, promise: Promise) -> bool:
        """End a promise; whether that ends its stage. Raises errors of the promise's job."""
        task = promise.task
        task.promises.remove(promise)
        has_result = promise.end()
        if task.state == State.DONE:
            return False
        if has_result and not task.winner:
            task.winner = promise
            self._drop_promises(task)
        if task.winner:
            return not task.run and self._take(task)
        return False

    def _drop_promises(self, task: Task) -> None:
        """Cancel the promises of a task that has its result; those with a job stay until that ends."""
        for promise in task.promises:
            promise.lose()
        task.promises = [promise for promise in task.promises if promise.job]

    def _take(self, task: Task) -> bool:
        """Take the result of the first promise that had one; whether that ends the stage."""
        winner, task.winner = task.winner, None
        assert winner
        result = winner.take()
        return self._take_found(task, result) if isinstance(result, Entry) else self._done(task, result)

    def _done(self, task: Task, made: Made) -> bool:
        """Take the result of a run, which ends the stage."""
        task.made = made
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
