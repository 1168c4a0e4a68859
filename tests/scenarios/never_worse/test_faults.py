"""Bad input, a cache that cannot be used, and damage: the compile behaves as plain nvcc's does.

Strict mode is on unless a test turns it off, so that problems of the cache are not mistaken for
faults of ours. Damage is in test_faults_damage.py; processes, signals and streams are in
test_faults_processes.py.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scenarios.never_worse.primed_cache import check_compiles, compile_cached, compile_plain
from scenarios.support.at_once import small_file_system
from scenarios.support.both_ways import twice_like_plain, visible_result
from scenarios.support.toolkits import HOST_OPTIONS, SOURCE
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

# What is compiled, and further options.
BAD_INPUT = {
    "missing header": ('#include "absent.h"\n',),
    "error of ptxas": ('__global__ void kernel() { asm volatile("no.such.instruction;"); }\n',),
    "unknown option": (SOURCE, "--no-such-option"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_compile_errors_are_reported_as_by_nvcc_and_not_recorded(workspace: Workspace, case: str) -> None:
    """Once cold, and once more: a failure is not recorded."""
    text, *options = BAD_INPUT[case]
    workspace.write("a.cu", text)
    workspace.write("a.o", "made earlier")
    line = ("-MD", *options)
    result, _ = twice_like_plain(
        workspace, lambda: compile_plain(workspace, *line), lambda: compile_cached(workspace, *line)
    )
    assert result.status != 0
    assert workspace.counters().calls["fault"] == 0


def test_unwritable_outputs_fail_as_with_nvcc(primed: tuple[Workspace, bytes]) -> None:
    workspace, _ = primed
    (workspace.directory / "directory").mkdir(exist_ok=True)
    full = workspace.directory / "full.cubin"
    full.symlink_to("/dev/full")
    for line in ("-c -o directory", "-c -o a.o -MD -MF absent/a.d", "-cubin -o full.cubin"):
        argv = (*line.split(), "a.cu", *HOST_OPTIONS)
        plain, cached = workspace.plain(*argv), workspace.cached(*argv)
        assert plain.status != 0
        assert visible_result(cached) == visible_result(plain)
    assert full.is_symlink()
    full.unlink()


@contextlib.contextmanager
def read_only(cache: Path) -> Iterator[None]:
    """Root may write whatever the modes say, but not what is immutable."""
    cache.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        subprocess.run(["chmod", "-R", "a-w", cache], check=True)
        yield
        subprocess.run(["chmod", "-R", "u+w", cache], check=True)
        return
    if not shutil.which("chattr") or subprocess.run(["chattr", "-R", "+i", cache], check=False).returncode:
        pytest.skip("neither an ordinary user nor a file system that knows immutable files")
    yield
    subprocess.run(["chattr", "-R", "-i", cache], check=True)


@contextlib.contextmanager
def full(cache: Path) -> Iterator[None]:
    cache.mkdir(parents=True, exist_ok=True)
    with small_file_system(cache, "64k"):
        yield


Place = Callable[[Path], contextlib.AbstractContextManager[None]]


def test_a_file_in_the_place_of_the_cache_leaves_the_compile_to_nvcc(
    primed: tuple[Workspace, bytes], tmp_path: Path
) -> None:
    workspace, _ = primed
    file, log = tmp_path / "file", tmp_path / "log"
    file.write_text("a file")
    result = compile_cached(workspace, NVCCACHE_DIR=str(file), NVCCACHE_LOG=str(log))
    assert (result.status, result.stdout, result.stderr) == (0, b"", b"")
    assert (workspace.directory / "a.o").exists() and file.read_text() == "a file"
    assert "bypass unusable_cache" in log.read_text()


@pytest.mark.parametrize("place", [read_only, full])
def test_an_unusable_cache_directory_disturbs_no_compile(
    primed: tuple[Workspace, bytes], tmp_path: Path, place: Place
) -> None:
    # A source that has been compiled, and the object that plain nvcc makes of it.
    workspace, expected = primed
    shutil.rmtree(workspace.cache)
    workspace.environ["NVCCACHE_DIR"] = str(tmp_path / "further" / "cache")
    # The fault is a context manager, so that it does not outlive the test.
    with place(workspace.cache):
        # Status 0, no message on any stream, and that object: a user must not notice.
        check_compiles(workspace, expected)


def test_a_cache_that_became_read_only_still_gives_hits(primed: tuple[Workspace, bytes]) -> None:
    workspace, expected = primed
    log = workspace.directory / "log"
    for served in ("direct hit", "host_compile a.o: hit"):
        with read_only(workspace.cache):
            check_compiles(workspace, expected, NVCCACHE_LOG=str(log))
        assert served in log.read_text() and " ran " not in log.read_text()
        log.unlink()
        workspace.forget_calls()


def test_a_readonly_call_writes_and_counts_nothing(primed: tuple[Workspace, bytes]) -> None:
    workspace, expected = primed
    totals = workspace.counters().calls
    for _ in ("direct", "stages"):
        check_compiles(workspace, expected, NVCCACHE_READONLY="1")
        workspace.forget_calls()
    assert workspace.counters().calls == totals
    shutil.rmtree(workspace.cache)
    check_compiles(workspace, expected, NVCCACHE_READONLY="1")
    assert not workspace.cache.exists()


def test_after_an_internal_error_the_real_nvcc_compiles(workspace: Workspace, tmp_path: Path) -> None:
    """nvcc runs, with every product and no message of ours; the fault is counted and logged."""
    workspace.write("a.cu", SOURCE)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "zstandard.py").write_text("raise RuntimeError('injected')\n")
    log = workspace.directory / "log"
    variables = {"PYTHONPATH": str(broken), "NVCCACHE_LOG": str(log)}
    result, counters = workspace.since(lambda: compile_cached(workspace, NVCCACHE_STRICT="0", **variables))
    assert (result.status, result.stdout, result.stderr) == (0, b"", b"")
    assert (workspace.directory / "a.o").exists()
    assert counters.outcome == "fault"
    assert "injected" in log.read_text()
    strict = compile_cached(workspace, **variables)
    assert strict.status == 1 and b"injected" in strict.stderr


@pytest.mark.parametrize("name", ["absent", "with$dollar"])
def test_an_odd_or_missing_tmpdir_gives_the_result_of_nvcc(
    workspace: Workspace, tmp_path: Path, name: str
) -> None:
    workspace.write("a.cu", SOURCE)
    folder = tmp_path / name
    if name != "absent":
        folder.mkdir()
    variables = {"TMPDIR": str(folder), "NVCCACHE_STRICT": "0"}
    plain = compile_plain(workspace, **variables)
    (workspace.directory / "a.o").unlink(missing_ok=True)
    cached = compile_cached(workspace, **variables)
    assert visible_result(cached) == visible_result(plain)
    assert (workspace.directory / "a.o").exists() == (plain.status == 0)
    assert not list(folder.glob("nvccache*"))
