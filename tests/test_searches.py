"""Where headers are looked for, and which names must be absent or present for the same ones to be found."""

from __future__ import annotations

import os

import pytest

from nvccache import searches
from nvccache.searches import COMMAND_LINE, Lookups, Places

CHAIN = ["early", "late", "missing"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working directory: `late` has headers, `early` is empty, `missing` is missing."""
    monkeypatch.chdir(tmp_path)
    for name in ("late/x.h", "late/sub/y.h", "src/a.cu", "src/deep/z.h", "a.cu"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "early").mkdir()
    return tmp_path


def names(watches) -> set[str]:
    """Each watch as one word: `-early/x.h` must be absent, `+late/x.h` present."""
    return {
        name[0] + os.path.join("" if directory == "." else directory, name[1:]) for directory, name in watches
    }


def of_header(places: Places, path: str, *includers: str) -> list[searches.Watch]:
    """What is watched for a header that was read."""
    lookups = Lookups(places)
    lookups.add_header(path, tuple(dict.fromkeys(map(searches.directory_of, includers))))
    return watches_of(lookups)


def of_name(places: Places, name: str, includer: str = "src/a.cu") -> list[searches.Watch]:
    """What is watched for a name that was searched for."""
    lookups = Lookups(places)
    lookups.add_name(name, includer)
    return watches_of(lookups)


def watches_of(lookups: Lookups) -> list[searches.Watch]:
    return [(directory, name) for directory, found in lookups.watches().items() for name in found]


@pytest.mark.parametrize(
    ("path", "includers", "watched"),
    [
        ("late/x.h", ["a.cu"], {"-x.h", "-early/x.h", "-early/late", "-late/late", "-missing"}),
        ("late/x.h", ["src/a.cu"], {"-src/x.h", "-early/x.h", "-missing"}),
        ("late/x.h", ["src/a.cu", "late/sub/y.h"], {"-src/x.h", "-late/sub/x.h", "-early/x.h", "-missing"}),
        (
            "late/x.h",
            [COMMAND_LINE],
            {"-x.h", "-early/x.h", "-early/late", "-late/late", "-missing"},
        ),
        (
            "late/sub/y.h",
            ["a.cu"],
            {"-sub", "-early/sub", "-early/late", "-late/late", "-missing"},
        ),
        (
            "late/sub/y.h",
            ["late/sub/y.h"],
            {"-early/sub", "-late/sub/sub", "-early/y.h", "-late/y.h", "-missing"},
        ),
        ("src/deep/z.h", ["src/a.cu"], {"-early/deep", "-late/deep", "-missing"}),
        ("a.cu", [COMMAND_LINE], {"-early/a.cu", "-late/a.cu", "-missing"}),
    ],
)
def test_a_header_may_appear_in_no_other_place(place, path, includers, watched):
    assert names(of_header(Places(CHAIN), path, *includers)) == watched


def test_a_header_below_a_missing_folder_is_watched_by_the_folder(place):
    found = names(of_header(Places(["none/of/these", "late"]), "late/x.h", "src/a.cu"))
    assert found == {"-none", "-src/x.h"}


@pytest.mark.parametrize("chain", [["late/", "early/"], ["late//", "early//"], ["./late", "./early/"]])
def test_slashes_in_the_search_path_mean_nothing(place, chain):
    path = os.path.join(chain[0], "x.h")
    found = names(of_header(Places(chain), path, "src/a.cu"))
    assert {os.path.normpath(word[1:]) for word in found} == {"early/x.h", "src/x.h"}


def test_a_header_that_the_compiler_found_by_resolving_links_is_known(place):
    (place / "link").symlink_to("late")
    found = names(of_header(Places(["early", "link"]), str(place / "late" / "x.h"), "src/a.cu"))
    assert found == {"-early/x.h", "-src/x.h"}


def test_a_header_found_in_a_way_that_is_not_understood_is_watched_by_every_end_of_its_name(place):
    found = names(of_header(Places(["early"]), "/opt/odd/sub/h.h", "src/a.cu"))
    assert {"-early/h.h", "-early/sub", "-early/odd", "-src/h.h"} <= found


@pytest.mark.parametrize(
    ("name", "watched"),
    [
        ("x.h", {"-src/x.h", "-early/x.h", "-missing"}),
        ("no.h", {"-src/no.h", "-early/no.h", "-late/no.h", "-missing"}),
        ("sub/no.h", {"-src/sub", "-early/sub", "-late/sub/no.h", "-missing"}),
        ("sub/y.h", {"-src/sub", "-early/sub", "-missing"}),
        ("../late/x.h", {"-missing"}),
        ("../no.h", {"-src/../no.h", "-early/../no.h", "-late/../no.h", "-missing"}),
        ("sub/../x.h", {"-src/sub", "-early/sub", "-missing"}),
        ("./x.h", {"-src/./x.h", "-early/./x.h", "-missing"}),
        ("x.h/y.h", {"-src/x.h", "-early/x.h", "-late/x.h/y.h", "-missing"}),
    ],
)
def test_a_name_may_appear_nowhere(place, name, watched):
    assert names(of_name(Places(CHAIN), name)) == watched


def test_an_absolute_name_is_looked_for_in_its_one_place(place):
    places = Places(CHAIN)
    assert of_name(places, str(place / "late" / "x.h")) == []
    assert names(of_name(places, str(place / "no.h"))) == {f"-{place}/no.h"}
    assert names(of_name(places, str(place / "no" / "where" / "x.h"))) == {f"-{place}/no"}
    assert names(of_name(places, "/nowhere-at-all/x.h")) == {"-/nowhere-at-all"}


def test_a_link_that_leads_nowhere_may_not_come_to_life(place):
    (place / "early" / "x.h").symlink_to("nowhere")
    (place / "dangling").symlink_to("nowhere")
    assert names(of_name(Places(CHAIN), "x.h")) == {"-early/x.h", "-missing", "-src/x.h"}
    assert names(of_name(Places(["dangling"]), "x.h")) == {"-dangling", "-src/x.h"}


@pytest.mark.parametrize("ask", [of_name, Places.of_question])
def test_a_directory_of_the_name_may_not_become_a_header(place, ask):
    """A compiler passes over directories: what is watched must tell one from a file."""
    (place / "early" / "x.h").mkdir()
    before = ask(Places(["early"]), "x.h", "a.cu")
    assert "+early/x.h/." in names(before)


def test_what_is_watched_is_as_it_should_be(place):
    """Otherwise a record would never hold."""
    (place / "early" / "link").symlink_to("nowhere")
    places = Places([*CHAIN, "a.cu", "late/sub", ".", "..", "/"])
    watches = of_header(places, "late/x.h", "src/a.cu", COMMAND_LINE)
    for name in (
        "x.h",
        "sub/y.h",
        "no/x.h",
        "../x.h",
        "link",
        "link/x.h",
        "/no/x.h",
        "a.cu/x.h",
        "late/../no",
    ):
        watches = [*watches, *of_name(places, name), *places.of_question(name, "src/a.cu")]
    for directory, name in watches:
        assert os.path.exists(os.path.join(directory, name[1:])) == (name[0] == "+"), (directory, name)
        assert "/" not in name


@pytest.mark.parametrize(
    ("name", "includer", "watched"),
    [
        ("x.h", "src/a.cu", {"-src/x.h", "-early/x.h", "+late/x.h", "-missing"}),
        ("x.h", "late/x.h", {"+late/x.h", "-early/x.h", "-missing"}),
        ("no.h", "a.cu", {"-no.h", "-early/no.h", "-late/no.h", "-missing"}),
        ("sub/y.h", "a.cu", {"-sub", "-early/sub", "+late/sub/y.h", "-missing"}),
        ("a.cu", "a.cu", {"+a.cu", "-early/a.cu", "-late/a.cu", "-missing"}),
        ("../a.cu", "src/a.cu", {"+src/../a.cu", "+early/../a.cu", "+late/../a.cu", "-missing"}),
        ("x.h", COMMAND_LINE, {"-x.h", "-early/x.h", "+late/x.h", "-missing"}),
    ],
)
def test_what_has_include_asks_for_stays_as_it_is(place, name, includer, watched):
    assert names(Places(CHAIN).of_question(name, includer)) == watched


def test_an_absolute_name_that_has_include_asks_for(place):
    places = Places(CHAIN)
    assert names(places.of_question(str(place / "a.cu"), "src/a.cu")) == {f"+{place}/a.cu"}
    assert names(places.of_question(str(place / "no.h"), "src/a.cu")) == {f"-{place}/no.h"}
    assert names(places.of_question("/usr", "src/a.cu")) == {"+/usr/."}


def test_all_files_that_an_include_can_mean_are_found(place):
    (place / "src" / "x.h").write_text("")
    (place / "early" / "sub").mkdir()
    places = Places(CHAIN)
    assert places.found("x.h", "src") == ("late/x.h", "src/x.h")
    assert places.found("x.h", ".") == ("late/x.h",)
    assert places.found("a.cu", ".") == ("a.cu",)
    assert places.found("sub", ".") == places.found("no.h", ".") == ()
    assert places.found(str(place / "a.cu"), "src") == (str(place / "a.cu"),)


@pytest.mark.parametrize(
    ("includer", "directory"),
    [
        ("a.cu", "."),
        ("src/a.cu", "src"),
        ("/a/b.h", "/a"),
        ("/b.h", "/"),
        ("./x.h", "."),
        (COMMAND_LINE, "."),
    ],
)
def test_the_directory_of_an_includer(includer, directory):
    assert searches.directory_of(includer) == directory
