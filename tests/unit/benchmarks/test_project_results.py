from __future__ import annotations

import json

import pytest
from real_projects import catalogue, checkouts, measuring, results, steps
from real_projects.faults import UnavailableError
from real_projects.limits import Limit
from real_projects.measuring import Measured, Outcome

COLD, REWORDED, INSERTED, OTHER = "cold", "comment reworded", "comment line inserted", "other checkout"
STEPS = {step.name: step for step in steps.STEPS}


@pytest.fixture
def measured():
    explained = {
        "outcome": "stage_hit",
        "cause": "`a.h` changed",
        "reasons": [["cicc sm_80", "`a.h` changed"]],
    }
    ours = Outcome(
        [2.0, 4.0], [1.0, 1.0], {}, {"a.cu": {**explained, "ran": [{"stage": "cicc", "seconds": 1.5}]}}
    )
    peer = Outcome([10.0, 30.0], [1.0, 3.0], {"a.cu": "3 of 900 bytes"})
    return Measured(
        {REWORDED: {"nvcc": Outcome([10.0, 10.0], [2.0, 2.0]), "nvccache": ours, "ccache": peer}},
        {REWORDED: Limit(2.0, ("cicc compute_80",), 0.4, 20.0)},
        {REWORDED: ["a.cu"]},
        {"b.cu": "9 of 900 bytes"},
    )


def test_a_ratio_is_the_median_of_the_rounds(measured):
    by_lane = measured.outcomes[REWORDED]
    assert results.ratio(by_lane["nvccache"], by_lane["nvcc"]) == pytest.approx(0.3)
    assert results.ratio(by_lane["ccache"], by_lane["nvcc"], by_processor=True) == pytest.approx(1.0)


def test_the_table_says_what_is_over_its_goal_and_why(measured):
    shown = results.markdown({"nvcc": "13.0"}, {"thing": measured})
    row = "| comment reworded | 10.00 s | 0.30 (0.50) **over** **over the limit** |"
    assert f"{row} 2.00 (1.00) **1 of 1 objects differ** | 0.15 | 1.00 s |" in shown
    assert "plain nvcc makes two objects of `b.cu`, which differ in 9 of 900 bytes" in shown
    assert "comment reworded, ccache: `a.cu` differs in 3 of 900 bytes" in shown
    assert "`a.cu` stage_hit (`a.h` changed), ran cicc 1.50 s" in shown
    assert "cicc sm_80: `a.h` changed" in shown


def test_the_document_holds_all_of_it(measured):
    loaded = json.loads(json.dumps(results.document({"nvcc": "13.0"}, {"thing": measured})))
    step = loaded["projects"]["thing"]["steps"][REWORDED]
    assert step["limit"] == {
        "seconds": 1.0,
        "stages": ["cicc compute_80"],
        "seconds of the replay": 2.0,
        "preprocessing of the replay": 0.4,
        "all of the replay": 20.0,
        "reached": False,
    }
    assert step["tools"]["ccache"]["objects that differ"] == {"a.cu": "3 of 900 bytes"}
    assert step["tools"]["nvccache"]["explained"]["a.cu"]["ran"] == [{"stage": "cicc", "seconds": 1.5}]


def test_the_picture_has_the_median_of_the_projects(measured):
    other = Measured({REWORDED: {"nvcc": Outcome([1.0], [1.0]), "nvccache": Outcome([0.1], [0.1])}})
    other.units[REWORDED] = ["a.cu"]
    found = results.groups(
        [results.document({}, {"thing": measured}), results.document({}, {"other": other})]
    )
    assert found[REWORDED]["nvccache"] == pytest.approx(0.2)
    assert found[REWORDED]["nvcc"] == 1.0


def test_goals_depend_on_paths_and_lines():
    assert steps.goal(STEPS[OTHER], False, False) == 0.10
    assert steps.goal(STEPS[OTHER], True, False) == 0.5
    assert steps.goal(STEPS[INSERTED], False, False) == 0.15
    assert steps.goal(STEPS[INSERTED], False, True) is None
    assert steps.is_near_limit(1.6, 1.0, 1)
    assert not steps.is_near_limit(1.7, 1.0, 1)


def test_cold_is_always_a_step():
    assert [step.name for step in steps.chosen([REWORDED])] == [COLD, REWORDED]


def test_a_difference_is_counted_in_bytes():
    assert measuring.difference(b"abc", b"abc") == ""
    assert measuring.difference(b"abc", b"adc") == "1 of 3 bytes"
    assert measuring.difference(b"abc", b"ab") == "2 bytes instead of 3"


@pytest.mark.parametrize("project", catalogue.PROJECTS, ids=lambda project: project.name)
def test_the_catalogue_is_whole(project):
    files = [project.archive, *(catalogue.HEADERS[name] for name in project.headers if name != "torch")]
    assert all(len(sha256) == 64 for file in files for sha256 in file.names.values())
    assert project.host.file == project.device.file == project.units[0]
    assert set(project.fewer) < set(project.architectures) < set(project.more)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("reword", "// A comment in other words, 7.\nint a;"),
        ("insert", "// A comment more, 7.\n  // Here.\nint a;"),
        ("host", "  // Here.\nint a; volatile int edited_host = 7; (void) edited_host;"),
    ],
)
def test_edits_are_of_one_line(kind, expected):
    file = catalogue.File("thing", "thing.tar.gz", "0" * 64)
    place, line = catalogue.Place("a.h", "// Here."), catalogue.Place("a.cu", "int a;")
    project = catalogue.Project("thing", file, "thing", catalogue.MAKE, ("a.cu",), place, line, line)
    assert checkouts.edited("  // Here.\nint a;", project, kind, 7) == expected
    with pytest.raises(UnavailableError, match="is 2 times in"):
        checkouts.edited("// Here.\n// Here.\nint a;\nint a;", project, kind, 7)
