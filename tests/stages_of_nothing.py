"""Stages that do nothing, for what only decides when each of them runs."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from types import SimpleNamespace

from nvccache.machine.process import Completed
from nvccache.machine.slots import Pool, PoolSlot, Slots
from nvccache.plan.model import Output, Plan, Stage
from nvccache.plan.stages.tool import Grammar
from nvccache.records.input_records import InputRecord
from nvccache.records.record import Entry, LookupKey, Result
from nvccache.run.schedule import Schedule
from nvccache.run.stage_run import StageRun, State, ToolRun
from nvccache.store.locks import Claims

KEY = "{:064x}"
FOUND = Entry(LookupKey(KEY.format(0)), InputRecord(), Result())


def stage(kind: str, writes: str, *reads: str) -> Stage:
    return Stage(Grammar(kind), (kind,), (kind,), reads, (Output(kind, writes),), (), (), ())


HOST, DEVICE = stage("host_preprocess", "a.cpp4.ii"), stage("device_preprocess", "a.cpp1.ii")
CUDAFE, CICC = stage("cudafe", "a.cudafe1.cpp", "a.cpp4.ii"), stage("cicc", "a.ptx", "a.cpp1.ii")
PTXAS, COMPILE = stage("ptxas", "a.cubin", "a.ptx"), stage("host_compile", "a.o", "a.cudafe1.cpp", "a.cubin")
PIPELINE = (HOST, CUDAFE, DEVICE, CICC, PTXAS, COMPILE)


class FakePool(Pool):
    """A pool of one process."""

    def __init__(self, count: int) -> None:
        super().__init__("", range(count))
        self.left = count

    def take(self) -> PoolSlot | None:
        if not self.left:
            return None
        self.left -= 1
        return FakePoolSlot(self)


class FakePoolSlot(PoolSlot):
    def __init__(self, pool: FakePool) -> None:
        super().__init__(0, -1)
        self._pool = pool

    def release(self) -> None:
        self._pool.left += 1


class FakeSlots(Slots):
    def __init__(self, count: int) -> None:
        super().__init__(FakePool(count))


@dataclasses.dataclass
class FakeExecution:
    """Runs stages by calling `does`; `stored` are the kinds whose results are in the store.

    `elsewhere` are those that remote caches have, if any; they answer once `queries_stopped` is set.
    """

    plan: Plan
    does: Callable[[Stage], int] = lambda stage: 0
    stored: set[str] = dataclasses.field(default_factory=set)
    events: list[str] = dataclasses.field(default_factory=list)
    elsewhere: set[str] | None = None
    queries_stopped: threading.Event = dataclasses.field(default_factory=threading.Event)

    forgotten: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.intermediates = SimpleNamespace(forget=lambda paths: self.forgotten.extend(sorted(paths)))
        self.runs = [StageRun(number, one) for number, one in enumerate(self.plan.steps)]

    @property
    def remote(self) -> SimpleNamespace | None:
        return None if self.elsewhere is None else SimpleNamespace(stop_queries=self.queries_stopped.set)

    def find_remote(self, wanted: StageRun) -> Entry | None:
        self.events.append(f"asked for {wanted.stage.kind}")
        assert self.queries_stopped.wait(10)
        return FOUND if wanted.stage.kind in self.elsewhere else None

    def accept(self, wanted: Stage, found: Entry) -> None:
        self.events.append(f"accepted {wanted.kind}")

    def make_keys(self, wanted: StageRun) -> None:
        wanted.components = []
        wanted.front_key = KEY.format(wanted.number + 1) if wanted.stage.grammar.is_cached else ""

    def find(self, wanted: StageRun) -> Entry | None:
        if wanted.is_cached:
            self.events.append(f"looked for {wanted.stage.kind}")
        return FOUND if wanted.stage.kind in self.stored else None

    def read_by(self, wanted: Stage) -> list[str]:
        return list(wanted.inputs)

    def input_bytes(self, wanted: Stage) -> int:
        return 0

    def run(self, wanted: Stage, handle: object = None) -> ToolRun:
        self.events.append(f"began {wanted.kind}")
        status = self.does(wanted)
        self.events.append(f"ended {wanted.kind}")
        return ToolRun(Completed(status, b"", b"", 0.25))

    def has_inputs(self, wanted: Stage) -> bool:
        return True

    def publish(self, runs: list[StageRun]) -> None:
        for run in runs:
            self.events.append(f"stored {run.stage.kind}")
            self.stored.add(run.stage.kind)
            run.input_record = InputRecord()


def execution_of(*steps: Stage, **others) -> FakeExecution:
    return FakeExecution(Plan(steps, {}, {}, "/s"), **others)


def carry_out(execution: FakeExecution, slots: int | Slots = 1, claims: Claims | None = None) -> Schedule:
    """Go through to the end as the runner does, or up to the first failure and what comes before it."""
    schedule = Schedule(execution, FakeSlots(slots) if isinstance(slots, int) else slots, claims)
    while True:
        waiting = (run.number for run in execution.runs if run.state != State.DONE)
        schedule.delivered_up_to = next(waiting, 99)
        schedule.advance()
        end = min((run.number for run in execution.runs if run.has_failed), default=99)
        if all(run.state == State.DONE for run in execution.runs if run.number <= end):
            break
        schedule.wait()
    schedule.finish()
    return schedule


def begun(execution: FakeExecution) -> list[str]:
    return [event.removeprefix("began ") for event in execution.events if event.startswith("began")]
