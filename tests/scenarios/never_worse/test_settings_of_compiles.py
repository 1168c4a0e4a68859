"""Settings in compiles by the real nvcc: wrong ones, no home directory.

Strict mode is on: a setting that is wrong is no fault of ours.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from scenarios.never_worse.primed_cache import check_compiles
from scenarios.support.toolkits import SOURCE
from workspaces import Result, Workspace

pytestmark = pytest.mark.light_by_default

# nvccache as a user without an entry in the user database.
HOMELESS = """
import pwd, sys
def unknown(uid):
    raise KeyError(uid)
pwd.getpwuid = unknown
sys.argv[0] = "nvccache"
from nvccache.entry_point import main
sys.exit(main())
"""


def command(workspace: Workspace, *argv: str, **variables: str) -> Result:
    return workspace.run([sys.executable, "-m", "nvccache", *argv], **variables)


def test_a_wrong_setting_is_logged_and_costs_a_compile_nothing(primed: tuple[Workspace, bytes]) -> None:
    workspace, expected = primed
    log = workspace.directory / "log"
    path = Path(workspace.environ["HOME"]) / ".config" / "nvccache" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("max_size = \nreadonly = true\n")
    try:
        check_compiles(workspace, expected, NVCCACHE_MAX_SIZE="ten", NVCCACHE_LOG=str(log))
    finally:
        path.unlink()
    text = log.read_text()
    log.unlink()
    assert "wrong setting: `NVCCACHE_MAX_SIZE`" in text and f"`{path}` cannot be read: not valid TOML" in text


def test_a_size_limit_of_zero_means_no_limit(workspace: Workspace) -> None:
    workspace.write("a.cu", SOURCE)
    for outcome in ("miss", "direct_hit"):
        result, counters = workspace.since(
            lambda: workspace.cached("-cubin", "a.cu", "-o", "a.cubin", NVCCACHE_MAX_SIZE="0")
        )
        assert (result.status, result.stderr, counters.outcome) == (0, b"", outcome)


def test_without_a_home_directory_nvcc_runs_and_nothing_is_made(workspace: Workspace) -> None:
    workspace.write("a.cu", SOURCE)
    del workspace.environ["NVCCACHE_DIR"], workspace.environ["HOME"]
    line = [sys.executable, "-c", HOMELESS, workspace.nvcc, "-ptx", "a.cu", "-o", "a.ptx"]
    done = workspace.run(line)
    assert (done.status, done.stdout, done.stderr) == (0, b"", b"")
    assert sorted(os.listdir(workspace.directory)) == ["a.cu", "a.ptx"]


def test_other_compilers_are_passed_through_and_counted(workspace: Workspace) -> None:
    """As CMake does with CMAKE_CXX_COMPILER_LAUNCHER."""
    workspace.write("a.cpp", "int a() { return 1; }\n")
    line = ["-c", "a.cpp", "-o", "a.o"]
    plain = workspace.run(["g++", *line])
    expected = (workspace.directory / "a.o").read_bytes()
    (workspace.directory / "a.o").unlink()
    result, counters = workspace.since(lambda: command(workspace, "g++", *line))
    assert (result.status, result.stdout, result.stderr) == (plain.status, plain.stdout, plain.stderr)
    assert (workspace.directory / "a.o").read_bytes() == expected
    assert (counters.outcome, counters.bypass_reasons) == ("bypass", {"not_nvcc": 1})
    assert b"the launched command is not an nvcc" in command(workspace, "explain", "a.o").stdout
