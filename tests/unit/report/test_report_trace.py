"""The trace follows its documented form: the JSON Object Format of the Trace Event Format."""

from __future__ import annotations

import json

import pytest

import made_builds
from made_builds import call, calls_of, hit, stage
from nvccache.report import lanes


def of(*events):
    return json.loads(json.dumps(lanes.trace_of(calls_of(events)), allow_nan=False))


def check(made):
    """Check what the format requires."""
    for event in made["traceEvents"]:
        assert isinstance(event["name"], str) and event["name"]
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        if event["ph"] == "M":
            assert event["args"].keys() == {event["name"].partition("_")[2]}
            continue
        assert event["ph"] == "X" and isinstance(event["cat"], str)
        assert event["ts"] >= 0 and event["dur"] >= 0
        assert (event["pid"], event["tid"]) in names(made, "thread_name")


def names(made, kind):
    named = [event for event in made["traceEvents"] if event["name"] == kind]
    return {(event["pid"], event["tid"]): event["args"]["name"] for event in named}


def test_machines_are_processes_and_job_slots_are_threads_of_the_trace():
    made = of(call(stage(slot=4), stage(slot=1, where="build7"), hit()))
    check(made)
    assert sorted(names(made, "process_name").values()) == ["build7", "calls", "this machine"]
    assert sorted(names(made, "thread_name").values()) == ["call 1", "job 1", "job 1 on build7"]


def test_each_stage_is_a_complete_event_of_the_trace_with_its_source_and_times():
    made = of(call(stage(start=0.5, seconds=1.5), outcome="miss", cause="`a.h` changed"))
    (found,) = [event for event in made["traceEvents"] if event.get("cat") == "stage,ran"]
    assert (found["name"], found["ts"], found["dur"]) == ("cicc compute_80", 500_000, 1_500_000)
    assert found["args"]["source"] == "../src/a.cu"
    (around,) = [event for event in made["traceEvents"] if event.get("cat") == "call,miss"]
    assert (around["ts"], around["dur"]) == (0, 3_000_000)
    assert around["args"]["cause"] == "`a.h` changed" and around["args"]["pid"] == 4711


def test_a_remote_stage_in_the_trace_lasts_until_it_returns():
    made = of(call(made_builds.away(start=1.0), stage(away="no_workers"), seconds=60.0))
    check(made)
    away, here = [event for event in made["traceEvents"] if event.get("cat") == "stage,ran"]
    assert (away["ts"], away["dur"]) == (1_000_000, 46_000_000)
    assert (away["args"]["where"], away["args"]["was_cached"]) == ("grpc://host:1", False)
    assert here["args"]["why_here"] == "no_workers"


def test_a_hit_takes_no_time_in_the_trace_and_lies_within_its_call():
    made = of(call(hit(start=50.0, seconds=8.0)))
    check(made)
    (found,) = [event for event in made["traceEvents"] if event.get("cat") == "stage,hit"]
    assert (found["ts"], found["dur"], found["args"]["saved"]) == (3_000_000, 0, 8.0)


@pytest.mark.parametrize("events", [[], made_builds.build(300), made_builds.hostile()])
def test_odd_builds_give_a_valid_trace(events):
    made = of(*events)
    check(made)
    assert made["displayTimeUnit"] == "ms"
    assert len([event for event in made["traceEvents"] if event.get("cat", "").startswith("call")]) == len(
        events
    )
