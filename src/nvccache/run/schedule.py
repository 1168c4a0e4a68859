"""Which stage runs when, depending on its inputs, and on slots, memory and other processes.

A stage is looked up as soon as the digests of all its inputs are known. If the cache does not have it, the
sources (sources.py) are queried for it, and the schedule waits for what they promise. Results are stored in
the background, after the stages that were waiting for them have started.
"""

from __future__ import annotations

import time

from nvccache.machine import watchdog
from nvccache.machine.process import Completed
from nvccache.plan.model import OPAQUE
from nvccache.records.record import Entry
from nvccache.run import find_stage, publish_stage, run_stage, sources
from nvccache.run.find_stage import SAME_ID
from nvccache.run.jobs import Background, Job, Jobs
from nvccache.run.order import Order
from nvccache.run.sources import Capacity, OtherProcesses, RemoteCache, ThisMachine
from nvccache.run.stage_run import Promise, Source, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.machine.slots import Slots
    from nvccache.plan.model import Stage
    from nvccache.run.call import Compile
    from nvccache.run.stage_run import MakeSource, StageRun, ToolRun
    from nvccache.store.inflight import Claims


class Schedule:
    """The stages of one call; for the main thread only."""

    def __init__(
        self, call: Compile, slots: Slots, claims: Claims | None, executor: MakeSource | None = None
    ) -> None:
        self.order = Order(call)
        self._call = call
        self._capacity = Capacity(slots)
        self._remote_cache = RemoteCache(call, self.order)
        self._others = OtherProcesses(claims)
        self._here = ThisMachine(call, self._capacity)
        self._makers: list[Source] = [self._here]  # queried in this order
        if executor:
            self._makers = [
                ThisMachine(call, self._capacity, on_idle_core=True),
                executor(call),
                self._here,
            ]
        self._sources = (self._remote_cache, self._others, *self._makers)
        self._jobs = Jobs()
        self._promises: dict[Job, Promise] = {}
        self._background = Background()

    def look_up(self) -> None:
        """Look up all stages that can be; repeats, since a hit may let others be looked up."""
        before = -1
        while before != self.order.count_done():
            before = self.order.count_done()
            for run in self.order.runs:
                if self.order.can_be_looked_up(run) and not self._look_up(run):
                    query = self._remote_cache.offer(run)
                    if query:
                        self._begin(query)

    def start(self) -> bool:
        """Start stages that have no result; whether results were found meanwhile, for others to use."""
        before = self.order.count_done()
        self._capacity.is_full = False
        for run in filter(self.order.may_run, self.order.by_urgency):
            for promise in [each for each in run.promises if each.has_ended()]:
                self._end(promise)
                self._look_up(run)
            if run.waits_for_slot:
                self._start(run)
        if before != self.order.count_done():
            return True
        if not any(run.waits_for_slot for run in self.order.runs):
            self._capacity.release_spare()
        return False

    def wait(self) -> list[StageRun]:
        """Wait for a stage to end; the stages that have, which may make others ready.

        Raises RuntimeError instead of waiting forever; nvcc runs the call then.
        """
        open_runs = [run for run in filter(self.order.may_run, self.order.runs) if run.state == State.READY]
        if not self._jobs.are_running and not open_runs:
            raise RuntimeError("no stage can go on")
        ended = []
        for job in self._jobs.wait(self._idle_seconds(open_runs)):
            promise = self._promises.pop(job)
            if self._end(promise):
                ended.append(promise.run)
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
        for source in self._sources:
            source.close()
        if is_wanted and self._background.errors:
            raise self._background.errors[0]

    def store_result(self, run: StageRun) -> None:
        """Store a stage's result in the background; other processes may be waiting for it."""
        if not run.is_cached or not run.tool_run or run.has_failed:
            return

        def publish() -> None:
            try:
                publish_stage.publish(self._call, run)
            finally:
                self._others.give_up(run)

        # The input records of passes take longest to make.
        self._background.add(1 if run.stage.is_preprocessor else 0, publish)

    def _idle_seconds(self, open_runs: list[StageRun]) -> float:
        """The longest time to wait before polling again."""
        waits = [promise.poll_seconds for run in open_runs for promise in run.promises]
        waits_for_slots = any(run.waits_for_slot for run in open_runs) and self._capacity.may_become_free()
        if waits_for_slots:
            waits.append(sources.POLL_FOR_SLOTS_SECONDS)
        return min(waits, default=Promise.poll_seconds)

    def _look_up(self, run: StageRun) -> bool:
        """Look a stage up in the store; whether it hit."""
        run.state = State.READY
        if run.components is None:
            find_stage.make_keys(self._call, run)
            run.may_share = run.is_cached
        entry = find_stage.find(self._call, run)
        return entry is not None and self._end_with_hit(run, entry)

    def _end_with_hit(self, run: StageRun, entry: Entry) -> bool:
        run.entry, result = entry, entry.result
        run.completed = Completed(0, result.stdout, result.stderr, result.seconds, result.cpu)
        run.state = State.DONE
        run.contains_id |= entry.lookup_key.scope == SAME_ID
        run.set_input_record(entry.input_record)
        self._drop_promises(run)
        self._others.give_up(run)
        run.started = run.started or time.monotonic()
        return True

    def _start(self, run: StageRun) -> None:
        """Start a stage, or wait for another process that runs it; not without a slot and memory."""
        maker = next((offer for offer in (source.offer(run) for source in self._makers) if offer), None)
        if not maker:
            return
        lost = run_stage.lost_producers(self._call, run.stage)
        if lost:
            maker.cancel()
            self._run_lost(lost)
            return
        had_claim = run.claim
        elsewhere = self._others.offer(run)
        # It may have been stored since it was looked up.
        is_found = not elsewhere and run.claim is not had_claim and self._look_up(run)
        if elsewhere or is_found:
            maker.cancel()
        if not is_found:
            self._begin(elsewhere or maker)

    def _begin(self, promise: Promise) -> None:
        run = promise.run
        if promise.runs_here and run.stage.kind == OPAQUE:
            self._background.finish()  # it may change files that are about to be stored
        if promise.is_timed:
            run.started = run.started or time.monotonic()
        promise.begin(self._jobs)
        run.promises.append(promise)
        if promise.job:
            self._promises[promise.job] = promise

    def _run_lost(self, stages: list[Stage]) -> None:
        """Run stages again whose digests are known but whose outputs are lost or never stored."""
        for stage in stages:
            run = self.order.run_writing(stage.outputs[0].path)
            if run.runs_here:
                continue
            lost = run_stage.lost_producers(self._call, stage)
            self._run_lost(lost)
            rerun = None if lost else self._here.offer(run, again=True)
            if rerun:
                self._begin(rerun)

    def _end(self, promise: Promise) -> bool:
        """End a promise; whether that ends its stage. Raises errors of the promise's job."""
        run = promise.run
        run.promises.remove(promise)
        has_result = promise.end()
        if run.state == State.DONE:
            return False
        if has_result and not run.winner:
            run.winner = promise
            self._drop_promises(run)
        if run.winner:
            return not run.runs_here and self._take(run)
        return False

    def _drop_promises(self, run: StageRun) -> None:
        """Cancel the promises of a run that has its result; those with a job stay until that ends."""
        for promise in run.promises:
            promise.cancel()
        run.promises = [promise for promise in run.promises if promise.job]

    def _take(self, run: StageRun) -> bool:
        """Take the result of the first promise that had one; whether that ends the stage."""
        winner, run.winner = run.winner, None
        assert winner
        result = winner.result()
        return self._end_with_hit(run, result) if isinstance(result, Entry) else self._done(run, result)

    def _done(self, run: StageRun, tool_run: ToolRun) -> bool:
        """Take the result of a run, which ends the stage."""
        run.tool_run = tool_run
        run.state = State.DONE
        run.completed = tool_run.completed
        for source in self._makers:
            source.note_end(run)
        if run.has_failed:
            for dropped in self.order.drop_after(run):
                for promise in dropped.promises:
                    promise.cancel()
            self._others.give_up(run)
        return True
