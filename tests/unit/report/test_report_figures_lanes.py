from __future__ import annotations

import itertools

import made_builds
from made_builds import call, calls_of, hit, stage
from nvccache.report import figures


def lay_out(*events):
    return figures.lay_out(calls_of(events))


def test_each_slot_has_a_lane_and_then_the_calls():
    found = lay_out(
        call(stage(slot=5), stage(slot=2), hit(), stage(slot=-1), hit(result="shared")),
        call(started=made_builds.BEGUN + 1),
    )
    assert [(lane.group, lane.name) for lane in found.lanes] == [
        (figures.TOOLS, "job 1"),
        (figures.TOOLS, "job 2"),
        (figures.TOOLS, "job 3"),
        (figures.CALLS, "call 1"),
        (figures.CALLS, "call 2"),
    ]
    # Hits are in the lane of their call.
    assert found.of_stages == [[1, 0, 3, 2, 3], []]
    assert found.of_calls == [3, 4]


def test_other_machines_have_slots_of_their_own():
    found = lay_out(call(stage(slot=0), stage(slot=0, where="build7")))
    assert [lane.name for lane in found.lanes[:2]] == ["job 1", "job 1 on build7"]
    assert [lane.where for lane in found.lanes[:2]] == ["", "build7"]


def test_what_is_away_has_a_lane_until_it_is_back():
    """Three at once for 46, 46 and 6 seconds, and one that begins when the last of them ends."""
    found = lay_out(
        call(made_builds.away(start=0), made_builds.away(start=0), made_builds.away(is_cached=True, start=0)),
        call(made_builds.away(start=0), started=made_builds.BEGUN + 6),
    )
    assert [lane.name for lane in found.lanes[:3]] == [f"job {row} on grpc://host:1" for row in (1, 2, 3)]
    assert sorted(found.of_stages[0]) == [0, 1, 2]
    assert found.of_stages[1] == [found.of_stages[0][2]]


def test_nothing_overlaps_in_a_lane():
    # Two at once in one slot, as in a log from two machines.
    calls = calls_of([*made_builds.build(300), *made_builds.build(300, seed=2)])
    found = figures.lay_out(calls)
    spans, first = {}, calls[0].started
    for call_, lane, of_stages in zip(calls, found.of_calls, found.of_stages, strict=True):
        spans.setdefault(lane, []).append((begun := call_.started - first, begun + call_.seconds))
        for each, of_stage in zip(call_.stages, of_stages, strict=True):
            if not each.is_found:
                begun = call_.started - first + each.start
                spans.setdefault(of_stage, []).append((begun, begun + each.seconds))
    assert len(spans) == len(found.lanes)
    for own in spans.values():
        own.sort()
        assert all(before[1] <= after[0] + figures.SLACK for before, after in itertools.pairwise(own))


def test_clocks_need_not_agree_to_the_microsecond():
    found = lay_out(
        call(stage(start=0.0, seconds=1.0)),
        call(stage(start=0.0, seconds=1.0), started=made_builds.BEGUN + 0.998),
        call(stage(start=0.0, seconds=1.0), started=made_builds.BEGUN + 1.9),
    )
    assert found.of_stages == [[0], [0], [1]]
    assert [lane.name for lane in found.lanes[:2]] == ["job 1", "job 2"]
