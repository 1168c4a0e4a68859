"""Readings of what compilers read: they hold only while the same command would read the same."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from nvccache import headers, markers, reading, signatures
from nvccache.headers import Headers, UnreadableError
from nvccache.reading import Observations, Reading
from nvccache.store import Store

LATER = 60 * 10**9  # nanoseconds


@pytest.fixture
def cache(tmp_path_factory) -> Store:
    return Store(str(tmp_path_factory.mktemp("store")))


@pytest.fixture
def include(tmp_path, monkeypatch) -> Path:
    """Two directories of headers: `first/x.h` is missing, `second/x.h` and `second/sub/y.h` are there."""
    for name, text in {"second/x.h": "int x;\n", "second/sub/y.h": "int y;\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (1, 1))
    (tmp_path / "first").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _headers(cache: Store, since: int | None = None, **variables: str) -> Headers:
    """For a call that begins now, as if what was written before were long settled."""
    return Headers({**os.environ, **variables}, cache, since or time.time_ns() + LATER)


def _words(include: Path, *others: str) -> list[str]:
    return ["g++", "-I", str(include / "first"), "-I", str(include / "second"), *others]


def _of_rule(include: Path, cache: Store, *names: str, since: int | None = None) -> Reading:
    paths = [str(include / "second" / name) for name in names or ("x.h", "sub/y.h")]
    return _headers(cache, since).of_rule(_words(include), paths)


def _of_pass(cache: Store, *words: str, since: int | None = None, **variables: str) -> Reading:
    """The reading of a pass over a.cu that g++ makes now."""
    command = ["g++", "-E", "-x", "c++", *words, "a.cu"]
    text = subprocess.run(command, check=True, capture_output=True).stdout
    return _headers(cache, since, **variables).of_pass(command, markers.entered_files(text), text)


def _unlike(made: Reading) -> set[tuple[str, str]]:
    unlike = reading.differences(made, Observations(), False, lambda: "")
    return {(difference.what, os.path.relpath(difference.path)) for difference in unlike}


def test_a_reading_holds_while_everything_is_as_it_was(include, cache):
    made = _of_rule(include, cache)
    assert made.files == [str(include / "second" / name) for name in ("x.h", "sub/y.h")]
    assert _unlike(made) == set()


def test_a_header_that_is_another_one_is_noticed(include, cache):
    made = _of_rule(include, cache)
    header = include / "second" / "x.h"
    os.utime(header, (2, 2))
    assert _unlike(made) == set()
    header.write_text("int z;\n")
    assert _unlike(made) == {("changed", "second/x.h")}
    header.unlink()
    assert _unlike(made) == {("gone", "second/x.h")}


@pytest.mark.parametrize("name", ["first/x.h", "first/sub/y.h", "first/sub"])
def test_a_header_that_appears_where_the_compiler_looks_first_is_noticed(include, cache, name):
    made = _of_rule(include, cache)
    if name == "first/sub":
        (include / name).mkdir()
    else:
        (include / name).parent.mkdir(exist_ok=True)
        (include / name).write_text("")
    assert _unlike(made) == {("appeared", name.removesuffix("/y.h"))}


def test_a_file_that_appears_elsewhere_changes_nothing(include, cache):
    made = _of_rule(include, cache)
    (include / "first" / "other.h").write_text("")
    (include / "second" / "sub" / "z.h").write_text("")
    assert _unlike(made) == set()


def test_a_header_in_a_directory_of_the_compilers_own_may_appear_in_any_searched_one(include, cache):
    made = _headers(cache).of_rule(["g++", "-Ifirst"], [str(include / "second" / "sub" / "y.h")])
    (include / "first" / "y.h").write_text("")
    assert _unlike(made) == {("appeared", "first/y.h")}


def test_a_header_that_changed_while_the_command_ran_is_not_recorded(include, cache):
    started = time.time_ns()
    (include / "second" / "x.h").write_text("int z;\n")
    with pytest.raises(UnreadableError, match="changed while"):
        _of_rule(include, cache, since=started)


def test_a_source_that_changed_while_its_pass_ran_is_not_recorded(include, cache):
    started = time.time_ns()
    (include / "a.cu").write_text("int z;\n")
    with pytest.raises(UnreadableError, match="changed while"):
        _of_pass(cache, since=started)


def test_a_header_that_appeared_earlier_on_the_path_while_the_command_ran_is_noticed(include, cache):
    time.sleep(0.05)
    started = time.time_ns()
    (include / "first" / "x.h").write_text("int z;\n")
    os.utime(include / "first" / "x.h", (1, 1))
    with pytest.raises(UnreadableError, match="changed while"):
        _of_rule(include, cache, "x.h", since=started)


def test_a_header_that_only_a_systems_header_includes_may_not_appear_earlier(include, cache):
    (include / "second" / "outer.h").write_text("#include <x.h>\n")
    (include / "a.cu").write_text("#include <outer.h>\n")
    made = _of_pass(cache, "-Ifirst", "-isystem", "second")
    (include / "first" / "x.h").write_text("")
    assert _unlike(made) == {("appeared", "first/x.h")}


def test_a_header_that_is_gone_after_the_run_is_not_recorded(include, cache):
    with pytest.raises(UnreadableError, match=r"missing\.h` is no regular file"):
        _of_rule(include, cache, "x.h", "missing.h")


def test_what_is_no_regular_file_is_not_recorded(include, cache):
    os.mkfifo(include / "second" / "fifo.h")
    for name in ("fifo.h", "sub"):
        with pytest.raises(UnreadableError, match="no regular file"):
            _of_rule(include, cache, name)


def test_a_directory_that_is_written_to_has_no_signature(include, cache):
    def signature(since: int) -> tuple[int, ...]:
        made = _of_rule(include, cache, "x.h", since=since)
        return made.directory_signatures[made.directories.index(str(include / "first"))]

    now = time.time_ns()
    assert signature(now + LATER) == signatures.of(str(include / "first"))
    assert signature(now + 10**9) == signatures.UNKNOWN


def test_a_pass_reads_the_source_and_its_headers(include, cache):
    (include / "a.cu").write_text('#include "x.h"\n#include <sub/y.h>\n')
    made = _of_pass(cache, "-Ifirst", "-Isecond")
    assert {"a.cu", "second/x.h", "second/sub/y.h"} <= set(made.files)
    assert _unlike(made) == set()
    for name, appeared in (("x.h", "x.h"), ("first/sub/y.h", "first/sub")):
        (include / name).parent.mkdir(exist_ok=True)
        (include / name).write_text("")
        assert ("appeared", appeared) in _unlike(made)
        (include / name).unlink()


def test_a_name_that_a_pass_asked_for_may_not_appear_or_vanish(include, cache):
    (include / "a.cu").write_text('#if __has_include("z.h") || __has_include(<sub/y.h>)\n#endif\n')
    made = _of_pass(cache, "-Ifirst", "-Isecond")
    assert made.files[0] == "a.cu" and "second/sub/y.h" not in made.files
    (include / "second" / "sub" / "y.h").unlink()
    assert _unlike(made) == {("gone", "second/sub/y.h")}
    (include / "first" / "z.h").write_text("")
    assert _unlike(made) == {("gone", "second/sub/y.h"), ("appeared", "first/z.h")}


def test_a_copy_that_was_passed_over_is_read_too(include, cache):
    """Once edited, it would be entered."""
    for name in ("second/x.h", "first/copy.h"):
        (include / name).write_text("#pragma once\nint x;\n")
    (include / "a.cu").write_text('#include "x.h"\n#include "copy.h"\n')
    made = _of_pass(cache, "-Ifirst", "-Isecond")
    assert len({"first/copy.h", "second/x.h"} & set(made.files)) == 2


@pytest.mark.parametrize("word", ["__TIME__", "__DATE__", "__TIMESTAMP__"])
def test_the_time_in_a_text_cannot_be_recorded(include, cache, word):
    (include / "a.cu").write_text(f"const char *built = {word};\n")
    with pytest.raises(UnreadableError, match=f"`a.cu` uses `{word}`"):
        _of_pass(cache)
    (include / "a.cu").write_text(f"// {word}\n#define WHEN {word}\n")
    assert _of_pass(cache).files[0] == "a.cu"
    (include / "a.cu").write_text("const char *built = WHEN;\n")
    with pytest.raises(UnreadableError, match=f"the command line` uses `{word}`"):
        _of_pass(cache, f"-DWHEN={word}")


def test_a_date_that_the_environment_fixes_can_be_recorded(include, cache):
    (include / "a.cu").write_text("const char *built = __DATE__ __TIME__;\n")
    assert _of_pass(cache, SOURCE_DATE_EPOCH="86400").files[0] == "a.cu"
    (include / "a.cu").write_text("const char *built = __TIMESTAMP__;\n")
    with pytest.raises(UnreadableError, match="__TIMESTAMP__"):
        _of_pass(cache, SOURCE_DATE_EPOCH="86400")


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
    words = [compiler, "-c", "-I", tmp_path, source, "-MD", "-MF", rule, "-o", tmp_path / "a.o"]
    subprocess.run(words, check=True)
    found = headers.read_make_rule(rule.read_bytes())
    assert found[:1] == [str(source)]
    assert str(tmp_path / name) in found
    assert all(os.path.isfile(path) for path in found)


def test_a_rule_without_prerequisites_has_none():
    assert headers.read_make_rule(b"a.o:\n") == []
    assert headers.read_make_rule(b"") == []
