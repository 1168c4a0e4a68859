"""Which calls are builds, and which build is the last."""

from __future__ import annotations

import pytest

from made_events import event
from nvccache.store import events

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
def test_queries_and_checks_of_cmake_are_no_build(outcome, reason, fields):
    compiled = event("miss", started=1000.0, **COMPILE)
    other = event(outcome, reason, started=2000.0, **fields)
    assert events.last_build([compiled, other]) == [compiled]
    assert not events.is_compile(other)


@pytest.mark.parametrize("directory", ["/b", "/b/CMakeFiles", "/CMakeFiles/CMakeScratches", "/CMakeTmp"])
@pytest.mark.parametrize(("outcome", "reason"), [("failed", ""), ("fault", ""), ("bypass", "verbose")])
def test_other_calls_are_compiles(directory, outcome, reason):
    other = event(outcome, reason, directory=directory, sources=["a.cu"])
    assert events.last_build([other]) == [other]


def test_queries_belong_to_a_build_with_compiles_but_checks_of_cmake_do_not():
    check = event("miss", started=1000.0, directory=CHECK, sources=["x.cu"], build="7-1")
    query = event("query_miss", started=1001.0, build="7-1")
    compiled = event("miss", started=1002.0, build="7-1", **COMPILE)
    assert events.last_build([check, query, compiled]) == [query, compiled]
