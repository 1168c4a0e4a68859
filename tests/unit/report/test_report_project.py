from __future__ import annotations

import pytest

from made_builds import call, stage
from nvccache.report import project
from nvccache.report.calls import from_json


def calls(*events):
    return [from_json(event) for event in events]


def of(directory, *sources, **changes):
    return call(directory=directory, sources=list(sources), **changes)


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        ([], ""),
        ([of("/p/build", "../src/a.cu"), of("/p/build/sub", "../../src/x/b.cu")], "/p"),
        ([of("/p/src", "a.cu"), of("/p/src", "/p/src/deep/b.cu")], "/p/src"),
        ([of("/p/build", "/usr/share/cmake/Modules/Id.cu"), of("/p/build", "../a.cu")], "/p"),
        ([of("/build", "/src/a.cu")], ""),
        ([of("/p/build", "../a.cu"), of("/q/build", "../a.cu")], ""),
        ([of("/p/build")], "/p/build"),
        ([of("", "a.cu"), of("odd", "a.cu")], ""),
    ],
)
def test_the_project_holds_sources_and_directories(events, wanted):
    assert project.directory_of(calls(*events)) == wanted


def relative(event, directory="/p"):
    return project.relative([calls(event)], directory)[0][0]


def test_paths_become_relative_and_those_outside_absolute():
    found = relative(of("/p/build", "../src/a.cu", "/usr/b.cu", "../../q/c.cu", product="/p/build/a.o"))
    assert found.sources == ("src/a.cu", "/usr/b.cu", "/q/c.cu")
    assert found.product == "build/a.o"


@pytest.mark.parametrize(
    ("cause", "wanted"),
    [
        ("`../src/a.h` changed", "`src/a.h` changed"),
        ("`a.cuh` changed", "`build/a.cuh` changed"),
        ("`/usr/include/x` changed", "`/usr/include/x` changed"),
        ("the option `-I../src` is new", "the option `-I../src` is new"),
        ("the value of `NVCC_APPEND_FLAGS` changed", "the value of `NVCC_APPEND_FLAGS` changed"),
        ("nvcc `13.0` became `13.2`", "nvcc `13.0` became `13.2`"),
    ],
)
def test_causes_name_files_in_the_same_form(cause, wanted):
    found = relative(call(stage(why=cause), directory="/p/build", cause=cause))
    assert (found.cause, found.stages[0].why) == (wanted, wanted)


def test_without_a_project_all_stays():
    event = of("/p/build", "../src/a.cu")
    assert relative(event, "") == calls(event)[0]


def test_one_source_of_two_directories_is_one():
    made = [of("/p/b1", "../src/a.cu"), of("/p/b2", "../src/a.cu"), of("/p/b3", "a.cu")]
    ((one, two, other),) = project.relative([calls(*made)], "/p")
    assert one.source == two.source == "src/a.cu"
    assert other.source == "b3/a.cu"
