"""Random command lines and random sources, compiled: nvccache does what plain nvcc does, cold and warm.

Each line starts from the same files in plain nvcc, in nvccache, and in nvccache again: see bench.py for what
is compared. Two lines of three share one cache and one directory, so that a key that leaves something out
serves what another line has made; the others start with an empty cache.

5 lines and 2 sources are compiled by default; 300 and 120 with --every-case:

    pytest --every-case tests/scenarios/same_result/test_random_compiles.py
    NVCCACHE_TEST_SEED=7        the lines of another seed
    NVCCACHE_TEST_SEED=7:123    one line of it, as a failure names it, with an empty cache
    NVCCACHE_TEST_NVCC=/path/to/nvcc, NVCCACHE_TEST_CCBIN=/path/to/g++     with another toolkit
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from generator import values
from generator.lines import RandomLine, make, seeds
from generator.sources import make_source
from nvccache.outcomes import BYPASS, FAULT
from scenarios.same_result.bench import Bench, Run, release_of
from scenarios.same_result.lines.line import Line
from scenarios.same_result.sameness import assert_same_files, assert_same_streams
from scenarios.support.sources import SOURCES
from scenarios.support.toolkits import CCBIN
from workspaces import HIDDEN_PREFIXES, make_workspace

pytestmark = pytest.mark.light_by_default

_COUNTS = {"line": (3, 300), "source": (1, 120)}  # by default, and with --every-case


class Bed:
    """One directory and one cache for many lines, one after the other."""

    def __init__(self, root: Path, nvcc: str) -> None:
        self._root = root
        self._nvcc = nvcc
        self._prepared = _prepared(root / "prepared", nvcc)

    def bench(self, line: RandomLine, files: Mapping[str, bytes], keeps_cache: bool) -> Bench:
        """Everything as before the first line, but for the cache, if it is kept."""
        for path in self._root.iterdir():
            if path.is_file():
                path.unlink()
            elif path.name not in ("prepared", "cache" if keeps_cache else ""):
                shutil.rmtree(path)
        everything: dict[str, str | bytes] = {**SOURCES, **values.COPIES, **self._prepared}
        everything |= {name: os.fsencode(text) for name, text in line.files.items()} | dict(files)
        described = Line(
            line.seed,
            shlex.join(line.arguments),
            "",
            warm_before={(13, 0): "miss"},
            files=everything,
            environ=line.environ,
            names_keep_directory=any("-g" in word or "debug" in word for word in _all_words(line)),
        )
        return Bench(described, make_workspace(self._root, self._nvcc), release_of(self._nvcc))


def _all_words(line: RandomLine) -> list[str]:
    return [*line.arguments, *line.environ.values(), *line.files.values()]


def _prepared(directory: Path, nvcc: str) -> dict[str, bytes]:
    """Objects for links, and the files that are there to be odd."""
    directory.mkdir()
    environ = {name: text for name, text in os.environ.items() if not name.startswith(HIDDEN_PREFIXES)}
    argv = [
        nvcc,
        *(["-ccbin", CCBIN] if CCBIN else []),
        "-arch=sm_80",
        "-keep",
        "-keep-dir",
        str(directory),
        "-dc",
    ]
    for name, source in (("one.o", "device_link.cu"), ("two.o", "device_part.cu")):
        (directory / source).write_text(SOURCES[source])
        subprocess.run([*argv, source, "-o", name], cwd=directory, env=environ, check=True)
    subprocess.run(["ar", "cr", "libtwo.a", "two.o"], cwd=directory, check=True)
    names = ("one.o", "two.o", "libtwo.a")
    empty = dict.fromkeys(("empty.txt", "out/.here", "dir.cu/.here", "x.cubin"), b"")
    return {name: (directory / name).read_bytes() for name in names} | empty


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory, nvcc: str) -> Iterator[Bed]:
    root = tmp_path_factory.mktemp("random")
    yield Bed(root, nvcc)
    shutil.rmtree(root)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, counts in _COUNTS.items():
        if f"seed_of_{name}" in metafunc.fixturenames:
            few, all_of_them = counts
            chosen = set(seeds(few))
            metafunc.parametrize(
                f"seed_of_{name}",
                [
                    pytest.param(seed, marks=() if seed in chosen else pytest.mark.full)
                    for seed in seeds(all_of_them)
                ],
            )


def test_a_random_command_line_gives_the_result_of_nvcc(bed: Bed, seed_of_line: str) -> None:
    _compare(bed, make(seed_of_line, is_compiled=True), {})


def test_a_random_source_gives_the_result_of_nvcc(bed: Bed, seed_of_source: str) -> None:
    chance = random.Random(f"{seed_of_source} way")
    way = chance.choice(
        (["-c"], ["-c"], ["-ptx"], ["-dc"], ["-cubin"], ["-MD", "-c"], ["-MMD", "-ptx"], ["-lineinfo", "-c"])
    )
    extra = chance.choice(([], [], ["-DX=1"], ["-g"], ["-Xcompiler", "-Wall"], ["-Iinclude", "-Isub dir"]))
    arguments = ("-arch=sm_80", *way, *extra, "m.cu")
    _compare(bed, RandomLine(seed_of_source, arguments, {}, {}, None), {"m.cu": make_source(seed_of_source)})


def _compare(bed: Bed, line: RandomLine, files: Mapping[str, bytes]) -> None:
    number = int(line.seed.rpartition(":")[2])
    bench = bed.bench(
        line, files, keeps_cache=number % 3 != 0 and ":" not in os.environ.get("NVCCACHE_TEST_SEED", "")
    )
    plain = bench.plain()
    for attempt in ("cold", "warm", "stages"):
        if attempt == "stages":
            bench.workspace.forget_calls()
        cached, counters = bench.cached()
        is_nvcc = counters.outcome == BYPASS
        _assert_same(plain, cached, bench, f"{attempt}\n{line}", is_nvcc)
        assert not counters.calls.get(FAULT), line
        if is_nvcc:
            break


def _assert_same(plain: Run, cached: Run, bench: Bench, description: str, is_nvcc: bool) -> None:
    try:
        assert_same_streams(plain, cached, bench)
        assert_same_files(plain, cached, bench)
    except AssertionError as difference:
        # What nvcc itself did for this call may hold the time or the name of a temporary file.
        if is_nvcc and _shown(bench.plain()) != _shown(plain):
            return
        raise AssertionError(f"{description}\n{difference}") from difference


def _shown(run: Run) -> object:
    return run.stdout, run.stderr, {name: file.content for name, file in run.files.items()}
