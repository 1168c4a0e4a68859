"""Relocation: encoded paths name the same file in another checkout, and all others stay unchanged."""

from __future__ import annotations

import os
import random

import pytest

from nvccache.records.base_dir import MARK, Relocation, base_of

PARTS = ["a", "b", "src", "build", "with blank", "é", "..", ".", "", "new\nline", "\udcff", "x.h", "base"]
IN_ONE = Relocation("/base", "/base/one/build")


def random_path(choose: random.Random) -> str:
    start = choose.choice(["/base", "/base/one", "/base/one/build", "/based", "/", "", "/other/base"])
    return "/".join([start, *choose.choices(PARTS, k=choose.randint(0, 5))])


@pytest.mark.parametrize("cwd", ["/base", "/base/one", "/base/one/build", "/base/one/build/deep/er"])
def test_paths_relative_to_a_checkout_are_encoded_uniquely_and_decode_to_themselves(cwd):
    choose = random.Random(1)
    relocation = Relocation("/base", cwd)
    kept = {path: relocation.encode(path) for path in (random_path(choose) for _ in range(3000))}
    kept[f"{MARK}1/typed"] = relocation.encode(f"{MARK}1/typed")
    assert {path: relocation.decode(encoded) for path, encoded in kept.items()} == {
        path: path for path in kept
    }
    assert len(set(kept.values())) == len(kept)


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/base/one/src/a.cu", MARK + "1/src/a.cu"),
        ("/base/one/build", MARK + "0"),
        # What is beside the checkout is the same for all, and so is what is outside of the base directory.
        *[(path, path) for path in ("/base", "/base/tools/bin/g++", "/base/two/a.cu", "/", "/basement/x.h")],
        *[(path, path) for path in ("/usr/x.h", "/bas", "base/x.h", "../x.h", "", "./base", "//base/x.h")],
    ],
)
def test_only_paths_within_the_checkout_are_stored_as_relative_paths(path, kept):
    assert IN_ONE.encode(path) == kept
    assert IN_ONE.in_place().encode(path) == path


@pytest.mark.parametrize("base", ["/base", "/base//"])
@pytest.mark.parametrize("cwd", ["/base/two/build", "/base/users/me/two/build"])
def test_another_checkout_gets_its_own_path_at_any_depth(base, cwd):
    other = Relocation(base, cwd)
    for path in ("build/a.o", "src/a.cu", "src/deep/a.h", "", "build/../src/a.cu"):
        kept = IN_ONE.encode(f"/base/one/{path}")
        assert other.decode(kept) == f"{os.path.dirname(cwd)}/{path}"


@pytest.mark.parametrize(
    ("base", "cwd"), [("", "/x"), ("/", "/x"), ("/base", "/based/x"), ("/base/one", "/base")]
)
def test_there_is_no_relocation_where_the_working_directory_is_elsewhere(base, cwd):
    relocation = Relocation(base, cwd)
    assert relocation.base == ""
    assert relocation.encode(f"{cwd}/x.h") == f"{cwd}/x.h"
    with pytest.raises(ValueError, match="above the base"):
        relocation.decode(MARK + "0/x.h")


def test_a_base_directory_given_as_a_link_is_resolved(tmp_path):
    (tmp_path / "real" / "one").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    cwd = os.path.realpath(tmp_path / "real" / "one")
    relocation = Relocation(str(tmp_path / "link"), cwd)
    assert relocation.encode(f"{cwd}/x.h") == MARK + "0/x.h"
    through_link = str(tmp_path / "link" / "one" / "x.h")
    assert relocation.encode(through_link) == through_link


@pytest.mark.parametrize("kept", ["", "x", "3/x", "-1/x", "9" * 9000 + "/x", "1x/y", "/x", " 1/x", "+1"])
def test_paths_above_the_base_directory_are_refused(kept):
    with pytest.raises(ValueError):
        IN_ONE.decode(MARK + kept)


@pytest.mark.parametrize(
    ("word", "kept"),
    [
        ("-ffile-prefix-map=/base/one=.", "-ffile-prefix-map={1}0=."),
        ("-g,-fdebug-prefix-map=/base/one/src=/x,-fmacro-prefix-map=/usr=.",
         "-g,-fdebug-prefix-map={1}0/src=/x,-fmacro-prefix-map=/usr=."),
        *[(word, word) for word in ("", "-I/base/one/include", "-fmacro-prefix-map=")],
    ],
)  # fmt: skip
def test_prefix_map_options_are_stored_alike_for_all_checkouts(word, kept):
    for checkout in ("one", "three"):
        given, expected = (text.replace("/base/one", f"/base/{checkout}") for text in (word, kept))
        assert Relocation("/base", f"/base/{checkout}").encode_maps(given) == expected.replace("{1}", MARK)


def test_a_base_directory_with_a_repository_is_itself_the_checkout(tmp_path):
    for folder in ("build", "src"):
        (tmp_path / folder).mkdir()
    assert Relocation(str(tmp_path), str(tmp_path / "build")).checkout == str(tmp_path / "build")
    (tmp_path / ".git").mkdir()
    relocation = Relocation(str(tmp_path), str(tmp_path / "build"))
    assert relocation.checkout == Relocation("auto", str(tmp_path / "build")).checkout == str(tmp_path)
    assert relocation.encode(str(tmp_path / "src/a.cu")) == MARK + "1/src/a.cu"
    assert Relocation("auto", str(tmp_path)).encode(str(tmp_path / "venv/bin")) == MARK + "0/venv/bin"


def test_auto_is_the_outermost_repository(tmp_path):
    for folder in ("a/.git", "a/submodule/.git", "a/submodule/build", "none"):
        (tmp_path / folder).mkdir(parents=True)
    assert base_of("auto", str(tmp_path / "a/submodule/build")) == str(tmp_path / "a")
    assert base_of("auto", str(tmp_path / "none")) == ""
