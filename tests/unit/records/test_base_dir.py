"""Relocation: encoded paths name the same file in another checkout, and all others stay unchanged."""

from __future__ import annotations

import os
import random

import pytest

from nvccache.records.base_dir import MARK, Relocation

PARTS = ["a", "b", "src", "build", "with blank", "é", "..", ".", "", "new\nline", "\udcff", "x.h", "base"]


def random_path(choose: random.Random) -> str:
    start = choose.choice(["/base", "/base/one", "/base/one/build", "/based", "/", "", "/other/base"])
    return "/".join([start, *choose.choices(PARTS, k=choose.randint(0, 5))])


@pytest.mark.parametrize("cwd", ["/base", "/base/one", "/base/one/build", "/base/one/build/deep/er"])
def test_every_path_comes_back(cwd):
    choose = random.Random(1)
    relocation = Relocation("/base", cwd)
    for _ in range(3000):
        path = random_path(choose)
        assert relocation.decode(relocation.encode(path)) == path


@pytest.mark.parametrize("cwd", ["/base", "/base/one/build"])
def test_no_two_paths_are_kept_alike(cwd):
    choose = random.Random(2)
    relocation = Relocation("/base", cwd)
    paths = {random_path(choose) for _ in range(3000)}
    assert len({relocation.encode(path) for path in paths}) == len(paths)


def test_another_checkout_gets_its_own_path():
    one = Relocation("/base", "/base/one/build")
    two = Relocation("/base", "/base/two/build")
    for path in ("build/a.o", "src/a.cu", "src/deep/a.h", "", "../shared/x.h", "build/../src/a.cu"):
        kept = one.encode(f"/base/one/{path}")
        assert two.decode(kept) == f"/base/two/{path}"
        assert kept == two.encode(f"/base/two/{path}")


def test_a_checkout_at_another_depth_gets_its_own_path():
    shallow = Relocation("/base", "/base/one/build")
    deep = Relocation("/base", "/base/users/me/two/build")
    assert deep.decode(shallow.encode("/base/one/src/a.cu")) == "/base/users/me/two/src/a.cu"


def test_the_way_is_one_up_and_then_down():
    relocation = Relocation("/base", "/base/one/build")
    assert relocation.encode("/base/one/src/a.cu") == MARK + "1/src/a.cu"
    assert relocation.encode("/base/one/build") == MARK + "0"


def test_what_is_beside_the_checkout_is_the_same_for_all():
    relocation = Relocation("/base", "/base/one/build")
    assert relocation.checkout == "/base/one"
    for path in ("/base", "/base/tools/bin/g++", "/base/two/src/a.cu"):
        assert relocation.encode(path) == path
    assert relocation.in_checkout(["/usr/bin", "/base/one/bin", "/base/tools"]) == [MARK + "1/bin"]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/usr/include/x.h",
        "/basement/x.h",
        "/bas",
        "base/x.h",
        "a.cu",
        "../x.h",
        "",
        "./base",
        "//base/x.h",
    ],
)
def test_paths_outside_of_the_base_directory_stay(path):
    relocation = Relocation("/base", "/base/one")
    assert relocation.encode(path) == path
    assert relocation.decode(path) == path


@pytest.mark.parametrize("base", ["/base/", "/base//"])
def test_a_slash_behind_the_base_directory_means_nothing(base):
    relocation = Relocation(base, "/base/one")
    assert relocation.base == "/base"
    assert relocation.encode("/base/one/x.h") == MARK + "0/x.h"


@pytest.mark.parametrize(
    ("base", "cwd"), [("", "/x"), ("/", "/x"), ("/base", "/based/x"), ("/base/one", "/base")]
)
def test_there_is_no_relocation_where_the_working_directory_is_elsewhere(base, cwd):
    relocation = Relocation(base, cwd)
    assert relocation.base == ""
    assert relocation.encode(f"{cwd}/x.h") == f"{cwd}/x.h"
    assert relocation.encode_within(f"-I{cwd}/x") == f"-I{cwd}/x"
    with pytest.raises(ValueError, match="above the base"):
        relocation.decode(MARK + "0/x.h")


def test_a_base_directory_that_is_a_link_is_where_it_leads(tmp_path):
    (tmp_path / "real" / "one").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    cwd = os.path.realpath(tmp_path / "real" / "one")
    relocation = Relocation(str(tmp_path / "link"), cwd)
    assert relocation.base == os.path.realpath(tmp_path / "real")
    assert relocation.encode(f"{cwd}/x.h") == MARK + "0/x.h"
    through_link = str(tmp_path / "link" / "one" / "x.h")
    assert relocation.encode(through_link) == through_link


@pytest.mark.parametrize(
    "kept", ["", "x", "3/x", "-1/x", "999999999999/x", "9" * 9000 + "/x", "1x/y", "/x", " 1/x", "1.0/x", "+1"]
)
def test_what_leads_above_the_base_directory_is_refused(kept):
    with pytest.raises(ValueError):
        Relocation("/base", "/base/one/build").decode(MARK + kept)


def test_a_path_that_was_typed_with_the_mark_is_not_taken_for_a_kept_one():
    relocation = Relocation("/base", "/base/one/build")
    typed = MARK + "1/src/a.cu"
    assert relocation.decode(relocation.encode(typed)) == typed
    assert relocation.encode(typed) != relocation.encode("/base/one/src/a.cu")


@pytest.mark.parametrize(
    ("word", "kept"),
    [
        ("/base/one/a.cu", "{1}0/a.cu"),
        ("-I/base/one/include", "-I{1}0/include"),
        ("-L/base/one/lib", "-L{1}0/lib"),
        ("-ffile-prefix-map=/base/one=.", "-ffile-prefix-map={1}0=."),
        ("a=/base/one,/base/two:/base/one/x", "a={1}0,/base/two:{1}0/x"),
        ('-DROOT="/base/one/data"', '-DROOT="{1}0/data"'),
        ("-DROOT='/base'", "-DROOT='/base'"),
        ("-Wl,/base/one /base/two", "-Wl,{1}0 /base/two"),
    ],
)
def test_paths_within_a_word_are_kept_alike(word, kept):
    assert Relocation("/base", "/base/one").encode_within(word) == kept.replace("{1}", MARK)


@pytest.mark.parametrize(
    "word",
    ["", "a.cu", "-I/usr/base/x", "x/base/one", "-I/basement/x", "-Dbase=/bas", "-O2", "/other/base/one"],
)
def test_a_word_without_such_a_path_stays(word):
    assert Relocation("/base", "/base/one").encode_within(word) == word


def test_no_two_words_are_kept_alike():
    choose = random.Random(3)
    relocation = Relocation("/base", "/base/one/build")
    starts = ["", "-I", "-L", "-Dx=", '-Dx="', "a,", "x", "-isystem"]
    argv = {
        choose.choice(starts) + random_path(choose) + choose.choice(["", "=.", ",/base/x"])
        for _ in range(3000)
    }
    assert len({relocation.encode_within(word) for word in argv}) == len(argv)


def test_words_of_two_checkouts_are_kept_alike():
    for text in ("-I{}/include", "-DX={}/x,{}/y", "{}/src/a.cu"):
        one = Relocation("/base", "/base/one/build").encode_within(text.replace("{}", "/base/one"))
        two = Relocation("/base", "/base/two/build").encode_within(text.replace("{}", "/base/two"))
        assert one == two


def test_in_place_nothing_is_kept_otherwise():
    relocation = Relocation("/base", "/base/one/build").in_place()
    assert (relocation.base, relocation.checkout) == ("/base", "")
    assert relocation.encode("/base/one/a.cu") == "/base/one/a.cu"
