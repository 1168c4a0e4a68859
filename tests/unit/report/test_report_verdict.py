from __future__ import annotations

import pytest

import made_builds
from made_builds import bypass, call, hit, stage
from nvccache.report import figures, page_parts, verdict
from nvccache.report.calls import from_json


def of(*events):
    return verdict.of([[from_json(event) for event in events]] if events else [])


def figures_of(*events):
    return figures.of([from_json(event) for event in events])


def sentence(*events):
    return page_parts.verdict_sentence(figures_of(*events), of(*events))


def test_the_sentence_names_hits_and_the_cause_that_cost_most():
    assert sentence(
        call(hit(), outcome="direct_hit"),
        call(stage(seconds=9.0), sources=["scan.cu"], cause="`scan.h` changed"),
        call(stage(seconds=2.0), sources=["b.cu"], cause="`b.cu` changed"),
    ) == (
        "1 of 3 compiles was a hit; 9.00 s of 11.00 s of tool time went into scan.cu,"
        " because `scan.h` changed"
    )


def test_a_cause_of_several_sources_is_weighed_as_one():
    some = [call(stage(seconds=3.0), sources=[f"{n}.cu"], cause="`a.h` changed") for n in range(3)]
    other = call(stage(seconds=4.0), sources=["b.cu"], cause="`b.cu` changed")
    assert sentence(*some, other).endswith(
        "; 9.00 s of 13.00 s of tool time went into 3 sources, because `a.h` changed"
    )


def test_a_source_without_a_cause_is_named_alone():
    assert sentence(call(stage(seconds=2.0))).endswith("of tool time went into ../src/a.cu")


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        ([], "Nothing was compiled"),
        ([bypass()], "1 bypassed the cache"),
        ([call(hit(), outcome="direct_hit")] * 2, "2 of 2 compiles were hits"),
        ([call(outcome="failed")], "1 failed"),
    ],
)
def test_a_part_without_a_count_is_left_out(events, wanted):
    assert sentence(*events) == wanted


def test_slots_count_stages_that_overlap_once_each():
    found = of(
        call(stage(start=0.0, seconds=4.0, slot=0), hit(), seconds=5.0),
        call(stage(start=1.0, seconds=1.0, slot=1), seconds=2.0),
    )
    assert (found.slots, found.busy, found.one_busy) == (2, 5.0, 3.0)


def test_time_of_nvccache_is_what_no_tool_had():
    both = (stage(start=1.0, seconds=2.0), stage(start=2.0, seconds=2.0), hit(seconds=9.0))
    assert of(call(*both, seconds=5.0)).own == 2.0
    assert of(bypass(seconds=5.0)).own == 0.0


def test_the_build_before_is_compared():
    this = call(hit(), outcome="direct_hit", seconds=1.0)
    facts = page_parts.verdict_facts(figures_of(this), of(this), figures_of(call(stage(), seconds=30.0)))
    assert facts[0] == "The build before took 30.00 s, with 0 of 1 compile as hits; this one took 1.00 s."
    assert page_parts.verdict_facts(figures_of(), of(), None) == []


def test_hostile_names_stay_text():
    assert "<script" not in page_parts.opening(
        figures_of(*made_builds.hostile()), of(*made_builds.hostile()), None
    )
