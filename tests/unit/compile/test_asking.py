"""Other caches are asked for what this one does not have, while other stages go on."""

from __future__ import annotations

import threading

from nvccache.compile.schedule import Schedule
from nvccache.compile.tasks import State
from nvccache.machine.process import Completed
from nvccache.values import replace
from test_schedule import PIPELINE, FakeSlots, begun, carry_out, execution_of, go_on

KINDS = {one.kind for one in PIPELINE}


def asked(execution) -> list[str]:
    return sorted(event.removeprefix("asked for ") for event in execution.events if event[:5] == "asked")


def with_others(stored=(), elsewhere=(), told=True):
    execution = execution_of(*PIPELINE, stored=set(stored), elsewhere=set(elsewhere))
    if told:
        execution.told.set()
    return execution


def test_what_others_have_does_not_run():
    execution = with_others(elsewhere=KINDS)
    schedule = carry_out(execution)
    assert begun(execution) == []
    assert all(task.is_hit for task in schedule.tasks.all)
    assert len(schedule.known.input_records) == len(PIPELINE)


def test_nobody_is_asked_for_what_is_here():
    execution = with_others(stored=KINDS)
    carry_out(execution)
    assert asked(execution) == []


def test_nobody_is_asked_for_what_is_made_of_what_nobody_had():
    """The text of passes is another matter: it may say the same as another text."""
    execution = with_others()
    carry_out(execution)
    assert asked(execution) == ["cicc", "cudafe", "device_preprocess", "host_preprocess"]
    assert sorted(begun(execution)) == sorted(one.kind for one in PIPELINE)


def test_what_follows_a_hit_is_asked_for():
    execution = with_others(elsewhere={"cicc", "ptxas"})
    carry_out(execution)
    assert sorted(begun(execution)) == ["cudafe", "device_preprocess", "host_compile", "host_preprocess"]
    assert "ptxas" in asked(execution)


def test_what_is_asked_for_takes_no_slot_and_holds_nothing_up():
    """With one slot, something that is not asked for runs while others are asked."""
    execution = with_others(stored={"host_preprocess", "device_preprocess", "cicc", "ptxas"}, told=False)
    schedule = Schedule(execution, FakeSlots(1), None)
    go_on(schedule)
    (cudafe,) = [task for task in schedule.tasks.all if task.stage.kind == "cudafe"]
    assert cudafe.state == State.ASKED
    assert cudafe.slot is None
    assert begun(execution) == []
    execution.told.set()
    schedule.wait()
    go_on(schedule)
    schedule.wait()
    assert begun(execution) == ["cudafe"]
    schedule.finish()


def test_an_error_of_who_asks_surfaces():
    execution = with_others()
    failure = RuntimeError("a fault of ours")

    def fail(*_):
        raise failure

    execution.find_beyond = fail
    try:
        carry_out(execution)
    except RuntimeError as error:
        assert error is failure
    else:
        raise AssertionError("nothing was raised")


def test_all_that_can_be_asked_for_is_asked_for_at_once():
    execution = with_others(told=False)
    schedule = Schedule(execution, FakeSlots(1), None)
    go_on(schedule)
    threading.Event().wait(0.05)
    assert asked(execution) == ["device_preprocess", "host_preprocess"]
    execution.told.set()
    schedule.finish()


def test_what_is_made_of_what_took_long_is_asked_for():
    execution = with_others(elsewhere={"ptxas"})
    run = execution.run

    def take_long(stage, handle):
        made = run(stage, handle)
        return replace(made, completed=Completed(0, b"", b"", 10.0)) if stage.kind == "cicc" else made

    execution.run = take_long
    carry_out(execution)
    assert "ptxas" in asked(execution)
    assert "ptxas" not in begun(execution)


def test_a_call_that_is_to_end_at_once_does_not_wait_for_answers():
    execution = with_others(told=False)
    schedule = Schedule(execution, FakeSlots(1), None)
    go_on(schedule)
    schedule.finish(is_wanted=False)
    assert execution.told.is_set()
