"""Stages on other machines in the schedule: when one is sent, what it holds meanwhile, and who wins."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from nvccache.compile.schedule import Schedule
from nvccache.compile.tasks import State, Task
from nvccache.execution.run_stage import Costs, Made
from nvccache.machine import slots
from nvccache.machine.process import Completed, Handle
from nvccache.plan.model import Stage
from nvccache.remote_execution import faults, source
from nvccache.remote_execution.faults import AwayError
from nvccache.remote_execution.work import CameBack
from nvccache.store.inflight import Claims
from stages_of_nothing import CICC, DEVICE, PTXAS, FakeSlots, execution_of, go_on

pytestmark = pytest.mark.usefixtures("steps_of_nothing")


@pytest.fixture(autouse=True)
def plenty_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "free_memory", lambda: 1 << 50)


class FakeExecutor:
    """Other machines with so many `places`; what is sent ends when `home` is set, or with an `error`."""

    is_queued = False  # the next three as an attempt has them
    has_answered = True
    allowance = 0.0

    def __init__(self, places: int = 9, error: BaseException | None = None, is_strict: bool = False) -> None:
        self.places = places
        self.error = error
        self.is_strict = is_strict
        self.home = threading.Event()
        self.events: list[str] = []
        self.words: list[str] = []
        self.expected = 1.0

    def expected_seconds(self, stage: Stage) -> float:
        return self.expected if stage.kind in ("cicc", "ptxas") else 0.0

    def place(self) -> SimpleNamespace | None:
        if not self.places:
            return None
        self.places -= 1
        is_held = [True]
        return SimpleNamespace(release=lambda: self._release(is_held))

    def _release(self, is_held: list[bool]) -> None:
        self.places += len(is_held)
        is_held.clear()

    def attempt(self, stage: Stage, handle: Handle) -> FakeExecutor:
        self.events.append(f"sent {stage.kind}")
        handle.tell(self.home.set)
        self._handle = handle
        return self

    def run(self) -> CameBack:
        assert self.home.wait(10)
        if self.error:
            raise self.error
        if self._handle.is_ended:
            raise AwayError(faults.OVERTAKEN)
        return CameBack(b"", b"", {}, Costs(run=2.0))

    def checked(self, stage: Stage, back: CameBack) -> CameBack:
        return back

    def take(self, stage: Stage, back: CameBack) -> Made:
        self.events.append(f"took {stage.kind}")
        return Made(Completed(0, b"", b"", back.costs.run), (), costs=back.costs)

    def remember(self, stage: Stage, seconds: float) -> None:
        if stage.kind != "device_preprocess":
            self.events.append(f"{stage.kind} took {seconds:.0f} s")

    def succeeded(self) -> None:
        self.events.append("the engine is well")

    def lost(self) -> None:
        self.events.append("one is lost")

    def failed(self, error: AwayError) -> None:
        self.words.append(error.word)


@pytest.fixture
def pool(tmp_path) -> Iterator[slots.Pool]:
    """A pool with one core."""
    yield slots.Pool(str(tmp_path), range(1))


def schedule_of(there: FakeExecutor, *steps: Stage, own: int = 1, claims=None, **others) -> Schedule:
    execution = execution_of(*steps, **others)
    return Schedule(execution, FakeSlots(own), claims, lambda call: source.OtherMachines(there))


def is_away(task: Task) -> bool:
    return any(isinstance(promise, source.RemoteRun) for promise in task.promises)


def is_done(task: Task) -> bool:
    return task.state == State.DONE


def wait_until(schedule: Schedule, holds: Callable[[Task], bool], number: int) -> None:
    until = time.monotonic() + 10
    while not holds(schedule.tasks.all[number]):
        assert time.monotonic() < until
        go_on(schedule)
        for task in schedule.wait():
            schedule.store_result(task)


def test_what_may_be_sent_is_sent_where_no_core_is_idle() -> None:
    there = FakeExecutor()
    schedule = schedule_of(there, DEVICE, CICC)
    wait_until(schedule, is_away, 1)
    there.home.set()
    wait_until(schedule, is_done, 1)
    schedule.finish()
    assert there.events == ["sent cicc", "the engine is well", "took cicc", "cicc took 2 s"]
    assert there.places == 9
    assert "began cicc" not in schedule._call.events
    assert "stored cicc" in schedule._call.events


def test_an_idle_core_comes_first(pool: slots.Pool) -> None:
    there = FakeExecutor()
    execution = execution_of(DEVICE, CICC)
    schedule = Schedule(execution, slots.Slots(1, pool, None), None, lambda call: source.OtherMachines(there))
    wait_until(schedule, is_done, 1)
    schedule.finish()
    assert "sent cicc" not in there.events


def test_a_stage_that_is_away_holds_its_claim_but_no_slot(cache_dir: str) -> None:
    there = FakeExecutor()
    schedule = schedule_of(there, DEVICE, CICC, claims=Claims(cache_dir))
    wait_until(schedule, is_away, 1)
    task = schedule.tasks.all[1]
    assert task.claim
    assert schedule._room._slots._in_use == []
    there.home.set()
    wait_until(schedule, is_done, 1)
    schedule.finish()


def test_where_there_is_no_place_it_runs_here() -> None:
    there = FakeExecutor(places=0)
    schedule = schedule_of(there, DEVICE, CICC)
    wait_until(schedule, is_done, 1)
    schedule.finish()
    assert "began cicc" in schedule._call.events


def test_what_did_not_come_back_runs_here_once() -> None:
    there = FakeExecutor(error=AwayError(faults.FULL))
    there.home.set()
    schedule = schedule_of(there, DEVICE, CICC, PTXAS)
    wait_until(schedule, is_done, 2)
    schedule.finish()
    assert there.words == [faults.FULL] * 2
    assert there.events.count("sent cicc") == 1
    assert "began cicc" in schedule._call.events
    assert [task.why_here for task in schedule.tasks.all] == ["", faults.FULL, faults.FULL]
    assert there.places == 9


@pytest.mark.parametrize("status", [0, 1])
def test_what_failed_only_elsewhere_is_a_loss(status: int) -> None:
    """An error of the user's is none of the engine's."""
    there = FakeExecutor(error=AwayError(faults.FAILED))
    there.home.set()
    schedule = schedule_of(there, DEVICE, CICC, does=lambda stage: status if stage.kind == "cicc" else 0)
    wait_until(schedule, is_done, 1)
    schedule.finish()
    assert there.events.count("one is lost") == (status == 0)


def test_who_could_not_send_a_stage_does_not_wait_for_its_own_claim(cache_dir: str) -> None:
    there = FakeExecutor(error=AwayError(faults.FULL))
    there.home.set()
    schedule = schedule_of(there, DEVICE, CICC, claims=Claims(cache_dir))
    wait_until(schedule, is_done, 1)
    assert not schedule.tasks.all[1].was_elsewhere
    schedule.finish()


@pytest.mark.parametrize(("error", "word"), [(OSError("no"), "failed"), (ValueError("a bug"), "broken")])
def test_an_error_of_ours_on_the_way_costs_no_build(error: Exception, word: str) -> None:
    there = FakeExecutor(error=error)
    there.home.set()
    schedule = schedule_of(there, DEVICE, CICC)
    wait_until(schedule, is_done, 1)
    schedule.finish()
    assert there.words == [word]


def test_a_bug_surfaces_where_that_is_wanted() -> None:
    there = FakeExecutor(error=ValueError("a bug"), is_strict=True)
    there.home.set()
    schedule = schedule_of(there, DEVICE, CICC)
    with pytest.raises(ValueError, match="a bug"):
        wait_until(schedule, is_done, 1)
    schedule.finish(is_wanted=False)


def test_an_overdue_stage_is_tried_here_and_the_first_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_LATE_SECONDS", 0.1)
    there = FakeExecutor()
    there.expected = 0.1
    schedule = schedule_of(there, DEVICE, CICC)
    wait_until(schedule, is_done, 1)
    assert there.home.is_set()  # it was told to end
    schedule.finish()
    task = schedule.tasks.all[1]
    assert (task.why_here, task.made.costs) == (faults.OVERTAKEN, None)
    assert "began cicc" in schedule._call.events
    assert "one is lost" in there.events


def test_the_other_machine_may_still_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_LATE_SECONDS", 0.1)
    there = FakeExecutor()
    there.expected = 0.1
    has_begun, may_end = threading.Event(), threading.Event()

    def does(stage: Stage) -> int:
        if stage.kind == "cicc":
            has_begun.set()
            assert may_end.wait(10)
        return 0

    schedule = schedule_of(there, DEVICE, CICC, does=does)
    while not has_begun.is_set():
        go_on(schedule)
        schedule.wait()
    there.home.set()
    while not schedule.tasks.all[1].winner:
        schedule.wait()
    assert schedule.tasks.all[1].run.job.handle.is_ended  # its try here was ended, and is waited for
    may_end.set()
    wait_until(schedule, is_done, 1)
    schedule.finish()
    assert "took cicc" in there.events
    assert schedule.tasks.all[1].made.costs


def test_a_stage_in_a_queue_is_taken_by_a_core_that_is_idle(
    pool: slots.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_PATIENCE", 0.1)
    monkeypatch.setattr(source, "_UNMOVED_SECONDS", 0.0)
    there = FakeExecutor()
    there.is_queued = True
    there.expected = 1000.0
    execution = execution_of(DEVICE, CICC)
    held = pool.take()
    schedule = Schedule(execution, slots.Slots(1, pool, None), None, lambda call: source.OtherMachines(there))
    wait_until(schedule, is_away, 1)
    for _ in range(5):  # no core is idle
        go_on(schedule)
        schedule.wait()
    assert "began cicc" not in execution.events
    held.release()
    wait_until(schedule, is_done, 1)
    schedule.finish()
    assert "began cicc" in execution.events
    assert there.words[0] == faults.NO_WORKERS
    assert "one is lost" not in there.events  # the engine may only be busy


@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_call_that_ends_waits_for_nothing_that_is_away(is_wanted: bool) -> None:
    there = FakeExecutor()
    schedule = schedule_of(there, DEVICE, CICC)
    wait_until(schedule, is_away, 1)
    schedule.finish(is_wanted)
    assert there.home.is_set()
    assert there.places == 9
