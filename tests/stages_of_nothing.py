"""Stages that do nothing, for what only decides when each of them runs."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from types import SimpleNamespace

from nvccache.compile.schedule import Schedule
from nvccache.compile.tasks import State
from nvccache.execution.context import Action
from nvccache.execution.run_stage import Made
from nvccache.execution.staged_call import Known
from nvccache.machine.process import Completed
from nvccache.machine.slots import Slots
from nvccache.plan.model import Output, Plan, Stage
from nvccache.plan.stages.tool import Grammar
from nvccache.records.base_dir import Relocation
from nvccache.records.input_records import InputRecord
from nvccache.records.record import Entry, LookupKey, Result
from nvccache.store.inflight import Claims

KEY = "{:064x}"
FOUND = Entry(LookupKey(KEY.format(0), Relocation("", "/")), InputRecord(), Result())


def stage(kind: str, writes: str, *reads: str) -> Stage:
    return Stage(Grammar(kind), (kind,), (kind,), reads, (Output(kind, writes),), (), (), ())


HOST, DEVICE = stage("host_preprocess", "a.cpp4.ii"), stage("device_preprocess", "a.cpp1.ii")
CUDAFE, CICC = stage("cudafe", "a.cudafe1.cpp", "a.cpp4.ii"), stage("cicc", "a.ptx", "a.cpp1.ii")
PTXAS, COMPILE = stage("ptxas", "a.cubin", "a.ptx"), stage("host_compile", "a.o", "a.cudafe1.cpp", "a.cubin")
PIPELINE = (HOST, CUDAFE, DEVICE, CICC, PTXAS, COMPILE)


class FakeSlots(Slots):
    def __init__(self, own: int) -> None:
        super().__init__(own, None, None)


@dataclasses.dataclass
class FakeExecution:
    """Runs stages by calling `does`; `stored` are the kinds whose results are in the store.

    `elsewhere` are those that remote caches have, if any; they answer once `queries_stopped` is set.
    """

    plan: Plan
    does: Callable[[Stage], int] = lambda stage: 0
    stored: set[str] = dataclasses.field(default_factory=set)
    lost: set[str] = dataclasses.field(default_factory=set)
    events: list[str] = dataclasses.field(default_factory=list)
    elsewhere: set[str] | None = None
    queries_stopped: threading.Event = dataclasses.field(default_factory=threading.Event)
    known: Known = dataclasses.field(default_factory=Known)

    @property
    def remote(self) -> SimpleNamespace | None:
        return None if self.elsewhere is None else SimpleNamespace(stop_queries=self.queries_stopped.set)

    def find_remote(self, wanted: Stage, action: Action) -> Entry | None:
        self.events.append(f"asked for {wanted.kind}")
        assert self.queries_stopped.wait(10)
        return FOUND if wanted.kind in self.elsewhere else None

    def accept(self, wanted: Stage, found: Entry) -> None:
        self.events.append(f"accepted {wanted.kind}")

    def action_of(self, wanted: Stage) -> Action:
        if not wanted.grammar.is_cached:
            return Action(reason_against_record=f"its stage {wanted.kind} is not cached")
        return Action(KEY.format(self.plan.stages.index(wanted) + 1))

    def find(self, wanted: Stage, action: Action) -> Entry | None:
        if action.is_cached:
            self.events.append(f"looked for {wanted.kind}")
        return FOUND if wanted.kind in self.stored else None

    def read_by(self, wanted: Stage) -> list[str]:
        return list(wanted.inputs)

    def lost_producers(self, wanted: Stage) -> list[Stage]:
        return [maker for maker in self.plan.stages if maker.kind in self.lost
                and maker.outputs[0].path in wanted.inputs]  # fmt: skip

    def input_bytes(self, wanted: Stage) -> int:
        return 0

    def run(self, wanted: Stage, handle: object = None) -> Made:
        self.events.append(f"began {wanted.kind}")
        status = self.does(wanted)
        self.events.append(f"ended {wanted.kind}")
        return Made(Completed(status, b"", b"", 0.25))

    def run_again(self, wanted: Stage, handle: object = None) -> Made:
        done = self.run(wanted, handle)
        self.lost.discard(wanted.kind)
        return done

    def publish(self, wanted: Stage, action: Action, made: Made) -> Known:
        self.events.append(f"stored {wanted.kind}")
        self.stored.add(wanted.kind)
        learnt = Known()
        learnt.add_input_record(wanted, InputRecord())
        return learnt


def execution_of(*steps: Stage, **others) -> FakeExecution:
    return FakeExecution(Plan(steps, {}, {}, "/s"), **others)


def go_on(schedule: Schedule) -> None:
    """Look up and start what can be."""
    schedule.look_up()
    while schedule.start():
        schedule.look_up()


def carry_out(execution: FakeExecution, slots: int | Slots = 1, claims: Claims | None = None) -> Schedule:
    """Go through to the end as the runner does, or up to the first failure and what comes before it."""
    schedule = Schedule(execution, FakeSlots(slots) if isinstance(slots, int) else slots, claims)
    ended: list = []
    while True:
        go_on(schedule)
        for task in ended:
            schedule.store_result(task)
        failed = [task.number for task in schedule.tasks.all if task.has_failed]
        if all(
            task.state == State.DONE for task in schedule.tasks.all if task.number <= min(failed, default=99)
        ):
            break
        ended = schedule.wait()
    schedule.finish()
    return schedule


def begun(execution: FakeExecution) -> list[str]:
    return [event.removeprefix("began ") for event in execution.events if event.startswith("began")]
