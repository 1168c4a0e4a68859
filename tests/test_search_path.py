"""The directories that a compiler searches for headers are those that it says it searches."""

from __future__ import annotations

import contextlib
import os
import subprocess

import pytest

from nvccache import search_path
from nvccache.search_path import chain_of
from nvccache.store import Store

GXX = "/usr/bin/g++"


@pytest.fixture(autouse=True)
def _in_its_own_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def chain(tmp_path, *words: str, environ: dict[str, str] | None = None) -> list[str]:
    plain = {"PATH": os.environ["PATH"], **(environ or {})}
    return chain_of(["g++", *words], plain, GXX, "identity", Store(str(tmp_path / "cache")))


def told_by_the_compiler(*words: str) -> list[str]:
    """The directories that g++ itself lists, and those it leaves out since they do not exist."""
    done = subprocess.run(
        [GXX, *words, "-E", "-v", "-x", "c++", "/dev/null"],
        capture_output=True,
        check=True,
        env={"LC_ALL": "C"},
    )
    lines = done.stderr.decode().splitlines()
    ignored = [line.split('"')[1] for line in lines if line.startswith("ignoring nonexistent")]
    start = lines.index("#include <...> search starts here:")
    return [line.strip() for line in lines[start + 1 : lines.index("End of search list.")]] + ignored


@pytest.mark.parametrize(
    "words",
    [(), ("-nostdinc",), ("-nostdinc++",), ("-m32",), ("--sysroot=/nowhere",), ("-isysroot", "/nowhere")],
)
def test_the_search_path_is_what_the_compiler_says_it_is(tmp_path, words):
    assert set(chain(tmp_path, *words)) == set(told_by_the_compiler(*words))


def test_the_system_headers_are_on_the_search_path_and_so_is_what_does_not_exist(tmp_path):
    found = chain(tmp_path)
    assert "/usr/include" in found
    missing = [directory for directory in found if not os.path.isdir(directory)]
    assert missing or "nonexistent" not in "".join(told_by_the_compiler())
    assert not any("nonexistent" in directory for directory in found)


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
        ([], {"CPATH": ":a"}, [".", "a"]),
        (["-I/no/where", "-I."], {}, ["/no/where", "."]),
    ],
)
def test_directories_of_options_and_variables_come_first(tmp_path, words, environ, found):
    assert chain(tmp_path, *words, environ=environ) == [*found, *chain(tmp_path)]


def test_the_compiler_is_asked_once_for_the_words_that_matter(tmp_path, monkeypatch):
    asked = []
    run = search_path.process.run
    monkeypatch.setattr(
        search_path.process,
        "run",
        lambda words, *rest, **named: asked.append(words) or run(words, *rest, **named),
    )
    for words in ((), ("-O2", "-Ix", "-DX=1", "-D", "Y", "-g", "-Wall"), ("-fPIC", "a.cu", "-o", "a.ii")):
        chain(tmp_path, *words)
    assert len(asked) == 1
    chain(tmp_path, "-nostdinc++")
    assert len(asked) == 2


@pytest.mark.parametrize("status", ["fails", "says nothing"])
def test_a_compiler_that_does_not_tell_is_not_understood(tmp_path, status):
    driver = tmp_path / "driver"
    driver.write_text("#!/bin/sh\nexit " + ("1" if status == "fails" else "0") + "\n")
    driver.chmod(0o755)
    with pytest.raises(OSError, match="does not say where it looks"):
        chain_of(["g++"], {}, str(driver), "identity", Store(str(tmp_path / "cache")))


@pytest.mark.parametrize(
    "words",
    [
        ["-c", "-x", "c++", "a.cu", "-o", "a.o"],
        ["-c", "-Xlinker", "foo"],
        ["-c", "-z", "relro"],
        ["-c", "-T", "script"],
        ["-c", "-u", "name"],
        ["-c", "-L", "lib", "-l", "m"],
        ["-c", "-MD", "-MF", "a.d", "-MT", "x", "-MQ", "y"],
    ],
)
def test_asking_the_compiler_leaves_no_file_behind(tmp_path, words):
    before = sorted(os.listdir())
    with contextlib.suppress(OSError):
        chain(tmp_path, *words)
    assert sorted({*os.listdir()} - {"cache"}) == before


@pytest.mark.parametrize(
    "words", [["-c", "--param", "ggc-min-expand=5"], ["-c", "-L", "lib"], ["-c", "-u", "name"]]
)
def test_options_with_a_word_behind_them_do_not_keep_the_compiler_from_telling(tmp_path, words):
    assert "/usr/include" in chain(tmp_path, *words)
