"""Time that a call saved: at most the wait when its stages ran, minus nvccache's own time."""

from __future__ import annotations

from nvccache.compile.call import Report
from nvccache.store.event_line import HIT, RAN, SHARED, StageEvent


def test_what_ran_elsewhere_while_this_call_waited_saves_no_wall_time():
    report = Report()
    report.stages = [
        StageEvent("cudafe", HIT, 2.0, 1.5),
        StageEvent("cicc", SHARED, 9.0, 3.0),  # waited for three seconds
        StageEvent("ptxas", RAN, 1.0, 1.0),
    ]
    report.busy = 4.0  # the wait and the ptxas
    assert report.wall_saved - 4.25 == 1.25  # of a call of 4.25 s: all but a quarter of a second of our own
    assert report.tool_saved == 11.0
