"""Remote stages in the schedule: when one is sent, which slots it holds, and which run wins."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from nvccache.machine import slots
from nvccache.machine.process import Completed
from nvccache.remote_execution import faults, source
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.work import RemoteResult
from nvccache.run.schedule import Schedule
from nvccache.run.stage_run import Costs, State, ToolRun
from nvccache.store.inflight import Claims
from stages_of_nothing import CICC, DEVICE, PTXAS, FakeSlots, execution_of, go_on

pytestmark = pytest.mark.usefixtures("steps_of_nothing")


@pytest.fixture(autouse=True)
def plenty_of_memory(monkeypatch):
    monkeypatch.setattr(slots, "free_memory", lambda: 1 << 50)


class FakeExecutor:
    """A sent stage ends when `home` is set, or immediately with `error`."""

    def __init__(self, free_slots=9, error=None, is_strict=False):
        self.free_slots = free_slots
        self.error = error
        self.is_strict = is_strict
        self.home = threading.Event()
        self.events = []
        self.faults = []
        if error:
            self.home.set()

    def take_slot(self, stage):
        if not self.free_slots or stage.kind not in ("cicc", "ptxas"):
            return None
        self.free_slots -= 1
        is_held = [True]
        return SimpleNamespace(release=lambda: self._release(is_held))

    def _release(self, is_held):
        self.free_slots += len(is_held)
        is_held.clear()

    def run(self, stage, handle):
        self.events.append(f"sent {stage.kind}")
        handle.on_end(self.home.set)
        assert self.home.wait(10)
        if self.error:
            raise self.error
        if handle.is_ended:
            raise ExecutorError(faults.CANCELLED)
        return RemoteResult(b"", b"", {}, Costs(run=2.0))

    def take(self, stage, back):
        self.events.append(f"took {stage.kind}")
        return ToolRun(Completed(0, b"", b"", back.costs.run), (), costs=back.costs)

    def begin_outage(self, fault, text):
        self.events.append("an outage")

    def note_failure(self, error):
        self.faults.append(error.fault)


@pytest.fixture
def pool(tmp_path):
    """A pool with one core."""
    return slots.Pool(str(tmp_path), range(1))


def schedule_of(there, *steps, at_once=None, claims=None, **others):
    execution = execution_of(*steps, **others)
    return Schedule(execution, at_once or FakeSlots(1), claims, lambda call: source.OtherMachines(there))


def is_away(run):
    return any(isinstance(promise, source.RemoteRun) for promise in run.promises)


def is_done(run):
    return run.state == State.DONE


def wait_until(schedule, holds, number):
    until = time.monotonic() + 10
    while not holds(schedule.order.runs[number]):
        assert time.monotonic() < until
        go_on(schedule)
        for run in schedule.wait():
            schedule.store_result(run)


def finished(schedule, number=1):
    """Run until this stage is done; the states of all stages, and what was done for them here."""
    wait_until(schedule, is_done, number)
    schedule.finish()
    return schedule.order.runs, schedule._call.events


def test_what_may_be_sent_is_sent_where_no_core_is_idle():
    there = FakeExecutor()
    schedule = schedule_of(there, DEVICE, CICC)
    wait_until(schedule, is_away, 1)
    there.home.set()
    _, here = finished(schedule)
    assert there.events == ["sent cicc", "took cicc"]
    assert there.free_slots == 9
    assert "began cicc" not in here
    assert "stored cicc" in here


def test_an_idle_core_comes_first(pool):
    there = FakeExecutor()
    finished(schedule_of(there, DEVICE, CICC, at_once=slots.Slots(1, pool, None)))
    assert "sent cicc" not in there.events


def test_a_stage_that_is_away_holds_its_claim_but_no_slot(cache_dir):
    there = FakeExecutor()
    schedule = schedule_of(there, DEVICE, CICC, claims=Claims(cache_dir))
    wait_until(schedule, is_away, 1)
    assert schedule.order.runs[1].claim
    assert schedule._capacity._slots._in_use == []
    there.home.set()
    finished(schedule)


def test_where_there_is_no_place_it_runs_here():
    _, here = finished(schedule_of(FakeExecutor(free_slots=0), DEVICE, CICC))
    assert "began cicc" in here


def test_what_did_not_come_back_runs_here_once():
    there = FakeExecutor(error=ExecutorError(faults.NO_WORKERS))
    runs, here = finished(schedule_of(there, DEVICE, CICC, PTXAS), 2)
    assert there.faults == [faults.NO_WORKERS] * 2
    assert there.events.count("sent cicc") == 1
    assert "began cicc" in here
    assert [run.why_here for run in runs] == ["", faults.NO_WORKERS, faults.NO_WORKERS]
    assert there.free_slots == 9


@pytest.mark.parametrize("status", [0, 1])
def test_what_failed_only_elsewhere_is_a_loss(status):
    """An error in the user's source is no fault of the engine."""
    there = FakeExecutor(error=ExecutorError(faults.FAILED))
    finished(schedule_of(there, DEVICE, CICC, does=lambda stage: status if stage.kind == "cicc" else 0))
    assert there.events.count("an outage") == (status == 0)


@pytest.mark.parametrize(("error", "word"), [(OSError("no"), "failed"), (ValueError("a bug"), "broken")])
def test_an_error_of_ours_on_the_way_costs_no_build(error, word):
    there = FakeExecutor(error=error)
    finished(schedule_of(there, DEVICE, CICC))
    assert there.faults == [word]


def test_a_bug_surfaces_where_that_is_wanted():
    schedule = schedule_of(FakeExecutor(error=ValueError("a bug"), is_strict=True), DEVICE, CICC)
    with pytest.raises(ValueError, match="a bug"):
        wait_until(schedule, is_done, 1)
    schedule.finish(is_wanted=False)


@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_call_that_ends_waits_for_nothing_that_is_away(is_wanted):
    there = FakeExecutor()
    schedule = schedule_of(there, DEVICE, CICC)
    wait_until(schedule, is_away, 1)
    schedule.finish(is_wanted)
    assert there.home.is_set()
    assert there.free_slots == 9
