"""Stages that run before the module id is known: when they may, and what follows wrong guesses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nvccache.machine.slots import Pool, Slots
from nvccache.plan.model import Stage
from nvccache.store.inflight import Claims
from stages_of_nothing import CICC, PIPELINE, FakeExecution, FakeIds, begun, carry_out, execution_of

pytestmark = pytest.mark.usefixtures("steps_of_nothing")

LATEST = 30  # seconds


@pytest.fixture
def idle(tmp_path: Path) -> Slots:
    """One slot of the call's own, and more idle cores."""
    return Slots(1, Pool(str(tmp_path), range(4)), None)


def guessing(does: Callable[[Stage], int] = lambda stage: 0, **ids) -> FakeExecution:
    return execution_of(*PIPELINE, does=does, module_ids=FakeIds(("cicc",), **ids))


def side_by_side(until: str = "ended cicc", **ids) -> FakeExecution:
    """A call whose cudafe++ runs until a concurrent cicc has reached that event."""

    def does(stage: Stage) -> int:
        if stage.kind == "cudafe":
            while until not in execution.events:
                assert not pause.wait(0.01)
        return 0

    pause = threading.Event()
    execution = guessing(does, **ids)
    return execution


def waits_for_the_id(execution: FakeExecution) -> bool:
    return execution.events.index("ended cudafe") < execution.events.index("began cicc")


def wasted_kinds(schedule) -> list[str]:
    return [task.stage.kind for task in schedule.tasks.all if task.in_vain]


@pytest.mark.parametrize("own", [1, 4])
def test_without_an_idle_core_the_id_is_waited_for(own: int) -> None:
    """`-t` gives a call slots of its own, whether or not a core is idle."""
    execution = guessing(lambda stage: time.sleep(0.2 * (stage.kind == "cudafe")) or 0, wrong=("cicc",))
    assert wasted_kinds(carry_out(execution, own)) == []
    assert waits_for_the_id(execution)
    assert begun(execution).count("cicc") == 1


def test_the_only_core_is_not_idle(tmp_path: Path) -> None:
    execution = guessing(wrong=("cicc",))
    carry_out(execution, Slots(1, Pool(str(tmp_path), range(1)), None))
    assert waits_for_the_id(execution)


def test_a_right_guess_on_an_idle_core_counts(idle: Slots) -> None:
    execution = side_by_side()
    assert wasted_kinds(carry_out(execution, idle)) == []
    assert begun(execution).count("cicc") == 1


def test_what_was_guessed_is_not_gone_by_before_it_is_known(idle: Slots) -> None:
    execution = side_by_side()
    carry_out(execution, idle)
    assert execution.events.index("ended cudafe") < execution.events.index("began ptxas")


def test_what_does_not_hold_the_id_is_no_guess(idle: Slots) -> None:
    execution = side_by_side(until="ended ptxas", wrong=("cicc",), unused=("cicc",))
    assert wasted_kinds(carry_out(execution, idle)) == []
    assert begun(execution).count("cicc") == 1


def test_a_wrong_guess_runs_again_and_is_counted(idle: Slots, cache_dir: str) -> None:
    execution = side_by_side(wrong=("cicc",))
    assert wasted_kinds(carry_out(execution, idle, Claims(cache_dir))) == ["cicc"]
    assert begun(execution).count("cicc") == 2
    assert begun(execution).count("ptxas") == begun(execution).count("cudafe") == 1
    assert execution.events.count("stored cicc") == 1
    assert execution.module_ids.were_noted


def test_after_wrong_guesses_there_are_no_more(idle: Slots) -> None:
    execution = guessing(
        lambda stage: time.sleep(0.2 * (stage.kind == "cudafe")) or 0, wrong=("cicc",), were_noted=True
    )
    carry_out(execution, idle)
    assert waits_for_the_id(execution)


@pytest.mark.parametrize("seen", [True, False])
def test_a_guess_that_is_seen_to_be_wrong_is_ended(idle: Slots, seen: bool) -> None:
    """It might otherwise run for long."""
    ended = threading.Event()

    def does(stage: Stage) -> int:
        if stage.kind == "cudafe":
            while "began cicc" not in execution.events:
                assert not ended.wait(0.01)
        elif stage.kind == "cicc" and "cicc" in execution.module_ids.made_up:
            assert ended.wait(LATEST if seen else 0.3) == seen
        return 0

    execution = guessing(does, wrong=("cicc",) if seen else (), seen=seen)
    run = execution.run

    def run_until_ended(wanted: Stage, handle):
        if wanted == CICC:
            handle.on_end(ended.set)
        return run(wanted, handle)

    execution.run = run_until_ended
    carry_out(execution, idle)
    assert begun(execution).count("cicc") == (2 if seen else 1)


def test_a_failure_does_not_depend_on_the_id(idle: Slots) -> None:
    execution = side_by_side(wrong=("cicc",))
    does = execution.does
    execution.does = lambda stage: does(stage) or int(stage.kind == "cicc")
    carry_out(execution, idle)
    assert begun(execution).count("cicc") == 1
