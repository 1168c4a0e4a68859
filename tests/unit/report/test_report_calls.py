from __future__ import annotations

import json

import pytest

import made_builds
from nvccache.report import calls


def lines(*events):
    return [json.dumps(event).encode() + b"\n" for event in events]


def test_a_call_has_what_its_event_says():
    event = made_builds.call(
        made_builds.stage(why="`a.h` changed", slot=3),
        sources=["a.cu", "b.cu"],
        wrong_settings=["max_size"],
        wall_saved=-0.5,
    )
    call = calls.from_json(event)
    assert (call.started, call.seconds, call.ended) == (made_builds.BEGUN, 3.0, made_builds.BEGUN + 3.0)
    assert (call.source, call.wrong_settings, call.wall_saved) == ("a.cu b.cu", ("max_size",), -0.5)
    assert call.stages == (calls.Stage("cicc", "compute_80", "ran", "`a.h` changed", 0.1, 2.0, 3, "local"),)


def test_tool_time_is_spent_by_what_ran_and_failed_alone():
    stages = [made_builds.stage(result=result) for result in calls.RESULTS]
    assert calls.from_json(made_builds.call(*stages)).tool_spent == 4.0


def test_a_stage_that_was_away_lasted_until_it_was_back():
    """A result from the action cache took no worker's time, however long its first run."""
    stages = [made_builds.away(), made_builds.away(is_cached=True), made_builds.stage(why_here="no_workers")]
    found = calls.from_json(made_builds.call(*stages)).stages
    assert [stage.lasted for stage in found] == [46.0, 6.0, 2.0]
    assert [stage.spent for stage in found] == [40.0, 0.0, 2.0]
    assert [stage.why_here for stage in found] == ["", "", "no_workers"]
    assert found[0].away == made_builds.AWAY


@pytest.mark.parametrize(
    "change",
    [
        {"version": "1"},
        {"version": 0},
        {"version": None},
        {"started": "now"},
        {"started": -1},
        {"started": 1e12},
        {"seconds": float("nan")},
        {"seconds": float("inf")},
        {"seconds": -1.0},
        {"seconds": 10**400},
        {"seconds": True},
        {"wall_saved": -1e10},
        {"outcome": 3},
        {"sources": "a.cu"},
        {"sources": [1]},
        {"stages": {}},
        {"stages": [3]},
        {"stages": [made_builds.stage(result="eaten")]},
        {"stages": [made_builds.stage(seconds=-1)]},
        {"stages": [made_builds.stage(away=3)]},
        {"stages": [made_builds.stage(away={**made_builds.AWAY, "queue": -1})]},
        {"stages": [made_builds.stage(away={**made_builds.AWAY, "sent_bytes": 1e16})]},
        {"stages": [made_builds.stage(why_here=3)]},
        {"stages": [made_builds.stage(slot=1 << 40)]},
    ],
    ids=str,
)
def test_what_cannot_be_is_no_event(change):
    with pytest.raises(ValueError):
        calls.from_json({**made_builds.call(), **change})


def test_texts_are_printable_and_not_endless():
    call = calls.from_json(made_builds.call(sources=[made_builds.HOSTILE], cause="c" * 10_000_000))
    assert call.source.isprintable()
    assert "\\xff\\u202e\\x1b[2J" in call.source
    assert len(call.cause) < 2000


def test_lines_that_are_no_events_are_left_out_and_numbered():
    good = made_builds.call()
    text = [
        *lines(good),
        b'{"version": 1, "started": 17',
        b"\n",
        b"[" * 100_000 + b"\n",
        b"\xff\xfe\n",
        *lines({**good, "version": 3}),
        *lines(good),
        b'{"version": 1, "pid": ' + b"9" * 5000 + b"}\n",
    ]
    found, damaged, newer = calls.read_lines(text)
    assert len(found) == 2
    assert damaged == [2, 4, 5, 8]
    assert newer == [6]
