"""Results that show that line numbers matter, or the path of an object."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nvccache.machine.process import Completed
from nvccache.records.base_dir import Relocation
from nvccache.records.input_records import InputRecord
from nvccache.records.record import Entry, LookupKey, Result
from nvccache.run import attempt, object_path
from nvccache.run.attempt import BeginAgainError
from nvccache.run.report import Report
from nvccache.run.stage_run import StageRun, ToolRun
from nvccache.run.wrappers import PLACES
from stages_of_nothing import COMPILE, CUDAFE

QUIET, WARNS, FAILS = (Completed(*end, 0.0) for end in ((0, b"", b""), (0, b"", b"so"), (1, b"", b"no")))


def check(completed: Completed = QUIET, **shown) -> Report:
    """Check a compile; the result of its cudafe++ was found for text with other line numbers."""
    before, run, report = StageRun(1, CUDAFE), StageRun(2, COMPILE), Report()
    before.text = ("these lines",)
    before.entry = Entry(LookupKey("0" * 64, Relocation("", "/")), InputRecord(), Result())
    before.entry.result.text = ["other lines"]
    run.tool_run, run.completed = ToolRun(completed, **shown), completed
    attempt._check(SimpleNamespace(runs=[before, run], environ={}, store=None), run, report)
    return report


@pytest.mark.parametrize(
    ("completed", "shown", "sentence"),
    [(QUIET, {"wrapper": (PLACES,)}, "a wrapper may have lines shown"), (WARNS, {}, "there are diagnostics")],
)
def test_a_call_begins_again_where_lines_are_shown(completed, shown, sentence) -> None:
    with pytest.raises(BeginAgainError, match=sentence):
        check(completed, **shown)


@pytest.mark.parametrize("completed", [QUIET, FAILS])
def test_nothing_is_left_to_nvcc_otherwise(completed) -> None:
    assert check(completed).leave_to_nvcc == ""


def test_a_compile_that_may_depend_on_the_path_of_its_object_is_left_to_nvcc(monkeypatch) -> None:
    remembered = []
    monkeypatch.setattr(object_path, "remember", lambda stage, *_: remembered.append(stage))
    assert check(path_dependence="it names its path").leave_to_nvcc == "host_side_output"
    assert remembered == [COMPILE]
