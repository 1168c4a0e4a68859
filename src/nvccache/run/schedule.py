"""Which stage runs when, depending on its inputs, and on slots, memory and other processes.

A stage is looked up as soon as the digests of all its inputs are known. If the cache does not have it, the
providers (providers.py) are queried for it, and the schedule waits for what they offer. Results are stored in
the background, after the stages that were waiting for them have started.
"""

from __future__ import annotations

import time

from nvccache.machine.process import Completed
from nvccache.plan.model import OPAQUE
from nvccache.records.record import Entry
from nvccache.run import find_stage, providers, publish_stage, run_stage
from nvccache.run.find_stage import SAME_ID
from nvccache.run.jobs import Background, Job, Jobs
from nvccache.run.order import Order
from nvccache.run.providers import Capacity, LocalRunner, OtherProcesses, RemoteCache
from nvccache.run.stage_run import PendingResult, ResultProvider, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.machine.slots import Slots
    from nvccache.plan.model import Stage
    from nvccache.run.call import Compile
    from nvccache.run.stage_run import MakeProvider, StageRun, ToolRun
    from nvccache.store.inflight import Claims


class Schedule:
    """The stages of one call; for the main thread only."""

    def __init__(
        self, call: Compile, slots: Slots, claims: Claims | None, executor: MakeProvider | None = None
    ) -> None:
        self.order = Order(call)
        self._call = call
        self._capacity = Capacity(slots)
        self._remote_cache = RemoteCache(call, self.order)
        self._others = OtherProcesses(claims)
        self._here = LocalRunner(call, self._capacity)
        self._makers: list[ResultProvider] = [self._here]  # queried in this order
        if executor:
            self._makers = [
                LocalRunner(call, self._capacity, on_idle_core=True),
                executor(call),
                self._here,
            ]
        self._providers = (self._remote_cache, self._others, *self._makers)
        self._jobs = Jobs()
        self._pending: dict[Job, PendingResult] = {}
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
            for pending in [each for each in run.pending if each.has_ended()]:
                self._end(pending)
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
            pending = self._pending.pop(job)
            if self._end(pending):
                ended.append(pending.run)
        return ended

    def finish(self, is_wanted: bool = True, begins_again: bool = False) -> None:
        """End running tools, store results, release everything; unless `is_wanted`, drop unstored results."""
        if not begins_again:
            for provider in self._providers:
                provider.stop()
        # Where the user ends the call, a second signal kills tools that do not end.
        self._jobs.stop(not is_wanted)
        self._background.finish(is_wanted)
        for provider in self._providers:
            provider.close()
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
        waits = [pending.poll_seconds for run in open_runs for pending in run.pending]
        waits_for_slots = any(run.waits_for_slot for run in open_runs) and self._capacity.may_become_free()
        if waits_for_slots:
            waits.append(providers.POLL_FOR_SLOTS_SECONDS)
        return min(waits, default=PendingResult.poll_seconds)

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
        self._drop_pending(run)
        self._others.give_up(run)
        run.started = run.started or time.monotonic()
        return True

    def _start(self, run: StageRun) -> None:
        """Start a stage, or wait for another process that runs it; not without a slot and memory."""
        maker = next((offer for offer in (provider.offer(run) for provider in self._makers) if offer), None)
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

    def _begin(self, pending: PendingResult) -> None:
        run = pending.run
        if pending.runs_here and run.stage.kind == OPAQUE:
            self._background.finish()  # it may change files that are about to be stored
        if pending.is_timed:
            run.started = run.started or time.monotonic()
        pending.begin(self._jobs)
        run.pending.append(pending)
        if pending.job:
            self._pending[pending.job] = pending

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

    def _end(self, pending: PendingResult) -> bool:
        """End a pending; whether that ends its stage. Raises errors of the pending's job."""
        run = pending.run
        run.pending.remove(pending)
        has_result = pending.end()
        if run.state == State.DONE:
            return False
        if has_result and not run.winner:
            run.winner = pending
            self._drop_pending(run)
        if run.winner:
            return not run.runs_here and self._take(run)
        return False

    def _drop_pending(self, run: StageRun) -> None:
        """Cancel what is pending for a stage that has its result; what has a job stays until that ends."""
        for pending in run.pending:
            pending.cancel()
        run.pending = [pending for pending in run.pending if pending.job]

    def _take(self, run: StageRun) -> bool:
        """Take the result of the first pending that had one; whether that ends the stage."""
        winner, run.winner = run.winner, None
        assert winner
        result = winner.result()
        return self._end_with_hit(run, result) if isinstance(result, Entry) else self._done(run, result)

    def _done(self, run: StageRun, tool_run: ToolRun) -> bool:
        """Take the result of a run, which ends the stage."""
        run.tool_run = tool_run
        run.state = State.DONE
        run.completed = tool_run.completed
        for provider in self._makers:
            provider.note_end(run)
        if run.has_failed:
            for dropped in self.order.drop_after(run):
                for pending in dropped.pending:
                    pending.cancel()
            self._others.give_up(run)
        return True
