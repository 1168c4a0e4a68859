"""The trace follows its documented form: the JSON Object Format of the Trace Event Format.

For the trace of a small build see test_report_page_golden.py.
"""

from __future__ import annotations

import json

import pytest

import made_builds
from made_builds import call, calls_of, hit
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
