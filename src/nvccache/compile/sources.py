"""The sources of a stage's result when the cache directory does not have it, tried in turn.

    RemoteCache     queries remotes, on a thread, while other stages run
    OtherProcesses  waits for a process that runs the stage now; else claims the stage for this one
    Here            runs it, with a slot and enough memory
    remote_execution/source.py sends it to another machine, if an executor is set

Each offers a promise, or None. A promise holds what it needs, such as a slot, from the offer on. The schedule
begins it, or cancels it; of several promises of one task, the first with a result wins.
"""

from __future__ import annotations

from nvccache.compile.tasks import Promise, Source, Task
from nvccache.execution import find_stage, run_stage
from nvccache.machine import slots
from nvccache.store import inflight
from nvccache.store.inflight import Wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.compile.jobs import Jobs
    from nvccache.compile.tasks import Tasks
    from nvccache.execution.run_stage import Made
    from nvccache.execution.staged_call import StagedCall
    from nvccache.machine.slots import Slot, Slots
    from nvccache.plan.model import Stage
    from nvccache.records.record import Entry
    from nvccache.store.inflight import Claims


POLL_FOR_SLOTS_SECONDS = 0.1
_POLL_SECONDS = 0.02  # for claims of other processes


class RemoteCache(Source):
    """Queries take no slot and no memory. Passes may run at the same time: they come first, when connections
    have yet to be made, and are cheap."""

    def __init__(self, call: StagedCall, tasks: Tasks) -> None:
        self._call = call
        self._tasks = tasks
        self._has_queried = False

    def offer(self, task: Task) -> Promise | None:
        """Query remotes for a stage that the cache directory lacks, unless a hit is unlikely."""
        if not self._call.remote or not task.action or not task.action.is_cached:
            return None
        if self._tasks.reads_quick_output(task):
            return None
        self._has_queried = True
        return _RemoteQuery(task, self._call)

    def stop(self) -> None:
        if self._has_queried and self._call.remote:
            self._call.remote.stop_queries()


class _RemoteQuery(Promise):
    """A query of remotes for a stage."""

    is_timed = False

    def __init__(self, task: Task, call: StagedCall) -> None:
        super().__init__(task)
        self._call = call

    def begin(self, jobs: Jobs) -> None:
        call, stage, action = self._call, self.task.stage, self.task.action
        assert action
        self.job = jobs.start(lambda _: find_stage.find_remote(call, stage, action))

    def admits(self, slot: Slot | None) -> bool:
        return self.task.stage.is_preprocessor

    def end(self) -> bool:
        assert self.job
        if self.job.error:
            raise self.job.error
        return self.job.result is not None

    def take(self) -> Entry:
        assert self.job
        found: Entry = self.job.result
        find_stage.accept(self._call, self.task.stage, found)
        return found


class OtherProcesses(Source):
    """Claims of stages. A process takes one only when it can run the stage at once: no two processes wait for
    each other (docs/development/decisions/running-stages.md)."""

    def __init__(self, claims: Claims | None) -> None:
        self._claims = claims
        self._waits: set[Wait] = set()

    def offer(self, task: Task) -> Promise | None:
        """None if this process is to run the stage; it has the claim then, if claims are in use."""
        if not self._claims or not task.may_share or task.claim:
            return None
        assert task.action
        claim = self._claims.take(task.action.claim_key)
        if not isinstance(claim, Wait):
            task.claim = claim
            return None
        self._waits.add(claim)
        return _Waiting(task, claim, self._waits)

    def give_up(self, task: Task) -> None:
        """Release the claim: the stage has been stored, or never will be. For any thread."""
        claim, task.claim = task.claim, None
        if claim and self._claims:
            self._claims.release(claim)

    def close(self) -> None:
        while self._waits:
            self._waits.pop().close()
        if self._claims:
            self._claims.release_all()


class _Waiting(Promise):
    """Another process runs the stage; its result is then looked up in the store."""

    poll_seconds = _POLL_SECONDS

    def __init__(self, task: Task, wait: Wait, waits: set[Wait]) -> None:
        super().__init__(task)
        self._wait = wait
        self._waits = waits

    def begin(self, jobs: Jobs) -> None:
        self.task.ran_elsewhere = True

    def has_ended(self) -> bool:
        state = self._wait.poll()
        if state == inflight.HELD:
            return False
        self.task.may_share = state == inflight.FREE
        self.cancel()
        return True

    def end(self) -> bool:
        return False

    def cancel(self) -> None:
        if self._wait in self._waits:
            self._waits.discard(self._wait)
            self._wait.close()


class Room:
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
        if slot.is_own and slot.is_in_pool and not self._spare:
            self._spare = slot
        else:
            slot.release()


class Here(Source):
    """Runs a stage in any slot; with `on_idle_core`, when another machine is the alternative, only on one."""

    def __init__(self, call: StagedCall, room: Room, *, on_idle_core: bool = False) -> None:
        self._call = call
        self._room = room
        self._on_idle_core = on_idle_core

    def offer(self, task: Task, *, again: bool = False) -> Run | None:
        """With `again`, to reproduce outputs whose digests are known."""
        if self._room.is_full:
            return None
        slot = self._room.take(memory_of(task.stage, self._call.input_bytes(task.stage)))
        if slot and not (again or self._may_use(slot, task)):
            self._room.give_back(slot)
            return None
        return Run(task, self._call, slot, self._room, again) if slot else None

    def close(self) -> None:
        self._room.release_all()

    def _may_use(self, slot: Slot, task: Task) -> bool:
        if self._on_idle_core and not slot.is_in_pool:
            return False
        return all(promise.admits(slot) for promise in task.promises)


def memory_of(stage: Stage, input_bytes: int) -> int:
    return slots.memory_of(stage.tool.memory_factor, input_bytes, is_heavy=stage.tool.is_heavy)


class Run(Promise):
    """A stage's tool runs here."""

    runs_here = True

    def __init__(self, task: Task, call: StagedCall, slot: Slot, room: Room, again: bool) -> None:
        super().__init__(task)
        self._call = call
        self._room = room
        self.slot = slot
        self.again = again

    def begin(self, jobs: Jobs) -> None:
        call, stage = self._call, self.task.stage
        run = run_stage.run_again if self.again else run_stage.run
        if not self.again:
            self.task.slot_number = self.slot.number
        self.job = jobs.start(lambda handle: run(call, stage, handle))

    def end(self) -> bool:
        assert self.job
        self._room.give_back(self.slot)
        if self.job.handle.is_ended:
            return False
        if self.job.error:
            raise self.job.error
        return True

    def take(self) -> Made:
        assert self.job
        made: Made = self.job.result
        return made

    def cancel(self) -> None:
        if self.job:
            self.job.handle.end()
        else:
            self._room.give_back(self.slot)
