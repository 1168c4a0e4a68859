from __future__ import annotations

import made_builds
from nvccache.report import calls
from nvccache.report.calls import call_of


def test_a_call_has_what_its_event_says():
    event = made_builds.call(made_builds.stage(why="`a.h` changed", slot=3), sources=["a.cu", "b.cu"])
    call = call_of(event)
    assert (call.started, call.seconds, call.ended) == (made_builds.BEGUN, 3.0, made_builds.BEGUN + 3.0)
    assert call.source == "a.cu b.cu"
    assert call.stages == (calls.Stage("cicc", "compute_80", "ran", "`a.h` changed", 0.1, 2.0, 3, "local"),)


def test_compiler_time_is_spent_by_what_ran_and_failed_alone():
    stages = [made_builds.stage(result=result) for result in calls.RESULTS]
    assert call_of(made_builds.call(*stages)).tool_spent == 4.0


def test_a_stage_that_was_away_lasted_until_it_was_back():
    """A result from the action cache took no worker's time, however long its first run."""
    stages = [made_builds.away(), made_builds.away(is_cached=True), made_builds.stage(away="no_workers")]
    found = call_of(made_builds.call(*stages)).stages
    assert [stage.lasted for stage in found] == [46.0, 6.0, 2.0]
    assert [stage.spent for stage in found] == [40.0, 0.0, 2.0]
    assert [stage.why_here for stage in found] == ["", "", "no_workers"]
    assert found[0].away == made_builds.AWAY


def test_texts_are_printable_and_not_endless():
    call = call_of(made_builds.call(sources=[made_builds.HOSTILE], cause="c" * 10_000_000))
    assert call.source.isprintable()
    assert "\\xff\\u202e\\x1b[2J" in call.source
    assert len(call.cause) < 2000
