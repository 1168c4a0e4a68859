"""Results of a stage's steps are collected in one place; the steps change no other state."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from nvccache import execution
from nvccache.execution.context import SAME_ID, Action
from nvccache.execution.staged_call import Known
from nvccache.plan.model import Output, Stage
from nvccache.plan.stages.tool import Grammar
from nvccache.records.base_dir import Relocation
from nvccache.records.input_records import InputRecord
from nvccache.records.record import Entry, LookupKey, Result

PASS = Stage(Grammar("host_preprocess"), ("gcc",), (), (), (Output("ii", "/s/a.ii"),), (), (), ())
OWNERS = ("call", "context", "known", "action", "made")
CHANGING = ("append", "extend", "update", "add", "setdefault", "clear", "pop", "remove")


@pytest.fixture
def known() -> Known:
    return Known()


def found(read: InputRecord, scope: str = "anywhere") -> Entry:
    return Entry(LookupKey("0" * 64, Relocation("", "/"), scope), read, Result())


def test_a_hit_tells_what_was_read(known):
    read = InputRecord()
    known.add_action(Action("front", dated=("/a.cu",)))
    known.add_found(PASS, found(read))
    assert known.input_records == [read] and known.input_records[0] is read
    assert known.dated_files == ["/a.cu"]
    assert known.reasons_against_record == []


def test_a_stage_that_is_not_cached_tells_why_there_is_no_record(known):
    action = Action(reason_against_record="it is not cached")
    known.add_action(action)
    assert not action.is_cached
    assert known.reasons_against_record == ["it is not cached"] and known.input_records == []


def test_what_was_not_observed_is_a_reason(known):
    blind = InputRecord()
    blind.is_observed = False
    known.add_found(PASS, found(blind))
    known.add_input_record(PASS, blind)
    assert known.reasons_against_record == ["host_preprocess was not observed"] * 2
    assert len(known.input_records) == 2


def test_what_one_stage_has_found_holds_for_the_call(known):
    known.add_found(PASS, found(InputRecord(), SAME_ID))
    known.add_found(PASS, found(InputRecord()))
    assert known.is_bound


def owner_of(node: ast.AST) -> str:
    """The owner of an attribute: `a` in `self.a.b`."""
    inner = node.value if isinstance(node, ast.Attribute) else None
    return getattr(inner, "attr", getattr(inner, "id", ""))


def changes(text: str) -> list[str]:
    """Assignments to state that steps share, and changes of lists in it."""
    found = []
    for node in ast.walk(ast.parse(text)):
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            places = [target.value if isinstance(target, ast.Subscript) else target for target in targets]
            found += [ast.unparse(place) for place in places if owner_of(place) in OWNERS]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in CHANGING:
            found += [ast.unparse(node.func)] if owner_of(node.func.value) in OWNERS else []
    return found


@pytest.mark.parametrize("module", ["find_stage", "run_stage", "publish_stage"])
def test_a_step_changes_nothing_that_the_others_share(module):
    assert changes((Path(execution.__file__).parent / f"{module}.py").read_text()) == []


@pytest.mark.parametrize(
    "code",
    [
        "call.passes[path] = facts",
        "call.dated_files += dated",
        "self.call.reasons.append(reason)",
        "known.is_bound = True",
        "call.context.base = 2",
    ],
)
def test_a_change_is_seen(code):
    assert changes(code)
