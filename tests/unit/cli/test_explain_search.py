"""Which call `nvccache explain FILE` finds: by a product, a source, the end of a path, or none."""

from __future__ import annotations

import os

import pytest

from made_events import event
from nvccache import outcomes
from nvccache.store import event_line


def logged(cache_dir: str, outcome: str, **fields) -> None:
    event_line.append(cache_dir, event(outcome, **fields))


@pytest.fixture
def build(cache_dir, tmp_path, monkeypatch):
    """Three calls with products and sources in two folders; the working directory is a third."""
    here = tmp_path / "here"
    for folder in (here, tmp_path / "one" / "src", tmp_path / "two"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)
    for name, sources, cause in (
        ("one/a.o", ["src/a.cu"], "`a.h` changed"),
        ("two/a.o", ["../one/src/a.cu", "c.cu"], "`b.h` changed"),
        ("two/b.o", ["b.cu"], "`c.h` changed"),
    ):
        path = str(tmp_path / name)
        logged(
            cache_dir,
            outcomes.MISS,
            product=path,
            directory=os.path.dirname(path),
            sources=sources,
            cause=cause,
        )
    return tmp_path


@pytest.mark.parametrize(
    "spelling", ["{0}/one/src/a.cu", "../two/../one/src/a.cu", "{0}/link/src/a.cu", "../link/src/a.cu"]
)
def test_a_source_stands_for_the_newest_call_that_reads_it(nvccache, build, spelling):
    (build / "link").symlink_to("one")
    assert nvccache.lines("explain", spelling.format(build)) == [
        f"`{build}/two/a.o`: miss, because `b.h` changed"
    ]


def test_a_bypass_of_which_the_sources_are_not_known_is_found_by_its_product(nvccache, cache_dir, build):
    logged(cache_dir, outcomes.BYPASS, reason="unknown_option", product=f"{build}/two/a.o")
    why = outcomes.REASONS["unknown_option"]
    assert nvccache.lines("explain", "../one/src/a.cu") == [f"`{build}/two/a.o`: bypass, because {why}"]


def test_an_object_is_found_through_a_link_to_its_folder(nvccache, build):
    (build / "link").symlink_to("one")
    assert nvccache.lines("explain", "../link/a.o") == ["`../link/a.o`: miss, because `a.h` changed"]


def test_the_source_below_the_working_directory_goes_before_another_of_its_name(nvccache, build, monkeypatch):
    monkeypatch.chdir(build / "one" / "src")
    assert nvccache.lines("explain", "a.cu") == [f"`{build}/two/a.o`: miss, because `b.h` changed"]
    document = nvccache.json("explain", "a.cu")
    assert (document["matched"], document["others"]) == (f"{build}/one/src/a.cu", [])


def test_the_end_of_a_path_is_enough(nvccache, build):
    assert nvccache.lines("explain", "b.o") == [f"`{build}/two/b.o`: miss, because `c.h` changed"]
    assert nvccache.lines("explain", "one/a.o") == [f"`{build}/one/a.o`: miss, because `a.h` changed"]
    assert nvccache.lines("explain", "c.cu") == [f"`{build}/two/a.o`: miss, because `b.h` changed"]
    for typed in ("o", ".o", "ne/a.o", "../a.o", "/a.o", "/two/b.o"):
        assert nvccache("explain", typed).output.startswith(f"Error: no compile of `{typed}` is recorded\n")


def test_of_several_that_end_so_the_newest_is_taken_and_the_others_are_named(nvccache, cache_dir, build):
    assert nvccache.lines("explain", "a.o") == [
        f"`{build}/two/a.o`: miss, because `b.h` changed",
        f"  `a.o` matches `{build}/two/a.o`, the newest, and also `{build}/one/a.o`",
    ]
    for number in range(5):
        logged(cache_dir, outcomes.MISS, product=f"/{number}/a.o", cause="`x` changed")
    assert nvccache.lines("explain", "a.o")[1] == (
        "  `a.o` matches `/4/a.o`, the newest, and also `/3/a.o`, `/2/a.o`, `/1/a.o` and 3 more"
    )
    document = nvccache.json("explain", "a.o")
    assert document["matched"] == "/4/a.o"
    assert len(document["others"]) == 6


def test_a_similar_name_is_suggested(nvccache, cache_dir, build):
    logged(cache_dir, outcomes.MISS, product=str(build / "here" / "KERNEL.o"))
    logged(cache_dir, outcomes.MISS, product="/another/project/KERNEL.o")
    result = nvccache("explain", "kernal.o")
    assert (result.exit_code, result.output) == (
        1, "Error: no compile of `kernal.o` is recorded\nHint: did you mean `KERNEL.o`?\n",
    )  # fmt: skip


def test_without_a_file_a_call_without_product_counts_as_well(nvccache, cache_dir):
    logged(cache_dir, outcomes.DIRECT_HIT, product="/b/a.o")
    logged(cache_dir, outcomes.BYPASS, reason="verbose", directory="/b", sources=["a.cu"])
    assert nvccache.lines("explain") == [f"`/b/a.cu`: bypass, because {outcomes.REASONS['verbose']}"]


def test_without_a_file_no_query_and_no_check_of_cmake_is_explained(nvccache, cache_dir):
    logged(cache_dir, outcomes.MISS, product="/b/a.o", cause="`a.h` changed")
    logged(cache_dir, outcomes.QUERY_MISS, directory="/b", sources=["a.cu"])
    logged(cache_dir, outcomes.BYPASS, reason="preprocess_only", directory="/b", sources=["a.cu"])
    logged(cache_dir, outcomes.MISS, directory="/b/CMakeFiles/CMakeScratch/TryCompile-1", sources=["x.cu"])
    assert nvccache.lines("explain") == ["`/b/a.o`: miss, because `a.h` changed"]


def test_a_question_to_nvcc_is_no_compile(nvccache, cache_dir):
    logged(cache_dir, outcomes.BYPASS, reason="information", directory="/b", sources=["a.cu"])
    assert nvccache("explain").output == "Error: no compile is recorded\n"
    assert nvccache("explain", "a.cu").output == "Error: no compile of `a.cu` is recorded\n"
