"""Every command line of the list does through nvccache what it does in plain nvcc, cold and warm.

Plain nvcc, nvccache cold, nvccache warm, and nvccache with the stages alone each start in the same
directory from the same files, and must leave and say the same: see bench.py.

Every fourth line is run, all of them with

    pytest --every-line tests/scenarios/test_command_lines.py
    NVCCACHE_TEST_NVCC=/path/to/nvcc     with another toolkit
    NVCCACHE_TEST_CCBIN=/path/to/g++     and host compiler
"""

from __future__ import annotations

import pytest

from nvccache import store
from scenarios.bench import Bench, Run, assert_same_files, assert_same_streams, release_of
from scenarios.command_lines import LINES, Line
from workspaces import Counters, Workspace


def _is_expected(bench: Bench, warm: str, plain: Run, counters: Counters) -> bool:
    """Whether the counters say what the list says of this line when the cache is warm."""
    if plain.status != 0 and warm in ("direct_hit", "stage_hit") and bench.release < (13, 0):
        # An older toolkit rejects the line, which shows in the dry run or in a stage.
        return counters.outcome == "failed" or "dryrun_failed" in counters.bypass_reasons
    outcome, _, reason = warm.partition(":")
    return counters.outcome == outcome and list(counters.bypass_reasons) == ([reason] if reason else [])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    lines = LINES if metafunc.config.getoption("--every-line") else LINES[::4]
    metafunc.parametrize("line", lines, ids=[line.name for line in lines])


def test_does_what_nvcc_does(line: Line, workspace: Workspace) -> None:
    release = release_of(workspace.nvcc)
    if release < line.since:
        pytest.skip(f"needs CUDA {line.since[0]}.{line.since[1]}, this is {release[0]}.{release[1]}")
    bench = Bench(line, workspace, release)
    plain = bench.plain()
    for expected in ("", bench.warm, "stage_hit"):
        if expected == "stage_hit":
            workspace.forget_calls()
        cached, counters = bench.cached()
        assert_same_streams(plain, cached, bench)
        assert_same_files(plain, cached, bench)
        is_cold = not (workspace.cache / store.STAGE).exists()  # nothing is stored: it will not get warmer
        if expected or is_cold:
            is_right = _is_expected(bench, expected or bench.warm, plain, counters)
            assert is_right, (expected, counters.calls, counters.bypass_reasons)
        if is_cold or (expected and bench.warm != "direct_hit"):
            break
