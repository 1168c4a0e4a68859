"""Remote stages in the schedule: when one is sent, what it holds, which result is taken, and outages."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

import hand_made_plans
from hand_made_plans import COMPILE, CUDAFE, FATBINARY, HOST
from nvccache import config, endpoint
from nvccache.machine import slots
from nvccache.machine.process import Completed
from nvccache.remote_execution import engine, executor, faults, work
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.work import SCRATCH_NAME, RemoteResult
from nvccache.run import run_stage
from nvccache.run.schedule import Schedule
from nvccache.run.stage_run import StageRun, State, ToolRun
from nvccache.store.locks import Claims
from stages_of_nothing import CICC, DEVICE, PTXAS, execution_of

JOBS = 2  # stages that may be sent at once


@pytest.fixture(autouse=True)
def few_slots(monkeypatch):
    monkeypatch.setattr(executor, "_JOBS", JOBS)


def machines_of(call, **variables):
    variables = {"HOME": "/", **variables}
    return executor.OtherMachines(call, endpoint.parse("grpc://engine:1"), config.load(variables))


class FakeMachines(executor.OtherMachines):
    """A sent stage ends when `home` is set, or immediately with `error`."""

    def __init__(self, error=None, **variables):
        vars(self).update(vars(machines_of(SimpleNamespace(environ={}), **variables)))
        self.error = error
        self.home = threading.Event()
        self.events = []
        if error:
            self.home.set()

    def run_stage(self, stage, handle):
        self.events.append(f"sent {stage.kind}")
        handle.on_end(self.home.set)
        assert self.home.wait(10)
        if self.error:
            raise self.error
        if handle.is_ended:
            raise ExecutorError(faults.CANCELLED)
        return RemoteResult(Completed(0, b"", b"", 2.0), {})

    def take_result(self, stage, result):
        self.events.append(f"took {stage.kind}")
        return ToolRun(result.completed, executor="grpc://engine:1")

    def free_slots(self):
        taken = [self._pool.take() for _ in range(JOBS)]
        for slot in filter(None, taken):
            slot.release()
        return sum(slot is not None for slot in taken)


@pytest.fixture
def schedule_of(steps_of_nothing, monkeypatch):
    monkeypatch.setattr(slots, "free_memory", lambda: 1 << 50)

    def make(there, *steps, at_once=None, claims=None, **others):
        execution = execution_of(*steps, **others)
        return Schedule(execution, at_once or slots.Slots(slots.Pool("", ())), claims, lambda call: there)

    return make


def is_sent(run):
    return run.job is not None and not run.completed


def is_done(run):
    return run.state == State.DONE


def wait_until(schedule, holds, number):
    until = time.monotonic() + 10
    schedule.advance()
    while not holds(schedule._call.runs[number]):
        assert time.monotonic() < until
        schedule.wait()
        schedule.advance()


def finished(schedule, number=1):
    """Run until this stage is done; the states of all stages, and what was done for them here."""
    wait_until(schedule, is_done, number)
    schedule.finish()
    return schedule._call.runs, schedule._call.events


def test_a_stage_run_remotely_keeps_its_claim_takes_no_local_slot_and_is_stored(schedule_of, cache_dir):
    there = FakeMachines()
    schedule = schedule_of(there, DEVICE, CICC, claims=Claims(cache_dir))
    wait_until(schedule, is_sent, 1)
    assert schedule._call.runs[1].claim
    assert schedule._slots._in_use == []
    assert there.free_slots() == JOBS - 1
    there.home.set()
    _, here = finished(schedule)
    assert there.events == ["sent cicc", "took cicc"]
    assert there.free_slots() == JOBS
    assert "began cicc" not in here
    assert "stored cicc" in here


def test_a_stage_is_sent_nowhere_while_a_core_here_is_idle(schedule_of, tmp_path):
    there = FakeMachines()
    one_core = slots.Slots(slots.Pool(str(tmp_path), range(1)))
    finished(schedule_of(there, DEVICE, CICC, at_once=one_core))
    assert "sent cicc" not in there.events


def test_a_stage_that_failed_remotely_runs_here_once(schedule_of):
    there = FakeMachines(error=ExecutorError(faults.FAILED))
    tasks, here = finished(schedule_of(there, DEVICE, CICC, PTXAS, does=lambda stage: stage.kind == "cicc"))
    assert there.events == ["sent cicc"]
    assert here.count("began cicc") == 1
    assert [task.why_here for task in tasks[:2]] == ["", faults.FAILED]
    assert there.free_slots() == JOBS


@pytest.mark.parametrize(
    ("error", "status", "is_outage"),
    [
        (ExecutorError(faults.UNREACHABLE), 0, True),
        (ExecutorError(faults.BROKEN), 1, True),
        (ExecutorError(faults.FAILED), 0, True),
        (ExecutorError(faults.FAILED), 1, False),  # because of the user's source
        (ExecutorError(faults.CANCELLED), 0, False),
        (OSError("no"), 1, False),
        (ValueError("a bug"), 1, True),
    ],
)
def test_after_a_fault_of_the_remote_engine_no_stage_is_sent_for_a_while(
    schedule_of, tmp_path, error, status, is_outage
):
    log = tmp_path / "log"
    there = FakeMachines(error=error, NVCCACHE_LOG=str(log))
    finished(schedule_of(there, DEVICE, CICC, does=lambda stage: status if stage.kind == "cicc" else 0))
    assert log.exists() == (str(error) != faults.CANCELLED)
    for later in (there, FakeMachines()):
        assert (later.offer(StageRun(0, CICC)) is None) == is_outage


def test_a_bug_in_remote_execution_surfaces_in_strict_mode(schedule_of):
    there = FakeMachines(error=ValueError("a bug"), NVCCACHE_STRICT="1")
    schedule = schedule_of(there, DEVICE, CICC)
    with pytest.raises(ValueError, match="a bug"):
        wait_until(schedule, is_done, 1)
    schedule.stop()


@pytest.mark.parametrize("end", [Schedule.finish, Schedule.stop])
def test_an_ending_call_does_not_wait_for_remote_stages(schedule_of, end):
    there = FakeMachines()
    schedule = schedule_of(there, DEVICE, CICC)
    wait_until(schedule, is_sent, 1)
    end(schedule)
    assert there.home.is_set()
    assert there.free_slots() == JOBS


def test_remote_stages_are_limited_to_the_configured_number():
    here, there = FakeMachines(), FakeMachines()
    (_, release), _ = (each.offer(StageRun(0, CICC)) for each in (here, there))
    assert not there.offer(StageRun(0, CICC))
    release()
    assert not there.offer(StageRun(0, DEVICE)), "which may not be sent"
    assert there.offer(StageRun(0, CICC))


@pytest.fixture
def sent(tmp_path, cache, monkeypatch):
    """Sends cicc of a plan to an engine with this result; returns its run and what was sent."""
    lines = (HOST, CUDAFE, hand_made_plans.DEVICE, hand_made_plans.CICC, hand_made_plans.PTXAS)
    lines = [line.replace("/s/", f"{tmp_path}/") for line in (*lines, FATBINARY, COMPILE)]
    plan = hand_made_plans.planned(*lines, scratch=str(tmp_path))
    stage = next(stage for stage in plan.stages if stage.kind == "cicc")
    call = SimpleNamespace(plan=plan, environ={}, store=cache, read_by=lambda stage: [*stage.inputs])
    monkeypatch.setattr(run_stage, "make_inputs", lambda call, stage: None)
    monkeypatch.setattr(run_stage, "take_in", lambda call, stage: None)
    monkeypatch.setattr(run_stage, "argv_to_run", lambda call, stage: list(stage.argv))
    monkeypatch.setattr(work, "ship_tool", lambda *_: None)
    there, described = machines_of(call), []

    def send(stub=b"stub", ptx=b"ptx", stderr=b""):
        result = RemoteResult(Completed(0, b"", stderr, 3.0), {"a.ptx": ptx, "a.cudafe1.stub.c": stub})
        monkeypatch.setattr(engine, "run", lambda where, sent, handle: described.append(sent) or result)
        return there.take_result(stage, there.run_stage(stage, None)), described[-1]

    return send


def test_outputs_are_written_where_the_stage_would_have_written_them(tmp_path, sent):
    text = f'# 1 "{SCRATCH_NAME}/a.cudafe1.stub.c"\n'.encode()
    run, described = sent(stub=text, stderr=f"{SCRATCH_NAME}/a.cpp1.ii: warning\n".encode())
    assert (tmp_path / "a.ptx").read_bytes() == b"ptx"
    assert (tmp_path / "a.cudafe1.stub.c").read_text() == f'# 1 "{tmp_path}/a.cudafe1.stub.c"\n'
    assert run.completed.stderr == f"{tmp_path}/a.cpp1.ii: warning\n".encode()
    assert (run.completed.status, run.completed.seconds, run.executor) == (0, 3.0, "grpc://engine:1")
    assert "a.module_id" in described.inputs and "a.module_id" not in described.outputs


def test_an_output_that_names_the_remote_directory_is_rejected(sent):
    with pytest.raises(ExecutorError) as caught:
        sent(ptx=f".file {SCRATCH_NAME}/a".encode())
    assert caught.value.fault == faults.FAILED
