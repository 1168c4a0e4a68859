"""`nvccache events`: each call once, in the documented form, also with `--follow`."""

from __future__ import annotations

import itertools
import json
import select
import subprocess
import sys
import time

import pytest

from made_events import event
from nvccache import outcomes
from nvccache.store import event_line, event_totals, events

FIELDS = {
    "version", "started", "seconds", "outcome", "reason", "directory", "sources", "product", "cause", "pid",
    "build", "jobs", "store_fault", "wrong_settings", "wall_saved", "tool_saved", "stages",
    "remote",
}  # fmt: skip
STAGE_FIELDS = {"kind", "architecture", "result", "why", "start", "seconds", "cpu", "wall", "slot", "where"}
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


@pytest.mark.parametrize(("since", "count"), [("1h", 1), ("1970-01-01", 2), ("last-build", 1), ("9999w", 2)])
def test_since_when(nvccache, used_cache, since, count):
    assert len(nvccache("events", "--since", since).output.splitlines()) == count


@pytest.mark.parametrize("since", ["", "yesterday", "2h3", "-1h", "٣h", "2026-13-01", "1" * 400 + "d"])
def test_a_time_that_is_none_is_one_sentence(nvccache, used_cache, since):
    result = nvccache("events", "--since", since)
    assert result.exit_code == 2
    assert "Error: `--since`: " in result.output


def test_without_a_cache_there_are_none(nvccache):
    assert nvccache("events").output == ""


def test_what_is_appended_is_followed_across_a_fold(used_cache, tmp_path):
    command = [sys.executable, "-m", "nvccache", "events", "--follow", "--json"]
    environ = {"NVCCACHE_DIR": used_cache, "HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE) as child:
        assert child.stdout
        while not select.select([child.stdout], [], [], 0.1)[0]:  # it follows from when it has started
            event_line.append(used_cache, event(outcomes.MISS, product="/begun.o", started=time.time()))
        for number in range(6):
            event_line.append(used_cache, event(outcomes.MISS, product=f"/{number}.o", started=time.time()))
            if number in (1, 3):
                event_totals.fold(used_cache)
            time.sleep(0.15 * (number % 3))
        products = (json.loads(line)["product"] for line in child.stdout)
        found = list(itertools.islice((path for path in products if path != "/begun.o"), 6))
        child.terminate()
    assert found == [f"/{number}.o" for number in range(6)]


def test_events_and_counts_agree_on_what_no_call_of_this_version_can_be(nvccache, cache_dir):
    """An outcome of another version counts as a call, a time before 1970 is damage."""
    event_line.append(cache_dir, event(outcomes.MISS, started=-5.0))
    event_line.append(cache_dir, event("of_tomorrow", started=time.time()))
    assert [json.loads(line)["outcome"] for line in nvccache("events", "--json").output.splitlines()] == [
        "of_tomorrow"
    ]
    for arguments in ((), ("--since", "1h")):
        calls = nvccache.json("stats", *arguments)["calls"]
        assert {outcome: count for outcome, count in calls.items() if count} == {"of_tomorrow": 1}
