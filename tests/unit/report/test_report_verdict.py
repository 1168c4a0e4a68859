from __future__ import annotations

import pytest

import made_builds
from made_builds import BEGUN, bypass, call, calls_of, hit, stage
from nvccache.report import figures, headline, page_parts, verdict


def of(*events):
    return verdict.of(calls_of(events))


def figures_of(*events):
    return figures.of(calls_of(events))


def sentence(*events):
    return headline.verdict_sentence(figures_of(*events), of(*events))


def test_the_sentence_names_hits_and_the_cause_that_cost_most():
    assert sentence(
        call(hit(), outcome="direct_hit"),
        call(stage(seconds=9.0), sources=["scan.cu"], cause="`scan.h` changed"),
        call(stage(seconds=2.0), sources=["b.cu"], cause="`b.cu` changed"),
    ) == (
        "1 of 3 compiles was a hit; 9.00 s of 11.00 s of compiler time went into `scan.cu`,"
        " because `scan.h` changed"
    )


def test_a_cause_of_several_sources_is_weighed_as_one():
    some = [call(stage(seconds=3.0), sources=[f"{n}.cu"], cause="`a.h` changed") for n in range(3)]
    other = call(stage(seconds=4.0), sources=["b.cu"], cause="`b.cu` changed")
    hits_only = call(hit(), outcome="stage_hit", sources=["c.cu"], cause="`a.h` changed")
    assert sentence(*some, other, hits_only).endswith(
        "; 9.00 s of 13.00 s of compiler time went into 3 sources, because `a.h` changed"
    )


def test_a_source_without_a_cause_is_named_alone():
    assert sentence(call(stage(seconds=2.0))).endswith(
        "; all 2.00 s of compiler time went into `../src/a.cu`"
    )


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        ([], "No compile is recorded"),
        ([bypass()], "1 bypassed the cache"),
        ([call(hit(), outcome="direct_hit")] * 2, "2 of 2 compiles were hits"),
        ([call(outcome="failed")], "1 failed"),
    ],
)
def test_a_part_without_a_count_is_left_out(events, wanted):
    assert sentence(*events) == wanted


def test_cores_are_busy_with_stages_and_bypasses_and_not_with_hits():
    found = of(
        call(stage(start=0.0, seconds=4.0), hit(), seconds=5.0),
        call(stage(start=1.0, seconds=1.0, slot=1), seconds=2.0),
        bypass(started=BEGUN + 6.0, seconds=1.0),
        call(hit(), outcome="direct_hit", started=BEGUN + 8.0, seconds=1.0),
        call(made_builds.away(start=0.0), seconds=1.0),
    )
    assert (found.elapsed, found.busy, found.one_busy, found.cores) == (9.0, 6.0, 8.0, 2)
    assert verdict.of([], 3).cores == 3


def test_time_of_nvccache_is_what_no_tool_had_while_a_core_was_free():
    both = (stage(start=1.0, seconds=2.0), stage(start=2.0, seconds=2.0), hit(seconds=9.0))
    assert of(call(*both, seconds=5.0)).own == 2.0
    assert of(bypass(seconds=5.0)).own == 0.0
    events = [
        call(stage(start=0.0, seconds=4.0), seconds=4.0),
        call(stage(start=4.0, seconds=1.0), seconds=6.0),
    ]
    assert (of(*events).own, of(*events).waited) == (1.0, 4.0)
    two = verdict.of(calls_of(events), cores=2)
    assert (two.own, two.waited) == (5.0, 0.0)


def test_the_critical_path_leads_from_what_ended_last_to_the_start():
    found = of(
        call(
            stage(kind="cicc", start=0.1, seconds=2.0),
            stage(kind="ptxas", start=2.1, seconds=1.0),
            seconds=3.2,
        ),
        call(stage(start=0.1, seconds=1.0), sources=["b.cu"], seconds=1.1),
        call(stage(start=0.2, seconds=4.0), sources=["c.cu"], started=BEGUN + 1.2, seconds=4.3),
        call(hit(), outcome="direct_hit", sources=["d.cu"], started=BEGUN + 5.0, seconds=0.1),
    )
    assert [(link.call.source, link.kind, round(link.waited, 3)) for link in found.path] == [
        ("b.cu", "cicc", 0.1),
        ("c.cu", "cicc", 0.3),
    ]
    assert found.path_by_kind == {"cicc": 5.0}


def test_a_stage_follows_one_of_its_own_call_if_that_ended_just_before():
    found = of(
        call(stage(kind="cicc", start=0.0, seconds=2.0), stage(kind="ptxas", start=2.01, seconds=1.0)),
        call(stage(start=0.0, seconds=2.005), sources=["b.cu"]),
    )
    assert [link.kind for link in found.path] == ["cicc", "ptxas"]
    assert {link.call.source for link in found.path} == {"../src/a.cu"}


def test_facts_name_what_finished_last_and_how_busy_the_cores_were():
    found = verdict.of(calls_of([call(stage(start=0.0, seconds=3.0), seconds=3.0)]), 4)
    assert headline.verdict_facts(found) == [
        "`../src/a.cu` finished last. On its critical path: cicc 3.00 s.",
        "On average 1.0 of 4 cores had work; for 3.00 s at most one had.",
    ]
    assert headline.verdict_facts(of()) == []


def test_hostile_names_stay_text():
    hostile = of(*made_builds.hostile())
    assert "<script" not in headline.opening(figures_of(*made_builds.hostile()), hostile)
    assert "<script" not in page_parts.path_table(hostile, 0.0)
