"""Results of a stage's steps are collected in one place."""

from __future__ import annotations

import pytest

from nvccache.execution.context import SAME_ID, Action
from nvccache.execution.staged_call import Known
from nvccache.plan.model import Output, Stage
from nvccache.plan.stages.tool import Grammar
from nvccache.records.base_dir import Relocation
from nvccache.records.input_records import InputRecord
from nvccache.records.record import Entry, LookupKey, Result

PASS = Stage(Grammar("host_preprocess"), ("gcc",), (), (), (Output("ii", "/s/a.ii"),), (), (), ())


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
