"""Compiler time that a call avoided."""

from __future__ import annotations

from nvccache.run.report import Report
from nvccache.store.event_line import HIT, RAN, SHARED, StageEvent


def test_saved_time_is_that_of_stages_that_hit_or_another_call_ran():
    report = Report()
    report.stages = [
        StageEvent("cudafe", HIT, 2.0, cpu=1.5),
        StageEvent("cicc", SHARED, 9.0),
        StageEvent("ptxas", RAN, 1.0),
    ]
    assert report.tool_saved == 10.5
