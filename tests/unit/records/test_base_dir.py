"""Which directory is the checkout, and which arguments nvcc gets relative to the working directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nvccache.records.base_dir import base_of, checkout_of, relative_arguments


@pytest.mark.parametrize(
    ("base", "cwd", "checkout"),
    [
        ("/base", "/base/one/build", "/base/one"),
        ("/base//", "/base/one", "/base/one"),
        ("/base", "/base", "/base"),
        ("", "/x", ""),
        ("/", "/x", ""),
        ("/base", "/based/x", ""),
        ("/base/one", "/base", ""),
    ],
)
def test_the_checkout_is_the_subdirectory_of_the_base(base: str, cwd: str, checkout: str) -> None:
    assert checkout_of(base, cwd) == checkout


def test_a_base_directory_given_as_a_link_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "real" / "one").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    cwd = str(tmp_path / "real" / "one")
    assert checkout_of(str(tmp_path / "link"), cwd) == cwd


def test_a_base_directory_with_a_repository_is_itself_the_checkout(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    (tmp_path / ".git").mkdir()
    for base, cwd in ((str(tmp_path), tmp_path / "build"), ("auto", tmp_path / "build"), ("auto", tmp_path)):
        assert checkout_of(base, str(cwd)) == str(tmp_path)


def test_base_directory_auto_is_the_outermost_git_repository(tmp_path: Path) -> None:
    for folder in ("a/.git", "a/submodule/.git", "a/submodule/build", "none"):
        (tmp_path / folder).mkdir(parents=True)
    assert base_of("auto", str(tmp_path / "a/submodule/build")) == str(tmp_path / "a")
    assert base_of("auto", str(tmp_path / "none")) == ""


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A base directory with a checkout, whose `build` is the working directory, and links to it and in it."""
    base = tmp_path / "base"
    for folder in ("one/build", "one/src", "other/deep"):
        (base / folder).mkdir(parents=True)
    (base / "one/out").symlink_to(base / "other/deep")
    (tmp_path / "link").symlink_to(base)
    monkeypatch.chdir(base / "one/build")
    return base


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ("-c @/one/src/a.cu", "-c ../src/a.cu"),
        ("-I@/one/inc -I @/one/inc", "-I../inc -I ../inc"),
        ("-isystem=@/one/inc,/usr/x -include @/one/x.h", "-isystem=../inc,/usr/x -include ../x.h"),
        ("-I@/one/build", "-I."),
        ("-I@/one/out/x", "-I../out/x"),
        # Not inputs or include directories, or not below the base.
        ("-DX=@/one -o @/one/a.o -ccbin @/one/g++", "-DX=@/one -o @/one/a.o -ccbin @/one/g++"),
        ("-I/usr/include -Irelative b.cu -I@x/inc", "-I/usr/include -Irelative b.cu -I@x/inc"),
        # `..` behind a link leads elsewhere, and any directory may become a link.
        ("-I@/one/out/../x -I@/one/src/../x", "-I../out/../x -I../src/../x"),
        ("-I@/one/build/../x -I@/one//x/ -I@/one/build//x", "-I../x -I..//x/ -I@/one/build//x"),
    ],
)
def test_absolute_input_and_include_paths_below_the_base_are_made_relative(
    base: Path, typed: str, given: str
) -> None:
    arguments = typed.replace("@", str(base)).split()
    expected = given.replace("@", str(base)).split()
    assert relative_arguments(arguments, str(base), str(base / "one/build"))[0] == expected


def test_paths_below_a_base_directory_named_by_its_link_are_made_relative(base: Path) -> None:
    link = base.parent / "link"
    for named in (base, link):
        arguments = [f"{named}/one/src/a.cu"]
        given, paths = relative_arguments(arguments, f"{link}/", str(base / "one/build"))
        assert given == ["../src/a.cu"]
        assert paths[b"../src"] == os.fsencode(named / "one/src")


@pytest.mark.parametrize("other", ["/", "elsewhere", "one/src"])
def test_a_base_directory_that_does_not_hold_the_working_directory_changes_nothing(
    base: Path, other: str
) -> None:
    arguments = [f"{base}/one/src/a.cu"]
    assert relative_arguments(arguments, str(base / other), str(base / "one/build")) == (arguments, {})
