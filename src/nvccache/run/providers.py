"""The providers of a stage's result when the cache directory does not have it, tried in turn.

    RemoteCache     queries remotes, on a thread, while other stages run
    OtherProcesses  waits for a process that runs the stage now; else claims the stage for this one
    LocalRunner     runs it, with a slot and enough memory
    remote_execution/source.py sends it to another machine, if an executor is set

Each offers a pending result, or None. That holds what it needs, such as a slot, from the offer on. The
schedule begins it, or cancels it; of several for one stage, the first with a result wins.
"""

from __future__ import annotations

from nvccache.machine import slots
from nvccache.run import find_stage, run_stage
from nvccache.run.stage_run import PendingResult, ResultProvider
from nvccache.store import inflight
from nvccache.store.inflight import Wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.machine.slots import Slot, Slots
    from nvccache.plan.model import Stage
    from nvccache.records.record import Entry
    from nvccache.run.call import Compile
    from nvccache.run.jobs import Jobs
    from nvccache.run.order import Order
    from nvccache.run.stage_run import StageRun, ToolRun
    from nvccache.store.inflight import Claims


POLL_FOR_SLOTS_SECONDS = 0.1
_POLL_SECONDS = 0.02  # for claims of other processes


class RemoteCache(ResultProvider):
    """Queries take no slot and no memory. Passes may run at the same time: they come first, when connections
    have yet to be made, and are cheap."""

    def __init__(self, call: Compile, order: Order) -> None:
        self._call = call
        self._order = order
        self._has_queried = False

    def offer(self, run: StageRun) -> PendingResult | None:
        """Query remotes for a stage that the cache directory lacks, unless a hit is unlikely."""
        if not self._call.remote or not run.is_cached or self._order.reads_quick_output(run):
            return None
        self._has_queried = True
        return _RemoteQuery(run, self._call)

    def stop(self) -> None:
        if self._has_queried and self._call.remote:
            self._call.remote.stop_queries()


class _RemoteQuery(PendingResult):
    """A query of remotes for a stage."""

    is_timed = False

    def __init__(self, run: StageRun, call: Compile) -> None:
        super().__init__(run)
        self._call = call

    def begin(self, jobs: Jobs) -> None:
        self.job = jobs.start(lambda _: find_stage.find_remote(self._call, self.run))

    def admits(self, slot: Slot | None) -> bool:
        return self.run.stage.is_preprocessor

    def end(self) -> bool:
        assert self.job
        if self.job.error:
            raise self.job.error
        return self.job.result is not None

    def result(self) -> Entry:
        assert self.job
        entry: Entry = self.job.result
        find_stage.accept(self._call, self.run.stage, entry)
        return entry


class OtherProcesses(ResultProvider):
    """Claims of stages. A process takes one only when it can run the stage at once: no two processes wait for
    each other (docs/development/decisions/running-stages.md)."""

    def __init__(self, claims: Claims | None) -> None:
        self._claims = claims
        self._waits: set[Wait] = set()

    def offer(self, run: StageRun) -> PendingResult | None:
        """None if this process is to run the stage; it has the claim then, if claims are in use."""
        if not self._claims or not run.may_share or run.claim:
            return None
        claim = self._claims.take(run.claim_key)
        if not isinstance(claim, Wait):
            run.claim = claim
            return None
        self._waits.add(claim)
        return _Waiting(run, claim, self._waits)

    def give_up(self, run: StageRun) -> None:
        """Release the claim: the stage has been stored, or never will be. For any thread."""
        claim, run.claim = run.claim, None
        if claim and self._claims:
            self._claims.release(claim)

    def close(self) -> None:
        while self._waits:
            self._waits.pop().close()
        if self._claims:
            self._claims.release_all()


class _Waiting(PendingResult):
    """Another process runs the stage; its result is then looked up in the store."""

    poll_seconds = _POLL_SECONDS

    def __init__(self, run: StageRun, wait: Wait, waits: set[Wait]) -> None:
        super().__init__(run)
        self._wait = wait
        self._waits = waits

    def begin(self, jobs: Jobs) -> None:
        self.run.ran_elsewhere = True

    def has_ended(self) -> bool:
        state = self._wait.poll()
        if state == inflight.HELD:
            return False
        self.run.may_share = state == inflight.FREE
        self.cancel()
        return True

    def end(self) -> bool:
        return False

    def cancel(self) -> None:
        if self._wait in self._waits:
            self._waits.discard(self._wait)
            self._wait.close()


class Capacity:
    """The slots and memory of a call's running stages."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._spare: Slot | None = None  # the call's own slot is kept between its stages
        self._taken: dict[Slot, int] = {}  # bytes of memory that each may need
        self.is_full = False  # whether the last request for a slot failed

    def take(self, memory: int) -> Slot | None:
        """A slot for a stage that may need `memory` bytes; None if it has to wait."""
        slot, self._spare = self._spare or self._slots.take(), None
        if not slot:
            self.is_full = True
            return None
        promised = sum(self._taken.values())
        if promised and not slots.has_memory(memory, promised):
            self._keep_or_release(slot)
            return None
        self._taken[slot] = memory
        return slot

    def give_back(self, slot: Slot) -> None:
        if self._taken.pop(slot, None) is not None:
            self._keep_or_release(slot)

    def release_spare(self) -> None:
        """Release the kept slot: nothing here needs it now."""
        if self._spare and not self._taken:
            self._spare.release()
            self._spare = None

    def may_become_free(self) -> bool:
        return self._slots.may_become_free()

    def release_all(self) -> None:
        self._slots.release_all()
        self._spare = None

    def _keep_or_release(self, slot: Slot) -> None:
        # A slot outside the pool is not kept: a better one may have become free.
        if slot.is_own and slot.pool_slot and not self._spare:
            self._spare = slot
        else:
            slot.release()


class LocalRunner(ResultProvider):
    """Runs a stage in any slot; with `on_idle_core`, when another machine is the alternative, only on one."""

    def __init__(self, call: Compile, capacity: Capacity, *, on_idle_core: bool = False) -> None:
        self._call = call
        self._capacity = capacity
        self._on_idle_core = on_idle_core

    def offer(self, run: StageRun, *, again: bool = False) -> LocalRun | None:
        """With `again`, to reproduce outputs whose digests are known."""
        if self._capacity.is_full:
            return None
        slot = self._capacity.take(memory_of(run.stage, self._call.input_bytes(run.stage)))
        if slot and not (again or self._may_use(slot, run)):
            self._capacity.give_back(slot)
            return None
        return LocalRun(run, self._call, slot, self._capacity, again) if slot else None

    def close(self) -> None:
        self._capacity.release_all()

    def _may_use(self, slot: Slot, run: StageRun) -> bool:
        if self._on_idle_core and not slot.pool_slot:
            return False
        return all(pending.admits(slot) for pending in run.pending)


def memory_of(stage: Stage, input_bytes: int) -> int:
    return slots.memory_of(stage.tool.memory_factor, input_bytes, is_heavy=stage.tool.is_heavy)


class LocalRun(PendingResult):
    """A stage's tool runs here."""

    runs_here = True

    def __init__(self, run: StageRun, call: Compile, slot: Slot, capacity: Capacity, again: bool) -> None:
        super().__init__(run)
        self._call = call
        self._capacity = capacity
        self.slot = slot
        self.again = again

    def begin(self, jobs: Jobs) -> None:
        run_tool = run_stage.run_again if self.again else run_stage.run
        if not self.again:
            self.run.slot_number = self.slot.number
        self.job = jobs.start(lambda handle: run_tool(self._call, self.run.stage, handle))

    def end(self) -> bool:
        assert self.job
        self._capacity.give_back(self.slot)
        if self.job.handle.is_ended:
            return False
        if self.job.error:
            raise self.job.error
        return True

    def result(self) -> ToolRun:
        assert self.job
        tool_run: ToolRun = self.job.result
        return tool_run

    def cancel(self) -> None:
        if self.job:
            self.job.handle.end()
        else:
            self._capacity.give_back(self.slot)
