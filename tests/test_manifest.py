"""Manifests: a command may be answered without running it while it would read the same."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from nvccache import keys, manifest
from nvccache.store import Store

FRONT = keys.digest_bytes(b"front")


@pytest.fixture
def cache(tmp_path) -> Store:
    return Store(str(tmp_path / "cache"))


@pytest.fixture
def include(tmp_path) -> Path:
    """Two directories of headers: `first/x.h` is missing, `second/x.h` and `second/sub/y.h` are there."""
    for name, text in {"second/x.h": "int x;\n", "second/sub/y.h": "int y;\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (1, 1))
    (tmp_path / "first").mkdir()
    return tmp_path


def _add(include: Path, cache: Store, *names: str, since: float | None = None) -> str | None:
    paths = [str(include / "second" / name) for name in names or ("x.h", "sub/y.h")]
    directories = [str(include / "first"), str(include / "second")]
    return manifest.add_reading(FRONT, paths, directories, since or time.time() + 60, cache)


def test_a_reading_is_found_while_everything_is_as_it_was(include, cache):
    key = _add(include, cache)
    assert key and manifest.find_key(FRONT, cache) == key


def test_an_unknown_command_has_no_reading(cache):
    assert manifest.find_key(FRONT, cache) == ""


def test_a_changed_header_is_noticed_and_one_changed_back_is_as_it_was(include, cache):
    key = _add(include, cache)
    header = include / "second" / "x.h"
    header.write_text("int z;\n")
    assert manifest.find_key(FRONT, cache) == ""
    header.write_text("int x;\n")
    assert manifest.find_key(FRONT, cache) == key


def test_a_touched_header_is_the_same(include, cache):
    key = _add(include, cache)
    os.utime(include / "second" / "x.h", (2, 2))
    assert manifest.find_key(FRONT, cache) == key


def test_a_removed_header_is_noticed(include, cache):
    _add(include, cache)
    (include / "second" / "x.h").unlink()
    assert manifest.find_key(FRONT, cache) == ""


@pytest.mark.parametrize("name", ["first/x.h", "first/sub/y.h", "first/sub"])
def test_a_header_that_appears_where_the_compiler_looks_first_is_noticed(include, cache, name):
    _add(include, cache)
    if name == "first/sub":
        (include / name).mkdir()
    else:
        (include / name).parent.mkdir(exist_ok=True)
        (include / name).write_text("")
    assert manifest.find_key(FRONT, cache) == ""


def test_a_broken_link_that_appears_is_noticed(include, cache):
    _add(include, cache)
    (include / "first" / "x.h").symlink_to("nowhere")
    assert manifest.find_key(FRONT, cache) == ""


def test_a_file_that_appears_elsewhere_changes_nothing(include, cache):
    key = _add(include, cache)
    (include / "first" / "other.h").write_text("")
    (include / "second" / "sub" / "x.h").write_text("")
    assert manifest.find_key(FRONT, cache) == key


def test_a_header_in_a_directory_of_the_compilers_own_may_appear_in_any_searched_one(include, cache):
    directories = [str(include / "first")]
    manifest.add_reading(
        FRONT, [str(include / "second" / "sub" / "y.h")], directories, time.time() + 60, cache
    )
    (include / "first" / "y.h").write_text("")
    assert manifest.find_key(FRONT, cache) == ""


def test_each_state_of_the_headers_has_its_own_reading(include, cache):
    first = _add(include, cache)
    header = include / "second" / "x.h"
    header.write_text("int z;\n")
    second = _add(include, cache)
    assert first != second
    assert manifest.find_key(FRONT, cache) == second
    header.write_text("int x;\n")
    assert manifest.find_key(FRONT, cache) == first


def test_the_same_state_is_recorded_once(include, cache):
    assert _add(include, cache) == _add(include, cache)
    assert len(cache.find_manifest(FRONT)) == 1


def test_the_oldest_readings_are_dropped(include, cache):
    header = include / "second" / "x.h"
    found = []
    for number in range(12):
        header.write_text(f"int x{number};\n")
        found.append(_add(include, cache))
    assert [reading["key"] for reading in cache.find_manifest(FRONT)] == found[:3:-1]


def test_a_header_that_changed_while_the_command_ran_is_not_recorded(include, cache):
    started = time.time()
    (include / "second" / "x.h").write_text("int z;\n")
    assert _add(include, cache, since=started) is None
    assert cache.find_manifest(FRONT) == []


def test_a_header_that_is_gone_after_the_run_is_not_recorded(include, cache):
    assert _add(include, cache, "x.h", "missing.h") is None


def test_another_command_has_its_own_readings(include, cache):
    key = _add(include, cache)
    other = manifest.add_reading(
        keys.digest_bytes(b"other"), [str(include / "second" / "x.h")], [], time.time() + 60, cache
    )
    assert other != key


@pytest.mark.parametrize(
    ("words", "environ", "found"),
    [
        (
            ["-I", "a", "-Ib", "-isystem", "c", "-isystemd", "-iquote", "e", "-idirafter", "f"],
            {},
            list("abcdef"),
        ),
        (["-I", "a", "-Ia", "-include", "x.h"], {}, ["a"]),
        ([], {"CPATH": "a:b", "CPLUS_INCLUDE_PATH": "c"}, ["a", "b", "c"]),
        ([], {"CPATH": "a::b", "C_INCLUDE_PATH": ""}, ["a", ".", "b"]),
    ],
)
def test_searched_directories_are_those_of_options_and_environment(words, environ, found):
    assert manifest.search_directories(["gcc", *words], environ) == [*found, "/usr/local/include"]


NAMES = ["plain.h", "a b.h", "do$lar.h", "ha#sh.h", "ünï.h", "percent%.h", "c:d.h"]
# clang writes these as names of other files, which then cannot be read: such a run is never recorded.
NAMES_FOR_GCC = ["a\tb.h", "back\\slash.h", "back\\ slash.h"]


@pytest.mark.parametrize(
    ("compiler", "name"),
    [*itertools.product(["g++", "clang++"], NAMES), *itertools.product(["g++"], NAMES_FOR_GCC)],
)
def test_prerequisites_of_a_make_rule_are_read_as_the_compiler_wrote_them(tmp_path, compiler, name):
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler}")
    (tmp_path / name).write_text("")
    source = tmp_path / "in put.cpp"
    source.write_text(f"#include <{name}>\n#include <cstddef>\n")
    rule = tmp_path / "a.o.read"
    subprocess.run(
        [
            compiler,
            "-c",
            "-I",
            str(tmp_path),
            str(source),
            "-MD",
            "-MF",
            str(rule),
            "-o",
            str(tmp_path / "a.o"),
        ],
        check=True,
    )
    found = manifest.read_make_rule(rule.read_bytes())
    assert found[:1] == [str(source)]
    assert str(tmp_path / name) in found
    assert all(os.path.isfile(path) for path in found)


def test_a_rule_without_prerequisites_has_none():
    assert manifest.read_make_rule(b"a.o:\n") == []
    assert manifest.read_make_rule(b"") == []
