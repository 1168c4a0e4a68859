"""`nvccache events`: each call once, in the documented form."""

from __future__ import annotations

import json
import time

import pytest

from made_events import event
from nvccache import outcomes
from nvccache.store import event_line, events

FIELDS = {
    "version", "started", "seconds", "outcome", "reason", "directory", "sources", "product", "cause", "pid",
    "build", "store_fault", "wrong_settings", "tool_saved", "stages",
    "remote",
}  # fmt: skip
STAGE_FIELDS = {"kind", "architecture", "result", "why", "start", "seconds", "cpu", "slot", "where"}
STAGE_FIELDS |= {"away", "why_here", "in_vain"}


@pytest.fixture
def used_cache(cache_dir):
    first = event(outcomes.MISS, stages=[("cicc", False, 2.0)], started=1000.0, seconds=3.0)
    first.directory, first.product, first.sources = "/build", "/build/a.o", ["../a.cu"]
    first.cause = "`x.h` changed"
    event_line.append(cache_dir, first)
    event_line.append(cache_dir, event(outcomes.BYPASS, "library", started=time.time(), pid=7))
    return cache_dir


def test_json_is_one_object_a_line_with_all_fields(nvccache, used_cache):
    found = [json.loads(line) for line in nvccache("events", "--json").output.splitlines()]
    assert [set(one) for one in found] == [FIELDS, FIELDS]
    assert found[0]["version"] == events.VERSION
    assert (found[0]["sources"], found[0]["cause"]) == (["../a.cu"], "`x.h` changed")
    assert set(found[0]["stages"][0]) == STAGE_FIELDS
    assert (found[1]["pid"], found[1]["wrong_settings"]) == (7, [])


def test_lookups_on_remotes_are_shown(nvccache, cache_dir):
    asked = event_line.RemoteUse(5, 3, 12345, 0.25, ("timeout", "tls"))
    event_line.append(cache_dir, event(outcomes.MISS, started=1000.0, remote=asked))
    event_line.append(cache_dir, event(outcomes.MISS, started=1001.0))
    first, second = (json.loads(line) for line in nvccache("events", "--json").output.splitlines())
    printed = {"asked": 5, "found": 3, "bytes": 12345, "seconds": 0.25, "faults": ["timeout", "tls"]}
    assert (first["remote"], second["remote"]) == (printed, None)


def test_a_line_has_outcome_product_and_cause(nvccache, used_cache):
    first, second = nvccache("events").output.splitlines()
    assert first.endswith("  miss           3.00 s  a.o  because `x.h` changed")
    assert second.endswith(f"because {outcomes.REASONS['library']}")


def test_without_a_cache_there_are_none(nvccache):
    assert nvccache("events").output == ""


def test_an_outcome_of_another_version_counts_as_a_call(nvccache, cache_dir):
    event_line.append(cache_dir, event("of_tomorrow", started=time.time()))
    (found,) = (json.loads(line) for line in nvccache("events", "--json").output.splitlines())
    assert found["outcome"] == "of_tomorrow"
    for arguments in ((), ("--since", "1h")):
        calls = nvccache.json("stats", *arguments)["calls"]
        assert {outcome: count for outcome, count in calls.items() if count} == {"of_tomorrow": 1}
