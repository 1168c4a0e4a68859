from __future__ import annotations

import made_builds
from made_builds import BEGUN, call, calls_of, hit, stage
from nvccache.report import figures, page_parts


def of(*events):
    return figures.critical_path(calls_of(events))


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
    assert [(link.call.source, link.kind, round(link.waited, 3)) for link in found] == [
        ("b.cu", "cicc", 0.1),
        ("c.cu", "cicc", 0.3),
    ]
    assert figures.seconds_by_kind(found) == {"cicc": 5.0}
    assert of() == ()


def test_a_stage_follows_one_of_its_own_call_if_that_ended_just_before():
    found = of(
        call(stage(kind="cicc", start=0.0, seconds=2.0), stage(kind="ptxas", start=2.01, seconds=1.0)),
        call(stage(start=0.0, seconds=2.005), sources=["b.cu"]),
    )
    assert [link.kind for link in found] == ["cicc", "ptxas"]
    assert {link.call.source for link in found} == {"../src/a.cu"}


def test_hostile_names_stay_text():
    assert "<script" not in page_parts.path_table(of(*made_builds.hostile()), 0.0)
