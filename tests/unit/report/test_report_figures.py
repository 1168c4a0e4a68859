from __future__ import annotations

import pytest

import made_builds
from made_builds import bypass, call, calls_of, hit, stage
from nvccache.report import figures, page


def of(*events):
    return figures.summarize(calls_of(events))


def test_rates_count_what_could_be_a_hit():
    outcomes = ["direct_hit", "direct_hit", "stage_hit", "partial_hit", "miss", "failed", "fault"]
    found = of(*[call(outcome=outcome) for outcome in outcomes], bypass())
    assert found.by_outcome == {
        "direct_hit": 2, "stage_hit": 1, "partial_hit": 1, "miss": 1, "query_hit": 0, "query_miss": 0,
        "bypass": 1, "failed": 1, "fault": 1,
    }  # fmt: skip
    assert found.hit_rate == pytest.approx(3 / 5)


def test_there_is_no_rate_of_nothing():
    for found in (of(), of(bypass()), of(call(outcome="failed"))):
        assert found.hit_rate is None and found.stage_hit_rate is None


def test_stages_are_counted_by_kind_in_the_order_of_the_pipeline():
    found = of(
        call(
            stage(kind="ptxas", seconds=2),
            stage(kind="tomorrows", seconds=1),
            hit(kind="ptxas", seconds=7),
            stage(kind="cicc", result="shared", seconds=3),
            stage(kind="cicc", result="failed", seconds=4),
        )
    )
    assert list(found.stages) == ["cicc", "ptxas", "tomorrows"]
    assert found.stages["ptxas"].results == {"ran": 1, "hit": 1}
    assert (found.stages["ptxas"].spent, found.stages["ptxas"].saved) == (2, 7)
    assert (found.stages["cicc"].spent, found.stages["cicc"].saved) == (4, 3)
    assert found.stage_hit_rate == pytest.approx(2 / 4)


def test_what_an_engine_had_was_not_spent():
    had = made_builds.away(is_cached=True, kind="ptxas", seconds=90.0)
    found = of(call(made_builds.away(), had, stage(seconds=2)))
    assert (found.tool_spent, found.stages["ptxas"].spent, found.stages["ptxas"].saved) == (42, 0, 0)


def test_what_is_slow_comes_first():
    found = of(
        call(stage(seconds=1), sources=["quick.cu"], seconds=2),
        call(stage(seconds=9, kind="ptxas"), sources=["slow.cu"], seconds=6),
        call(sources=["quick.cu"], seconds=3),
    )
    assert list(found.sources) == ["slow.cu", "quick.cu"]
    assert (found.sources["quick.cu"].count, found.sources["quick.cu"].spent) == (2, 1)


def test_causes_are_sorted_by_what_they_cost():
    found = of(
        call(stage(seconds=1, why="new"), cause="`a.h` changed"),
        call(stage(seconds=1, why="new"), cause="`a.h` changed"),
        call(stage(seconds=9, why="old"), hit(why="not told"), cause="`b.h` changed", sources=["b.cu"]),
        bypass(cause="none of a bypass"),
    )
    assert list(found.causes) == ["`b.h` changed", "`a.h` changed"]
    assert (found.causes["`a.h` changed"].count, found.causes["`b.h` changed"].example) == (2, "b.cu")


def test_reasons_are_counted():
    found = of(
        bypass(),
        bypass(reason="library"),
        bypass(),
        call(),
    )
    assert [(word, tally.count) for word, tally in found.reasons.items()] == [("verbose", 2), ("library", 1)]


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        ([], "No compile is recorded"),
        ([bypass()], "1 bypassed the cache"),
        ([call(hit(), outcome="direct_hit")] * 2, "2 of 2 compiles were hits"),
        ([call(outcome="failed")], "1 failed"),
        (
            [call(hit(), outcome="direct_hit"), call(stage(seconds=9.0), cause="`a.h` changed"),
             call(stage(seconds=2.0), cause="`b.cu` changed")],
            "1 of 3 compiles was a hit; 9.00 s of 11.00 s of compiler time went into `../src/a.cu`,"
            " because `a.h` changed",
        ),
        (
            [call(stage(seconds=4.0), cause="`b.cu` changed"), *[call(stage(), cause="`a.h` changed")] * 3],
            "none of 4 compiles was a hit; 6.00 s of 10.00 s of compiler time went into 3 calls,"
            " because `a.h` changed",
        ),
    ],
)  # fmt: skip
def test_the_sentence_names_hits_and_the_cause_that_cost_most(events, wanted):
    assert page.verdict(of(*events)) == wanted
