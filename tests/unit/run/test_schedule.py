"""Which stage runs when, with stages that do nothing: order, slots, failures, and other processes' work."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nvccache.machine import process, slots
from nvccache.machine.process import Completed
from nvccache.plan.model import ANY_WRAPPER, OPAQUE, Stage
from nvccache.plan.stages.tool import Grammar
from nvccache.run.schedule import Schedule
from nvccache.run.stage_run import State, ToolRun
from nvccache.store import locks
from nvccache.store.locks import Claims
from nvccache.values import replace
from stages_of_nothing import (
    CICC,
    CUDAFE,
    DEVICE,
    HOST,
    KEY,
    PIPELINE,
    FakeSlots,
    begun,
    carry_out,
    execution_of,
    stage,
)

pytestmark = pytest.mark.usefixtures("steps_of_nothing")


def test_with_one_job_slot_the_host_stages_run_before_the_device_stages():
    execution = execution_of(*PIPELINE)
    carry_out(execution)
    assert begun(execution) == [one.kind for one in PIPELINE]


def test_of_several_architectures_the_last_ptxas_runs_first():
    """New architectures take longest, and come last in most lists."""
    chain = [
        step
        for name in ("80", "86", "90")
        for step in (stage("cicc", f"{name}.ptx"), stage("ptxas", f"{name}.cubin", f"{name}.ptx"))
    ]
    order: list[str] = []
    execution = execution_of(*chain, does=lambda stage: order.append(stage.outputs[0].path) or 0)
    carry_out(execution)
    assert order == ["80.ptx", "86.ptx", "90.ptx", "90.cubin", "86.cubin", "80.cubin"]


@pytest.mark.parametrize("slots", [1, 2, 3, 8])
def test_no_stage_starts_before_what_it_reads_is_there(slots):
    execution = execution_of(*PIPELINE)
    carry_out(execution, slots)
    at = execution.events.index
    for one in PIPELINE:
        for path in one.inputs:
            maker = next(other for other in PIPELINE if other.outputs[0].path == path)
            assert at(f"ended {maker.kind}") < at(f"began {one.kind}")


def test_cicc_does_not_wait_for_cudafe():
    has_begun = threading.Event()
    waits = {"cudafe": lambda: has_begun.wait(30), "cicc": has_begun.set}
    execution = execution_of(*PIPELINE, does=lambda one: 0 * bool(waits.get(one.kind, bool)()))
    carry_out(execution, slots=2)
    assert execution.events.index("began cicc") < execution.events.index("ended cudafe")


def most_at_once(count: int, slots: int) -> int:
    """How many of `count` independent stages run at once."""
    running: set[str] = set()
    most: list[int] = []

    def does(one: Stage) -> int:
        running.add(one.outputs[0].path)
        most.append(len(running))
        threading.Event().wait(0.01)
        running.discard(one.outputs[0].path)
        return 0

    carry_out(execution_of(*(stage("cicc", f"{number}.ptx") for number in range(count)), does=does), slots)
    return max(most)


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_no_more_stages_run_at_once_than_there_are_job_slots(slots):
    assert most_at_once(12, slots) <= slots


def test_one_stage_runs_even_without_free_memory(monkeypatch):
    monkeypatch.setattr(slots, "free_memory", lambda: 0)
    assert most_at_once(6, slots=4) == 1


def test_stages_with_stored_results_do_not_run():
    execution = execution_of(*PIPELINE, stored={one.kind for one in PIPELINE})
    carry_out(execution)
    assert begun(execution) == []
    assert all(run.is_hit for run in execution.runs)


def test_stages_after_a_failed_one_in_nvccs_order_do_not_run():
    execution = execution_of(*PIPELINE, does=lambda one: 2 * (one.kind == "cudafe"))
    carry_out(execution)
    assert begun(execution) == ["host_preprocess", "cudafe"]
    assert [run.completed.status for run in execution.runs if run.completed] == [0, 2]


def test_stages_before_a_failed_one_in_nvccs_order_still_run():
    """nvcc would have stopped at the first in its order, which may end last."""
    has_failed = threading.Event()

    def does(one: Stage) -> int:
        if one.kind == "cudafe":
            has_failed.wait(30)
            return 2
        if one.kind == "cicc":
            has_failed.set()
            return 1
        return 0

    execution = execution_of(*PIPELINE, does=does)
    carry_out(execution, slots=2)
    assert [run.stage.kind for run in execution.runs if run.has_failed] == ["cudafe", "cicc"]


def test_preprocessing_of_later_sources_is_ended_by_a_failure_and_not_waited_for():
    """The first source is compiled completely, though the second one is missing."""
    missing, behind = stage("host_preprocess", "b.cpp4.ii"), stage("device_preprocess", "b.cpp1.ii")
    has_begun, was_ended = threading.Event(), threading.Event()
    execution = execution_of(*PIPELINE, missing, behind)
    run_quickly = execution.run

    def run(wanted, handle):
        if wanted is behind:
            handle.on_end(was_ended.set)
            has_begun.set()
            assert was_ended.wait(30)
        elif wanted is missing:
            assert has_begun.wait(30)
            return ToolRun(Completed(1, b"", b"", 0.25))
        return run_quickly(wanted, handle)

    execution.run = run
    carry_out(execution, slots=3)
    assert was_ended.is_set()
    assert "ended host_compile" in execution.events


def test_unknown_host_compiler_wrappers_run_one_at_a_time():
    """A compile of one source waits for the passes of others, which then do not wait for it."""
    behind = (stage("device_preprocess", "b.cpp1.ii"), stage("host_compile", "b.o", "b.cpp1.ii"))

    def does(_: Stage) -> int:
        time.sleep(0.05)
        return 0

    def wrapped(one: Stage) -> Stage:
        return replace(one, wrapper=ANY_WRAPPER) if one.runs_host_compiler else one

    execution = execution_of(*map(wrapped, (*PIPELINE, *behind)), does=does)
    carry_out(execution, 8)
    kinds = ("host_preprocess", "device_preprocess", "host_compile")
    runs = [
        event
        for event in execution.events
        if event.endswith(kinds) and event.split()[0] in ("began", "ended")
    ]
    assert {kind for run in runs for kind in kinds if kind in run} == {*kinds}
    for began, ended in zip(runs[::2], runs[1::2], strict=True):
        assert (began.split()[0], ended) == ("began", began.replace("began", "ended"))


def test_a_compile_does_not_wait_for_preprocessing_behind_an_unknown_command():
    """They themselves wait for the stages before it, of which a compile waits for passes."""
    in_order = replace(stage(OPAQUE, "x"), grammar=Grammar(OPAQUE, stays_in_order=True))
    alone = stage("host_compile", "a.o", "a.cpp4.ii")
    call = execution_of(HOST, alone, DEVICE, in_order, stage("device_preprocess", "b.cpp1.ii"))
    schedule = Schedule(call, FakeSlots(1), None)
    host, compiling, device = call.runs[:3]
    host.state = State.DONE
    assert not schedule.can_be_looked_up(compiling)
    device.state = State.DONE
    assert schedule.can_be_looked_up(compiling)


@pytest.mark.parametrize(("steps", "waited_for"), [((HOST, DEVICE), HOST), ((DEVICE, HOST), DEVICE)])
def test_a_stage_that_reads_the_module_id_waits_for_the_first_preprocessor(steps, waited_for):
    """Not for the second: what cudafe++ reports ends the call before that runs."""
    reading = replace(CUDAFE, names=(("module id", "/s/a.module_id"),), inputs=())
    call = execution_of(*steps, reading)
    flows = {one.outputs[0].path: ("a.o",) for one in (HOST, DEVICE, CUDAFE)}
    call.plan = replace(call.plan, destinations=flows)
    schedule = Schedule(call, FakeSlots(1), None)
    assert not schedule.can_be_looked_up(call.runs[2])
    next(run for run in call.runs if run.stage is waited_for).state = State.DONE
    assert schedule.can_be_looked_up(call.runs[2])


def test_a_plan_whose_stages_wait_for_each_other_raises():
    """Whatever the reason, the call must not hang: the real nvcc runs."""
    looped = (stage("cudafe", "x", "y"), stage("cicc", "y", "x"))
    with pytest.raises(RuntimeError, match="no stage can continue"):
        carry_out(execution_of(HOST, *looped))


def test_an_unknown_command_runs_between_the_stages_where_nvcc_has_it():
    opaque = replace(stage(OPAQUE, "x"), grammar=Grammar(OPAQUE, is_cached=False, stays_in_order=True))
    steps = (HOST, DEVICE, opaque, CUDAFE, CICC)
    execution = execution_of(*steps)
    carry_out(execution, slots=4)
    at = execution.events.index
    assert max(at("ended host_preprocess"), at("ended device_preprocess")) < at(f"began {OPAQUE}")
    assert at(f"ended {OPAQUE}") < min(at("began cudafe"), at("began cicc"))
    assert f"looked for {OPAQUE}" not in execution.events


def test_results_are_stored_after_dependent_stages_start():
    execution = execution_of(HOST, CUDAFE)
    carry_out(execution)
    assert execution.events.index("looked for cudafe") < execution.events.index("stored host_preprocess")


def test_passes_are_stored_when_all_have_ended_and_other_results_before():
    """They share an input record."""

    def does(one: Stage) -> int:
        while one == DEVICE and "stored cudafe" not in execution.events:
            time.sleep(0.01)
        return 0

    execution = execution_of(*PIPELINE, does=does)
    carry_out(execution, slots=2)
    at = execution.events.index
    assert at("ended device_preprocess") < at("stored host_preprocess")


def test_after_a_failure_nothing_is_stored():
    execution = execution_of(HOST, CUDAFE, does=lambda one: int(one == CUDAFE))
    carry_out(execution)
    assert execution.stored == set()


def test_an_error_in_a_stages_thread_is_raised():
    def does(one: Stage) -> int:
        raise OSError("no space")

    schedule = Schedule(execution_of(HOST, does=does), FakeSlots(1), None)
    schedule.advance()
    with pytest.raises(OSError, match="no space"):
        schedule.wait()
    schedule.stop()


def test_a_call_that_stops_ends_tools_and_what_they_have_started():
    sleep = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
    execution = execution_of(HOST)
    execution.run = lambda wanted, handle: process.run([sys.executable, "-c", sleep], {}, handle=handle)
    schedule = Schedule(execution, FakeSlots(1), None)
    schedule.advance()
    family: list[int] = []
    while len(family) < 3:
        family = process.process_tree(os.getpid())
    schedule.stop()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while not Path(f"/proc/{family[-1]}/stat").read_text().rpartition(") ")[2].startswith("Z"):
            time.sleep(0.01)


def test_a_thread_that_cannot_be_started_is_not_waited_for(monkeypatch):
    """As under `ulimit -d`."""

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    schedule = Schedule(execution_of(HOST), FakeSlots(1), None)
    with pytest.raises(RuntimeError, match="new thread"):
        schedule.advance()
    schedule.stop()


def test_a_restarted_schedule_drops_only_results_of_stages_that_saw_other_lines():
    """The rest, here the device's side, stays as it is."""
    execution = execution_of(*PIPELINE, stored={"cudafe"})
    schedule = Schedule(execution, FakeSlots(2), None)
    kinds = dict(zip((one.kind for one in PIPELINE), execution.runs, strict=True))
    kinds["cudafe"].text = ("these lines",)
    while kinds["host_compile"].state != State.DONE:
        schedule.advance()
        schedule.wait()
    schedule.begin_again()
    assert {kind for kind, run in kinds.items() if run.state != State.DONE} == {"cudafe", "host_compile"}
    assert execution.forgotten == ["a.cudafe1.cpp", "a.o"]
    execution.stored.clear()
    while kinds["host_compile"].state != State.DONE:
        schedule.advance()
        schedule.wait()
    schedule.finish()
    assert [begun(execution).count(kind) for kind in kinds] == [1, 1, 1, 1, 1, 2]


class TestOtherProcesses:
    """Another process, simulated by a second Claims on the same cache."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path / "cache")

    @pytest.fixture
    def give_up(self, root) -> Callable[[], None]:
        """A function by which the other process ends the first stage, which it runs."""
        other = Claims(root)
        claim = other.take(KEY.format(1))
        return lambda: other.release(claim)

    def test_a_stage_running_in_another_call_is_awaited_and_reused(self, root, give_up):
        execution = execution_of(HOST, CUDAFE)

        def finish() -> None:
            execution.stored.add("host_preprocess")
            give_up()

        threading.Timer(0.2, finish).start()
        carry_out(execution, claims=Claims(root))
        assert begun(execution) == ["cudafe"]
        assert execution.runs[0].is_hit

    def test_a_result_stored_just_before_claiming_its_stage_is_used(self, root):
        execution = execution_of(HOST)

        class EndedMeanwhile(Claims):
            def take(self, key):
                execution.stored.add("host_preprocess")
                return super().take(key)

        carry_out(execution, claims=EndedMeanwhile(root))
        assert begun(execution) == []

    def test_other_stages_run_while_one_waits_for_another_call(self, root, give_up):
        execution = execution_of(HOST, DEVICE)
        has_begun = threading.Event()
        execution.does = lambda one: has_begun.set() or 0
        threading.Thread(target=lambda: (has_begun.wait(30), give_up())).start()
        carry_out(execution, claims=Claims(root))
        assert begun(execution) == ["device_preprocess", "host_preprocess"]

    def test_a_stage_runs_here_if_the_claiming_call_never_ends(self, root, give_up, monkeypatch):
        monkeypatch.setattr(locks, "_WAIT_SECONDS", 0.2)
        execution = execution_of(HOST)
        carry_out(execution, claims=Claims(root))
        assert begun(execution) == ["host_preprocess"]

    def test_a_finished_call_leaves_no_claims_on_stages(self, root):
        carry_out(execution_of(*PIPELINE, does=lambda one: one.kind == "cicc"), claims=Claims(root))
        assert list(Path(root, "locks", "running").iterdir()) == []

    def test_no_slot_is_held_while_waiting_for_another_calls_stage(self, root, give_up):
        class Watched(FakeSlots):
            taken = 0

            def take(self):
                self.taken += 1
                return super().take()

        slots = Watched(1)
        execution = execution_of(HOST)
        schedule = Schedule(execution, slots, Claims(root))
        schedule.advance()
        assert execution.runs[0].ran_elsewhere
        assert slots.taken == 1
        assert slots._in_use == []
        give_up()
        schedule.finish()
