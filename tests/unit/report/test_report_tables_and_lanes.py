from __future__ import annotations

import itertools
import re

import pytest

import made_builds
from made_builds import bypass, call, calls_of, hit, stage
from nvccache.cli import builds
from nvccache.report import lanes, tables


def test_stages_are_counted_by_kind_in_the_order_of_the_pipeline():
    had = made_builds.away(was_cached=True, kind="cudafe", seconds=90.0)  # in the engine's cache: not spent
    found = tables.stage_table(
        calls_of(
            [
                call(
                    stage(kind="ptxas", seconds=2),
                    stage(kind="tomorrows", seconds=1),
                    hit(kind="ptxas", seconds=7),
                    stage(kind="cicc", result="shared", seconds=3),
                    stage(kind="cicc", result="failed", seconds=4),
                    had,
                )
            ]
        )
    )
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</tr>", found)
    assert [re.sub(r"(<[^>]*>)+", "|", row).rstrip("|") for row in rows] == [
        "cudafe++|1|0|0 s|0 s",
        "cicc|1|1|4.00 s|3.00 s",
        "ptxas|1|1|2.00 s|7.00 s",
        "tomorrows|1|0|1.00 s|0 s",
    ]


def test_the_slowest_stages_come_first_with_their_source_and_time():
    events = [call(stage(seconds=n, start=0.25)) for n in range(20)]
    found = tables.slowest_table(calls_of(events))
    assert re.findall(r"(\d+\.\d\d) s<span", found)[:2] == ["19.00", "18.00"]
    assert found.count("<tr>") == 16 and "The 15 longest of 20 stages." in found and "250 ms" in found


def test_the_legend_of_the_report_counts_each_tool_and_outcome_that_occurs():
    events = [call(stage(), stage(kind="ptxas", result="failed"), hit()), bypass(), call(outcome="tomorrows")]
    found = re.sub(r"<[^>]*>", " ", tables.legend(calls_of(events)))
    assert found.split() == ("Stages cicc 1 ✕ failed 1 ◆ hit 1 Calls ● miss 1 → bypass 1 tomorrows 1".split())


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        ([], "no compile is recorded"),
        ([bypass()], "1 compile in 3.00 s; the call asks nvcc to print its commands (-v)"),
        ([call(hit(), outcome="direct_hit", tool_saved=2.0)] * 2,
         "2 compiles in 3.00 s, 100 % of compiler time reused"),
        ([call(stage(seconds=9.0), cause="first", overhead=1.5)],
         "1 compile in 3.00 s, 0 % of compiler time reused, 1.50 s of overhead; first"),
        ([call(stage(seconds=4.0), cause="`b.cu` changed", tool_saved=999.0, overhead=9.0),
          *[call(stage(), cause="`a.h` changed")] * 3],
         "4 compiles in 3.00 s, 99 % of compiler time reused; `a.h` changed"),
    ],
)  # fmt: skip
def test_the_headline_is_the_share_that_was_reused_and_the_costliest_cause(events, wanted):
    assert builds.headline(calls_of(events)) == wanted


def test_a_build_is_explained_in_at_most_four_causes():
    events = [call(stage(seconds=9.0 - n), cause=f"`{n}.h` changed") for n in (0, 1, 1, 2, 3, 4)]
    assert builds.cause_lines(calls_of(events)) == [
        "2 objects: `1.h` changed",
        "1 object: `0.h` changed",
        "1 object: `2.h` changed",
        "2 objects: 2 other causes (`nvccache report` lists them)",
    ]


def test_html_in_names_is_escaped_in_the_report():
    build = calls_of(made_builds.hostile())
    for made in (tables.slowest_table, tables.stage_table, tables.cause_table, tables.legend):
        text = made(build)
        assert "<script" not in text and "<img" not in text and text.isprintable()


def test_only_a_table_of_too_many_causes_says_that_it_lacks_some():
    build = calls_of([call(stage(), cause=f"`{n}.h` changed") for n in range(16)])
    assert "<small>The first 15 of 16 causes.</small>" in tables.cause_table(build)
    assert "<small>" not in tables.cause_table(build[:15]) + tables.slowest_table(build[:15])


def lay_out(*events):
    return lanes.lay_out(calls_of(events))


def test_the_report_has_a_lane_for_each_job_slot_and_then_for_calls():
    found = lay_out(
        call(stage(slot=5), stage(slot=2), hit(), stage(slot=-1), hit(result="shared")),
        call(started=made_builds.BEGUN + 1),
    )
    assert [(lane.group, lane.name) for lane in found.lanes] == [
        (lanes.TOOLS, "job 1"),
        (lanes.TOOLS, "job 2"),
        (lanes.TOOLS, "job 3"),
        (lanes.CALLS, "call 1"),
        (lanes.CALLS, "call 2"),
    ]
    # Hits are in the lane of their call.
    assert found.of_stages == [[1, 0, 3, 2, 3], []]
    assert found.of_calls == [3, 4]


def test_in_the_report_each_machine_has_job_lanes_of_its_own():
    found = lay_out(call(stage(slot=0), stage(slot=0, where="build7")))
    assert [lane.name for lane in found.lanes[:2]] == ["job 1", "job 1 on build7"]
    assert [lane.where for lane in found.lanes[:2]] == ["", "build7"]


def test_a_remote_stage_occupies_a_lane_until_it_returns():
    """Three at once for 46, 46 and 6 seconds, and one that begins when the last of them ends."""
    found = lay_out(
        call(
            made_builds.away(start=0),
            made_builds.away(start=0),
            made_builds.away(was_cached=True, start=0, seconds=6.0),
        ),
        call(made_builds.away(start=0), started=made_builds.BEGUN + 6),
    )
    assert [lane.name for lane in found.lanes[:3]] == [f"job {row} on grpc://host:1" for row in (1, 2, 3)]
    assert sorted(found.of_stages[0]) == [0, 1, 2]
    assert found.of_stages[1] == [found.of_stages[0][2]]


def test_nothing_overlaps_within_a_lane_of_the_report():
    # Two at once in one slot, as in a log from two machines.
    calls = calls_of([*made_builds.build(300), *made_builds.build(300, seed=2)])
    found = lanes.lay_out(calls)
    spans, first = {}, calls[0].started
    for call_, lane, of_stages in zip(calls, found.of_calls, found.of_stages, strict=True):
        spans.setdefault(lane, []).append((begun := call_.started - first, begun + call_.seconds))
        for each, of_stage in zip(call_.stages, of_stages, strict=True):
            if not each.is_hit:
                begun = call_.started - first + each.start
                spans.setdefault(of_stage, []).append((begun, begun + each.seconds))
    assert len(spans) == len(found.lanes)
    for own in spans.values():
        own.sort()
        assert all(before[1] <= after[0] + lanes.SLACK for before, after in itertools.pairwise(own))


def test_the_report_puts_stages_that_overlap_by_milliseconds_into_one_lane():
    found = lay_out(
        call(stage(start=0.0, seconds=1.0)),
        call(stage(start=0.0, seconds=1.0), started=made_builds.BEGUN + 0.998),
        call(stage(start=0.0, seconds=1.0), started=made_builds.BEGUN + 1.9),
    )
    assert found.of_stages == [[0], [0], [1]]
    assert [lane.name for lane in found.lanes[:2]] == ["job 1", "job 2"]


def test_the_reported_most_tools_at_once_ignores_overlaps_of_milliseconds():
    """Three slots, of which the third is used only after the first."""
    one_after_another = call(
        stage(slot=0, start=0.0, seconds=1.0),
        stage(slot=1, start=0.0, seconds=2.0),
        hit(start=0.0, seconds=2.0),
        stage(slot=2, start=0.998, seconds=1.0),  # the clocks of two processes differ a little
    )
    assert len(lay_out(one_after_another).lanes) == 4
    assert lanes.most_at_once([one_after_another]) == 2
    assert lanes.most_at_once([call(hit())]) == lanes.most_at_once([]) == 0
