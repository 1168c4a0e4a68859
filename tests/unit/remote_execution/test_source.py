"""Stages on other machines in the schedule: when one is sent, what it holds meanwhile, and who wins."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

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


class FakeTry:
    is_queued = False
    has_answered = True
    allowance = 0.0


class FakePlace:
    def __init__(self, sending: FakeSending) -> None:
        self._sending = sending

    def release(self) -> None:
        self._sending.places += 1


class FakeSending:
    """Other machines with so many `places`; what is sent ends when `home` is set, or with an `error`."""

    def __init__(self, places: int = 9, error: BaseException | None = None, is_strict: bool = False) -> None:
        self.places = places
        self.error = error
        self.is_strict = is_strict
        self.home = threading.Event()
        self.events: list[str] = []
        self.words: list[str] = []
        self.attempt = FakeTry()
        self.expected = 1.0

    @property
    def executor(self) -> FakeSending:
        return self

    def expected_seconds(self, stage: Stage) -> float:
        return self.expected if stage.kind in ("cicc", "ptxas") else 0.0

    def place(self) -> FakePlace | None:
        if not self.places:
            return None
        self.places -= 1
        return FakePlace(self)

    def run(self, stage: Stage, handle: Handle, told: list[object]) -> CameBack:
        self.events.append(f"sent {stage.kind}")
        told.append(self.attempt)
        handle.tell(self.home.set)
        assert self.home.wait(10)
        if self.error:
            raise self.error
        if handle.is_ended:
            raise AwayError(faults.OVERTAKEN)
        return CameBack(b"", b"", {}, Costs(run=2.0))

    def take(self, stage: Stage, back: CameBack) -> Made:
        self.events.append(f"took {stage.kind}")
        return Made(Completed(0, b"", b"", back.costs.run), (), costs=back.costs)

    def note_time(self, stage: Stage, seconds: float) -> None:
        if stage.kind == "device_preprocess":
            return
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


def schedule_of(sending: FakeSending, *steps: Stage, own: int = 1, claims=None, **others) -> Schedule:
    execution = execution_of(*steps, **others)
    return Schedule(execution, FakeSlots(own), claims, lambda call: source.OtherMachines(sending))


def is_away(task: Task) -> bool:
    return any(isinstance(promise, source.Trip) for promise in task.promises)


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
    sending = FakeSending()
    schedule = schedule_of(sending, DEVICE, CICC)
    wait_until(schedule, is_away, 1)
    sending.home.set()
    wait_until(schedule, is_done, 1)
    schedule.finish()
    assert sending.events == ["sent cicc", "the engine is well", "took cicc", "cicc took 2 s"]
    assert sending.places == 9
    assert "began cicc" not in schedule._call.events
    assert "stored cicc" in schedule._call.events


def test_an_idle_core_comes_first(pool: slots.Pool) -> None:
    sending = FakeSending()
    execution = execution_of(DEVICE, CICC)
    schedule = Schedule(
        execution, slots.Slots(1, pool, None), None, lambda call: source.OtherMachines(sending)
    )
    wait_until(schedule, is_done, 1)
    schedule.finish()
    assert "sent cicc" not in sending.events


def test_a_stage_that_is_away_holds_its_claim_but_no_slot(cache_dir: str) -> None:
    sending = FakeSending()
    schedule = schedule_of(sending, DEVICE, CICC, claims=Claims(cache_dir))
    wait_until(schedule, is_away, 1)
    task = schedule.tasks.all[1]
    assert task.claim
    assert schedule._room._slots._in_use == []
    sending.home.set()
    wait_until(schedule, is_done, 1)
    schedule.finish()


def test_where_there_is_no_place_it_runs_here() -> None:
    sending = FakeSending(places=0)
    schedule = schedule_of(sending, DEVICE, CICC)
    wait_until(schedule, is_done, 1)
    schedule.finish()
    assert "began cicc" in schedule._call.events


def test_what_did_not_come_back_runs_here_once() -> None:
    sending = FakeSending(error=AwayError(faults.FULL))
    sending.home.set()
    schedule = schedule_of(sending, DEVICE, CICC, PTXAS)
    wait_until(schedule, is_done, 2)
    schedule.finish()
    assert sending.words == [faults.FULL] * 2
    assert sending.events.count("sent cicc") == 1
    assert "began cicc" in schedule._call.events
    assert [task.why_here for task in schedule.tasks.all] == ["", faults.FULL, faults.FULL]
    assert sending.places == 9


@pytest.mark.parametrize("status", [0, 1])
def test_what_failed_only_elsewhere_is_a_loss(status: int) -> None:
    """An error of the user's is none of the engine's."""
    sending = FakeSending(error=AwayError(faults.FAILED))
    sending.home.set()
    schedule = schedule_of(sending, DEVICE, CICC, does=lambda stage: status if stage.kind == "cicc" else 0)
    wait_until(schedule, is_done, 1)
    schedule.finish()
    assert sending.events.count("one is lost") == (status == 0)


def test_who_could_not_send_a_stage_does_not_wait_for_its_own_claim(cache_dir: str) -> None:
    sending = FakeSending(error=AwayError(faults.FULL))
    sending.home.set()
    schedule = schedule_of(sending, DEVICE, CICC, claims=Claims(cache_dir))
    wait_until(schedule, is_done, 1)
    assert not schedule.tasks.all[1].was_elsewhere
    schedule.finish()


@pytest.mark.parametrize(("error", "word"), [(OSError("no"), "failed"), (ValueError("a bug"), "broken")])
def test_an_error_of_ours_on_the_way_costs_no_build(error: Exception, word: str) -> None:
    sending = FakeSending(error=error)
    sending.home.set()
    schedule = schedule_of(sending, DEVICE, CICC)
    wait_until(schedule, is_done, 1)
    schedule.finish()
    assert sending.words == [word]


def test_a_bug_surfaces_where_that_is_wanted() -> None:
    sending = FakeSending(error=ValueError("a bug"), is_strict=True)
    sending.home.set()
    schedule = schedule_of(sending, DEVICE, CICC)
    with pytest.raises(ValueError, match="a bug"):
        wait_until(schedule, is_done, 1)
    schedule.finish(is_wanted=False)


def test_an_overdue_stage_is_tried_here_and_the_first_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_LATE_SECONDS", 0.1)
    sending = FakeSending()
    sending.expected = 0.1
    schedule = schedule_of(sending, DEVICE, CICC)
    wait_until(schedule, is_done, 1)
    assert sending.home.is_set()  # it was told to end
    schedule.finish()
    task = schedule.tasks.all[1]
    assert (task.why_here, task.made.costs) == (faults.OVERTAKEN, None)
    assert "began cicc" in schedule._call.events
    assert "one is lost" in sending.events


def test_the_other_machine_may_still_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_LATE_SECONDS", 0.1)
    sending = FakeSending()
    sending.expected = 0.1
    has_begun, may_end = threading.Event(), threading.Event()

    def does(stage: Stage) -> int:
        if stage.kind == "cicc":
            has_begun.set()
            assert may_end.wait(10)
        return 0

    schedule = schedule_of(sending, DEVICE, CICC, does=does)
    while not has_begun.is_set():
        go_on(schedule)
        schedule.wait()
    sending.home.set()
    while not schedule.tasks.all[1].winner:
        schedule.wait()
    assert schedule.tasks.all[1].run.job.handle.is_ended  # its try here was ended, and is waited for
    may_end.set()
    wait_until(schedule, is_done, 1)
    schedule.finish()
    assert "took cicc" in sending.events
    assert schedule.tasks.all[1].made.costs


def test_a_stage_in_a_queue_is_taken_by_a_core_that_is_idle(
    pool: slots.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_PATIENCE", 0.1)
    monkeypatch.setattr(source, "_UNMOVED_SECONDS", 0.0)
    sending = FakeSending()
    sending.attempt.is_queued = True
    sending.expected = 1000.0
    execution = execution_of(DEVICE, CICC)
    held = pool.take()
    schedule = Schedule(
        execution, slots.Slots(1, pool, None), None, lambda call: source.OtherMachines(sending)
    )
    wait_until(schedule, is_away, 1)
    for _ in range(5):  # no core is idle
        go_on(schedule)
        schedule.wait()
    assert "began cicc" not in execution.events
    held.release()
    wait_until(schedule, is_done, 1)
    schedule.finish()
    assert "began cicc" in execution.events
    assert sending.words[0] == faults.NO_WORKERS
    assert "one is lost" not in sending.events  # the engine may only be busy


@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_call_that_ends_waits_for_nothing_that_is_away(is_wanted: bool) -> None:
    sending = FakeSending()
    schedule = schedule_of(sending, DEVICE, CICC)
    wait_until(schedule, is_away, 1)
    schedule.finish(is_wanted)
    assert sending.home.is_set()
    assert sending.places == 9
