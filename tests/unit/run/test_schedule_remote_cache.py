"""Remotes are queried for missing results while other stages go on."""

from __future__ import annotations

import pytest

from nvccache.machine.process import Completed
from nvccache.run.schedule import Schedule
from nvccache.values import replace
from stages_of_nothing import PIPELINE, FakeSlots, begun, carry_out, execution_of

pytestmark = pytest.mark.usefixtures("steps_of_nothing")

KINDS = {one.kind for one in PIPELINE}


def asked(execution) -> list[str]:
    return sorted(event.removeprefix("asked for ") for event in execution.events if event[:5] == "asked")


def with_others(stored=(), elsewhere=(), queries_stopped=True):
    execution = execution_of(*PIPELINE, stored=set(stored), elsewhere=set(elsewhere))
    if queries_stopped:
        execution.queries_stopped.set()
    return execution


PASSES = {"host_preprocess", "device_preprocess"}


def test_stages_found_on_a_remote_do_not_run():
    execution = with_others(stored=PASSES, elsewhere=KINDS)
    carry_out(execution)
    assert begun(execution) == []
    assert all(run.is_hit for run in execution.runs)
    assert all(run.input_record for run in execution.runs)


def test_remotes_are_not_queried_for_local_results():
    execution = with_others(stored=KINDS)
    carry_out(execution)
    assert asked(execution) == []


def test_remotes_are_not_queried_for_stages_whose_inputs_missed():
    """Preprocessed text is different: it may have the normalized text of another."""
    execution = with_others()
    carry_out(execution)
    assert asked(execution) == ["cicc", "cudafe", "device_preprocess", "host_preprocess"]
    assert sorted(begun(execution)) == sorted(one.kind for one in PIPELINE)


def test_a_remote_is_queried_for_the_stage_after_a_remote_hit():
    execution = with_others(elsewhere={"cicc", "ptxas"})
    carry_out(execution)
    assert "cicc" not in begun(execution)
    assert sorted(begun(execution)) == ["cudafe", "device_preprocess", "host_compile", "host_preprocess"]
    assert "ptxas" in asked(execution)


def test_remote_queries_take_no_slot_and_block_no_other_stage():
    """With one slot, a stage without a query runs during the queries of others."""
    execution = with_others(
        stored={"host_preprocess", "device_preprocess", "cicc", "ptxas"}, queries_stopped=False
    )
    schedule = Schedule(execution, FakeSlots(1), None)
    schedule.advance()
    (cudafe,) = [run for run in execution.runs if run.stage.kind == "cudafe"]
    assert cudafe.job
    assert not schedule._memory
    assert begun(execution) == []
    execution.queries_stopped.set()
    schedule.wait()
    schedule.advance()
    schedule.wait()
    assert begun(execution) == ["cudafe"]
    schedule.finish()


def test_an_error_in_a_remote_query_is_raised():
    execution = with_others()

    def fail(*_):
        raise RuntimeError("a fault of ours")

    execution.find_remote = fail
    with pytest.raises(RuntimeError, match="a fault of ours"):
        carry_out(execution)


def test_a_remote_is_queried_for_a_stage_that_follows_a_slow_miss():
    execution = with_others(elsewhere={"ptxas"})
    run = execution.run

    def take_long(stage, handle):
        made = run(stage, handle)
        return replace(made, completed=Completed(0, b"", b"", 10.0)) if stage.kind == "cicc" else made

    execution.run = take_long
    carry_out(execution)
    assert "ptxas" in asked(execution)
    assert "ptxas" not in begun(execution)


@pytest.mark.parametrize("end", [Schedule.finish, Schedule.stop])
def test_a_call_that_ends_does_not_wait_for_remote_answers(end):
    execution = with_others(queries_stopped=False)
    schedule = Schedule(execution, FakeSlots(1), None)
    schedule.advance()
    end(schedule)
    assert execution.queries_stopped.is_set()
