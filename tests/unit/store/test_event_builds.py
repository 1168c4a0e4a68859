"""Which calls are builds, and which build is the last."""

from __future__ import annotations

import time

import pytest

from nvccache.store import events
from sample_events import event

COMPILE = {"directory": "/b", "sources": ["a.cu"], "product": "/b/a.o"}
CHECK = "/b/CMakeFiles/CMakeScratch/TryCompile-1"


@pytest.mark.parametrize(
    ("outcome", "reason", "fields"),
    [
        ("query_hit", "", {}),
        ("query_miss", "", {"sources": ["a.cu"]}),
        ("bypass", "information", {"sources": ["a.cu"]}),
        ("bypass", "preprocess_only", {"sources": ["a.cu"]}),
        ("bypass", "verbose", {"directory": "/b"}),
        ("miss", "", {"directory": CHECK, "product": f"{CHECK}/a.o"}),
        ("miss", "", {"directory": "/b/CMakeFiles/CMakeTmp", "sources": ["x.cu"]}),
        ("bypass", "verbose", {"directory": "/b/CMakeFiles/3.25.1/CompilerIdCUDA", "sources": ["x.cu"]}),
        ("failed", "", {"directory": "/b", "sources": ["CMakeFiles/CMakeScratch/x.cu"]}),
    ],
)
def test_queries_and_cmakes_compiler_checks_are_not_in_the_last_build(outcome, reason, fields):
    compiled = event("miss", started=1000.0, **COMPILE)
    other = event(outcome, reason, started=2000.0, **fields)
    assert events.last_build([compiled, other]) == [compiled]
    assert not events.is_compile(other)


@pytest.mark.parametrize("directory", ["/b", "/b/CMakeFiles", "/CMakeFiles/CMakeScratches", "/CMakeTmp"])
@pytest.mark.parametrize(("outcome", "reason"), [("failed", ""), ("fault", ""), ("bypass", "verbose")])
def test_failed_and_bypassed_compiles_are_in_the_last_build(directory, outcome, reason):
    other = event(outcome, reason, directory=directory, sources=["a.cu"])
    assert events.last_build([other]) == [other]


def test_queries_belong_to_a_build_with_compiles_but_checks_of_cmake_do_not():
    check = event("miss", started=1000.0, directory=CHECK, sources=["x.cu"])
    query = event("query_miss", started=1001.0)
    compiled = event("miss", started=1002.0, **COMPILE)
    assert events.last_build([check, query, compiled]) == [query, compiled]


@pytest.mark.parametrize(
    ("gaps", "count"), [([], 0), ([0], 1), ([0, 30, 30], 3), ([0, 500, 30], 2), ([0, 30, 500], 1)]
)
def test_a_long_pause_without_calls_ends_a_build(gaps, count):
    now, calls = 1000.0, []
    for gap in gaps:
        now += gap
        calls.append(event("miss", started=now, seconds=1.0))
    assert len(events.last_build(calls)) == count


def test_a_product_that_is_made_again_begins_a_build():
    calls = [event("miss", started=at, seconds=1.0, product=f"/{at % 2}.o") for at in range(4)]
    calls.insert(1, event("query_hit", started=0.5))
    assert [len(found) for found in events.builds(calls)] == [3, 2]


def test_a_call_under_a_wrong_clock_does_not_stay_in_the_last_build():
    calls = [event("miss", started=time.time() - 60.0), event("miss", started=4e9)]
    assert events.last_build(calls) == calls[:1]
