"""Decides which stage runs when, and where its result comes from.

A stage is looked up in the cache directory as soon as everything that it reads is known. If its result is not
there, these jobs try to get it one after another. Each job has a thread of its own, which mostly waits:

    a query of remote caches
    waiting for another process that runs the same stage now (store/locks.py)
    an executor, if one is set and no core is idle here (remote_execution/executor.py)
    the stage's tool, which needs a slot and enough memory (machine/slots.py)

Results are stored when nothing else can be done, which is after the stages that need them have started.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import signal
import threading
import time
from collections.abc import Callable

from nvccache import module_id
from nvccache.machine import slots
from nvccache.machine.process import Completed, Handle
from nvccache.machine.slots import Slot, Slots
from nvccache.plan.model import ANY_WRAPPER, OPAQUE
from nvccache.records.record import Entry
from nvccache.run import find_stage, publish_stage, run_stage
from nvccache.run.call import Compile
from nvccache.run.find_stage import SAME_ID
from nvccache.run.stage_run import MakeExecutor, StageRun, State, ToolRun, Work
from nvccache.store import locks
from nvccache.store.locks import Claims, Wait

_LONG_SECONDS = 0.5  # long compared with a query of a remote
_POLL_FOR_SLOTS_SECONDS = 0.1
_POLL_SECONDS = 0.02  # between two checks whether another process still runs a stage
_CLEANING_SECONDS = 1.0  # how long a tool may take to remove its temporary files


class Job:
    """Work for one stage on a thread of its own; when it has ended, `result` or `error` may be set."""

    def __init__(self, run: StageRun, work: Work, release: Callable[[], None]) -> None:
        self.run = run
        self.release = release  # releases what the job holds, such as a slot
        self.handle = Handle()
        self.result: Entry | ToolRun | None = None
        self.error: BaseException | None = None
        self._work = work

    def start(self, ended: queue.SimpleQueue[Job]) -> None:
        """Start the thread; this can fail if memory or the number of processes is limited."""
        self.thread = threading.Thread(target=self._do, args=(ended,), daemon=True)
        self.thread.start()

    def _do(self, ended: queue.SimpleQueue[Job]) -> None:
        try:
            self.result = self._work(self.handle)
        except BaseException as error:  # raised again by the main thread
            self.error = error
        ended.put(self)


class Schedule:
    """Runs the stages of one call; only the main thread may use it."""

    def __init__(
        self,
        call: Compile,
        call_slots: Slots,
        claims: Claims | None,
        executor: MakeExecutor | None = None,
        on_result: Callable[[StageRun], None] = lambda run: None,
    ) -> None:
        self.delivered_up_to = 0  # the products of all stages with lower numbers have been delivered
        self.by_urgency = sorted(call.runs, key=_urgency)
        self._call = call
        self._slots = call_slots
        self._claims = claims
        self._executor = executor(call) if executor else None
        self._on_result = on_result  # called with each result before a stage reads it
        self._by_output = {output.path: run for run in call.runs for output in run.stage.outputs}
        self._before = {run: self._runs_before(run) for run in call.runs}
        self._limit = len(call.plan.steps)  # the number of the first stage that failed; later ones do not run
        self._jobs: set[Job] = set()
        self._ended: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._unstored: list[StageRun] = []
        self._memory: dict[Slot, int] = {}  # bytes that the tool in each slot may need
        self._spare: Slot | None = None  # the call's own slot is kept between its stages
        self._is_full = False  # whether the last request for a slot failed

    def advance(self) -> None:
        """Look up all stages whose inputs are known; start those without a result, while there are slots."""
        self._is_full, has_changed = False, True
        while has_changed:
            has_changed = False
            for run in self._call.runs:
                if run.state == State.WAITING and self.can_be_looked_up(run):
                    has_changed |= self._look_up(run)
            if has_changed:
                continue  # other stages may be looked up now
            for run in self.by_urgency:
                if self._needs_slot(run):
                    has_changed |= self._start(run)
        if self._spare and not self._memory and not any(map(self._needs_slot, self._call.runs)):
            self._slots.release(self._spare)
            self._spare = None

    def wait(self) -> None:
        """Wait until a job ends, or until a slot may be free.

        Raises the error of the job. If there is nothing to wait for, raises RuntimeError, so that nvcc runs
        the call.
        """
        needs_slot = any(map(self._needs_slot, self._call.runs))
        if not self._jobs and not needs_slot:
            raise RuntimeError("no stage can continue")
        while self._ended.empty() and (runs := self._storable()):
            self._store(runs)
        for run in self._unstored:
            if run.tool_run and run.tool_run.log:
                run.tool_run.log.read()  # now, as storing the result will take less time
        polls = needs_slot and (not self._jobs or self._slots.may_become_free())
        with contextlib.suppress(queue.Empty):
            job = self._ended.get(timeout=_POLL_FOR_SLOTS_SECONDS if polls else None)
            if job in self._jobs:
                self._end(job)

    def begin_again(self) -> None:
        """Drop results from text with other line numbers, and the results of stages that have read these."""
        self._call.ignores_lines = False
        self._store_all()
        forgotten: list[StageRun] = []
        for run in self._call.runs:
            if run.has_other_lines or any(maker in forgotten for maker in self._makers(run)):
                forgotten.append(run)
        self._stop([job for job in self._jobs if job.run in forgotten])
        for run in forgotten:
            self._give_up_claim(run)
            run.reset()
            self._call.intermediates.forget(output.path for output in run.stage.outputs)
        failed = (run.number for run in self._call.runs if run.has_failed)
        self._limit = min(failed, default=len(self._call.plan.steps))
        self.delivered_up_to = 0

    def finish(self) -> None:
        """Store the remaining results, unless a stage has failed, and end jobs that are no longer needed."""
        if self._limit == len(self._call.plan.steps):
            self._store_all()
        self.stop()

    def stop(self) -> None:
        """End all jobs, and release all slots and locks of stages."""
        if self._jobs and self._call.remote:
            self._call.remote.stop_queries()
        self._stop(list(self._jobs))
        self._slots.release_all()
        if self._claims:
            self._claims.release_all()
        if self._executor:
            self._executor.close()

    def can_be_looked_up(self, run: StageRun) -> bool:
        """Whether all stages that must precede this one are done; those that will never run do not count."""
        before = self._before[run]
        if run.number > self._limit or any(
            other.state != State.DONE and other.number < self._limit for other in before
        ):
            return False
        # A stage with `stays_in_order` may read products of earlier stages, which must be delivered first.
        return not run.stage.grammar.stays_in_order or all(
            other.number < self.delivered_up_to for other in before
        )

    def _runs_before(self, run: StageRun) -> set[StageRun]:
        """The stages that have to be done before this one can be looked up."""
        stage = run.stage
        earlier = [other for other in self._call.runs if other.number < run.number]
        if stage.grammar.stays_in_order:  # its inputs and outputs are not all known
            return set(earlier)
        before = {*self._makers(run), *(each for each in earlier if each.stage.grammar.stays_in_order)}
        if stage.tool.waits_for_passes:
            end = self._call.plan.end_of_passes(run.number)
            before.update(
                each for each in self._call.runs if each.stage.is_preprocessor and each.number < end
            )
        if module_id.file_of(stage):
            # The module id needs only the first pass. So cudafe++, which finds most errors, can run before
            # the passes for the device.
            first = module_id.first_pass_of(self._call.plan, stage)
            before.update([self._by_output[first.outputs[0].path]] if first else [])
        # Stages that start an unknown wrapper run one after another, since its runs may use the same file.
        if stage.wrapper == ANY_WRAPPER:
            same = [each for each in earlier if each.stage.wrapper == ANY_WRAPPER]
            before.update(each for each in same if each.stage.is_preprocessor == stage.is_preprocessor)
        return before

    def _makers(self, run: StageRun) -> list[StageRun]:
        """The stages that write the intermediates that a stage reads."""
        return [self._by_output[path] for path in self._call.read_by(run.stage) if path in self._by_output]

    def _needs_slot(self, run: StageRun) -> bool:
        return run.state == State.READY and not run.job and run.number < self._limit

    def _look_up(self, run: StageRun) -> bool:
        """Look a stage up in the cache; returns whether it hit. A miss may start a query of remote caches."""
        is_first = run.state == State.WAITING
        if is_first:
            find_stage.make_keys(self._call, run)
            run.may_share = run.is_cached
            run.state = State.READY
        entry = find_stage.find(self._call, run)
        if entry:
            self._take_entry(run, entry)
        elif is_first and self._call.remote and run.is_cached and not self._reads_quick_output(run):
            self._begin(run, lambda _: find_stage.find_remote(self._call, run), lambda: None)
        return entry is not None

    def _reads_quick_output(self, run: StageRun) -> bool:
        """Whether a stage reads the output of another stage, which is no pass and has just run quickly.

        No cache had the result of that stage, so none is likely to have the result of this one, and a query
        takes long compared with the time that it could save. After a long stage, a query is worthwhile, since
        its output may be the same as before: after an edit of host code, cicc runs again, but the PTX is the
        same.
        """
        makers = [maker for maker in self._makers(run) if not maker.stage.is_preprocessor]
        return any(maker.tool_run and maker.tool_run.completed.seconds < _LONG_SECONDS for maker in makers)

    def _start(self, run: StageRun) -> bool:
        """Start a job for a stage if there is a slot; returns True if its result was found in the store."""
        slot = self._take_slot(run)
        sent = None
        if self._executor and not (slot and slot.pool_slot) and run_stage.has_inputs(self._call, run.stage):
            sent = self._executor.offer(run)
        if not slot and not sent:
            return False
        if slot and sent:
            self._give_back(slot)
            slot = None

        def run_here(handle: Handle) -> ToolRun:
            return run_stage.run(self._call, run.stage, handle)

        work, release = sent or (run_here, lambda: self._give_back(slot))
        run.started = run.started or time.monotonic()
        # A process locks a stage only when it can run the stage at once, so that two processes never wait for
        # each other (docs/development/decisions/running-stages.md).
        if self._claims and run.may_share and not run.claim:
            claim = self._claims.take(run.claim_key)
            if isinstance(claim, Wait):
                release()
                run.ran_elsewhere = True
                self._begin(run, functools.partial(_wait_for, claim, run), claim.close)
                return False
            run.claim = claim
            if claim and self._look_up(run):  # another process has stored the result meanwhile
                release()
                return True
        if slot:
            run.slot_number = slot.number
            if run.stage.kind == OPAQUE:
                self._store_all()  # the command may change files that are about to be stored
        self._begin(run, work, release)
        return False

    def _begin(self, run: StageRun, work: Work, release: Callable[[], None]) -> None:
        job = Job(run, work, release)
        job.start(self._ended)
        self._jobs.add(job)
        run.job = job

    def _end(self, job: Job) -> None:
        """Take the result of a job that has ended; raises its error."""
        run = job.run
        run.job = None
        self._jobs.discard(job)
        job.release()
        if job.handle.is_ended:
            return
        if job.error:
            raise job.error
        if isinstance(job.result, Entry):
            find_stage.accept(self._call, run.stage, job.result)
            self._take_entry(run, job.result)
        elif job.result:
            self._take_run(run, job.result)
        elif run.ran_elsewhere:
            self._look_up(run)

    def _take_entry(self, run: StageRun, entry: Entry) -> None:
        run.entry, result = entry, entry.result
        run.completed = Completed(0, result.stdout, result.stderr, result.seconds, result.cpu)
        run.state = State.DONE
        run.contains_id |= entry.lookup_key.scope == SAME_ID
        run.input_record = entry.input_record
        self._give_up_claim(run)
        run.started = run.started or time.monotonic()
        self._on_result(run)

    def _take_run(self, run: StageRun, tool_run: ToolRun) -> None:
        run.tool_run, run.completed = tool_run, tool_run.completed
        run.state = State.DONE
        if self._executor:
            self._executor.note_end(run)
        if run.has_failed:
            self._limit = min(self._limit, run.number)
            for job in self._jobs:
                if job.run.number > self._limit:
                    job.handle.end()
            self._give_up_claim(run)
        elif run.is_cached:
            self._unstored.append(run)
        self._on_result(run)

    def _store_all(self) -> None:
        self._store(list(self._unstored))

    def _store(self, runs: list[StageRun]) -> None:
        self._unstored = [run for run in self._unstored if run not in runs]
        try:
            publish_stage.publish(self._call, runs)
        finally:
            for run in runs:
                self._give_up_claim(run)

    def _storable(self) -> list[StageRun]:
        """The results to store next: one of a tool; or those of the passes, unless another pass runs here."""
        of_tools = [run for run in self._unstored if not run.stage.is_preprocessor]
        # Two calls may wait for each other's passes, so a pass that runs elsewhere must not delay the others.
        is_passing = any(job.run.stage.is_preprocessor and not job.run.ran_elsewhere for job in self._jobs)
        return of_tools[:1] or ([] if is_passing else self._unstored)

    def _give_up_claim(self, run: StageRun) -> None:
        """Release the lock of a stage, since its result has been stored or never will be."""
        claim, run.claim = run.claim, None
        if claim and self._claims:
            self._claims.release(claim)

    def _stop(self, jobs: list[Job]) -> None:
        """End jobs and wait for their threads; tools that do not end soon are killed."""
        for job in jobs:
            job.handle.end()
        kills_at = time.monotonic() + _CLEANING_SECONDS
        for job in jobs:
            job.thread.join(max(0.0, kills_at - time.monotonic()))
            if job.thread.is_alive():
                job.handle.end(signal.SIGKILL)
                job.thread.join()
            self._end(job)

    def _take_slot(self, run: StageRun) -> Slot | None:
        """A slot for a stage; None if it has to wait for one, or for memory."""
        slot, self._spare = self._spare or (None if self._is_full else self._slots.take()), None
        if not slot:
            self._is_full = True
            return None
        tool, reserved = run.stage.tool, sum(self._memory.values())
        memory = slots.memory_of(
            tool.memory_factor, self._call.input_bytes(run.stage), is_heavy=tool.is_heavy
        )
        if reserved and not slots.has_memory(memory, reserved):
            self._keep_or_release(slot)
            return None
        self._memory[slot] = memory
        return slot

    def _give_back(self, slot: Slot | None) -> None:
        if slot and self._memory.pop(slot, None) is not None:
            self._keep_or_release(slot)

    def _keep_or_release(self, slot: Slot) -> None:
        # The call's own slot is kept only if it has one of the pool, which shows other calls that a core is
        # in use. Otherwise, the next slot that the call takes may include a slot of the pool.
        if slot.is_own and slot.pool_slot and not self._spare:
            self._spare = slot
        else:
            self._slots.release(slot)


def _urgency(run: StageRun) -> tuple[int, int]:
    """A sort key by which the most urgent stage comes first."""
    tool = run.stage.tool
    return -tool.priority, -run.number if tool.starts_in_reverse else run.number


def _wait_for(wait: Wait, run: StageRun, handle: Handle) -> None:
    """Wait until another process no longer runs a stage; its result is then looked up in the store."""
    while (state := wait.poll()) == locks.HELD and not handle.is_ended:
        time.sleep(_POLL_SECONDS)
    run.may_share = state == locks.FREE
