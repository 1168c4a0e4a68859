"""What a stage's run says of the call."""

from __future__ import annotations

from nvccache.records.input_records import InputRecord
from nvccache.records.record import Entry, LookupKey, Result
from nvccache.run.stage_run import StageRun
from stages_of_nothing import HOST


def test_a_result_made_from_text_with_other_line_numbers_is_recognized() -> None:
    run = StageRun(0, HOST)
    run.text = ("a digest",)
    assert not run.has_other_lines
    run.entry = Entry(LookupKey("0" * 64), InputRecord(), Result())
    run.entry.result.text = ["another"]
    assert run.has_other_lines
