"""Signs that an assumption of an attempt was wrong, and the assumptions of the next one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nvccache.compile import attempts
from nvccache.compile.attempts import BeginAgainError
from nvccache.compile.tasks import State, Task, Tasks
from nvccache.execution import object_path
from nvccache.execution.context import Action, Context
from nvccache.execution.run_stage import Made
from nvccache.execution.wrappers import PLACES
from nvccache.machine.process import Completed
from nvccache.plan.model import Output, Plan
from nvccache.records.input_records import InputRecord
from nvccache.records.record import Entry, LookupKey, Result
from nvccache.values import replace
from stages_of_nothing import CUDAFE, HOST, stage

OBJECT = replace(stage("host_compile", "a.o", "a.cudafe1.cpp"), outputs=(Output("object", "/s/a.o", "a.o"),))
LINKED = replace(OBJECT, outputs=(Output("object", "/s/a.o"),))
QUIET, WARNS, FAILS = (Completed(*end, 0.0) for end in ((0, b"", b""), (0, b"", b"so"), (1, b"", b"no")))
USUAL = {"ignores_lines": True, "is_in_place": False}
CLUE = "it names its path"


def check(ended: Task) -> None:
    """Check a stage of a call whose cudafe++ result was found for text with moved lines."""
    plan = Plan((HOST, CUDAFE, ended.stage), {}, {}, "/s")
    context = Context(plan, {}, "/p", None, 0, None, **USUAL)
    call = SimpleNamespace(plan=plan, context=context, environ={}, store=None)
    tasks = Tasks(plan, lambda one: list(one.inputs))
    found = Result()
    found.text = ["of other lines"]
    tasks.all[1].action, tasks.all[1].state = Action("front", text=("of these",)), State.DONE
    tasks.all[1].found = Entry(LookupKey("", None), InputRecord(), found, key="key")
    attempts.check(call, tasks, ended)


def task(stage, completed: Completed = QUIET, **seen) -> Task:
    made = Task(2, stage)
    made.made, made.completed, made.state = Made(completed, **seen), completed, State.DONE
    return made


@pytest.fixture(autouse=True)
def memos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_path, "remember", lambda *_: None)


@pytest.mark.parametrize(
    ("ended", "changed", "sentence"),
    [
        (task(OBJECT, path_dependence=CLUE), {"is_in_place": True}, f"{CLUE}: compiling again"),
        (task(OBJECT, wrapper=(PLACES,)), {"ignores_lines": False}, "a wrapper may have lines shown"),
        (task(OBJECT, WARNS), {"ignores_lines": False}, "there are diagnostics"),
    ],
)
def test_what_does_not_hold_is_left_out_of_the_next_attempt(ended, changed, sentence) -> None:
    with pytest.raises(BeginAgainError, match=sentence) as raised:
        check(ended)
    context = raised.value.context
    expected = {**USUAL, **changed}
    assert {name: getattr(context, name) for name in expected} == expected


@pytest.mark.parametrize("ended", [task(OBJECT), task(LINKED, path_dependence=CLUE), task(OBJECT, FAILS)])
def test_all_else_holds(ended) -> None:
    """Such as an object that nvcc would link, which has no other place, and what failed."""
    check(ended)
