"""Every command line of the list does through nvccache what it does in plain nvcc: cold, warm and edited.

Plain nvcc, nvccache cold, nvccache warm, and nvccache with the stages alone each start in the same
directory from the same files; then nvccache again after a comment was added to a source, and both after its
code was changed. Compared are the exit status, standard output, standard error, and the files
afterwards: which there are, their modes, links, contents, and whether they were written at all. What plain
nvcc makes differently on every run, since it names its temporary files in it, is compared with `nvcc -keep`,
which does not.

By default run those lines that command_lines.py names, most of them with next to no CUDA headers, and a few
are edited. All of them, with all headers, and edited:

    pytest --every-case tests/scenarios/same_result/test_command_lines.py
    NVCCACHE_TEST_NVCC=/path/to/nvcc     with another toolkit
    NVCCACHE_TEST_CCBIN=/path/to/g++     and host compiler
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import stored_records
from scenarios.same_result.bench import LISTED, Bench, Run, release_of
from scenarios.same_result.command_lines import BY_DEFAULT, EDITED_BY_DEFAULT, LINES, WITH_CUDA_HEADERS
from scenarios.same_result.lines.line import Line
from scenarios.same_result.sameness import assert_same_files, assert_same_streams
from scenarios.support.sources import with_change, with_comment
from scenarios.support.toolkits import with_real_headers
from workspaces import Counters, Workspace

pytestmark = pytest.mark.light_by_default
# Options with which a comment shows in what is made: in the date or length of a source, or in its text.
_SHOWING = re.compile(r"-g\d?\b|-G\b|line-?info|keep|save-temps")


def _is_expected(bench: Bench, warm: str, plain: Run, counters: Counters) -> bool:
    """Whether the counters say what the list says of this line when the cache is warm."""
    if plain.status != 0 and warm in ("direct_hit", "stage_hit") and bench.release < (13, 0):
        # An older toolkit rejects the line, which shows in the dry run or in a stage.
        return counters.outcome == "failed" or "dryrun_failed" in counters.bypass_reasons
    outcome, _, reason = warm.partition(":")
    return counters.outcome == outcome and list(counters.bypass_reasons) == ([reason] if reason else [])


def _outcome(counters: Counters) -> str:
    return ":".join([counters.outcome, *counters.bypass_reasons])


class Comparison:
    """The runs of one line through nvccache, each compared with plain nvcc."""

    def __init__(self, bench: Bench, record: Callable[[str, object], None]) -> None:
        self.bench = bench
        self.record = record
        self.plain = bench.plain()

    def cached(self, step: str) -> Counters:
        """One run, which has to be like the plain one; its outcome is recorded under the step."""
        cached, counters = self.bench.cached()
        self.record(step, _outcome(counters))
        try:
            assert_same_streams(self.plain, cached, self.bench)
            assert_same_files(self.plain, cached, self.bench)
        except AssertionError as difference:
            raise AssertionError(self.bench.described(f"{step}: {difference}")) from None
        return counters

    def unedited(self) -> bool:
        """Compare cold, warm and with the stages alone; whether there is more to see when edited."""
        workspace, warm = self.bench.workspace, self.bench.warm
        for step, expected in (("cold", ""), ("warm", warm), ("stages", "stage_hit")):
            if step == "stages":
                workspace.forget_calls()
            counters = self.cached(step)
            # If nothing is stored, it will not get warmer.
            is_cold = not any(
                map(stored_records.is_of_stage, stored_records.bodies_of(workspace.cache).values())
            )
            if expected or is_cold:
                wanted = expected or warm
                is_right = _is_expected(self.bench, wanted, self.plain, counters)
                assert is_right, f"{step}: {_outcome(counters)}, {LISTED} {wanted}"
            if is_cold:
                return False
            if step == "warm" and warm != "direct_hit":
                break
        return not warm.startswith("bypass:")

    def edited(self) -> None:
        line = self.bench.line
        self.bench.edit(with_comment)
        is_ptx = line.edited_file.endswith(".ptx")  # which containers hold as it is
        if (
            is_ptx
            or "$NVCC" in line.prepare
            or _SHOWING.search(f"{line.command} {line.environ} {line.files}")
        ):
            self.plain = self.bench.plain()
        else:  # The comment makes no difference to it.
            source = self.plain.files[line.edited_file]
            if not source.is_written:
                content = (self.bench.pristine / line.edited_file).read_bytes()
                self.plain.files[line.edited_file] = dataclasses.replace(source, content=content)
        is_host_code = line.edited_file.endswith((".c", ".cpp"))  # of one stage, which reads comments
        outcomes = ("partial_hit", "stage_hit", "direct_hit", *["miss"] * (is_ptx or is_host_code))
        self._assert_one_of(self.cached("comment"), *outcomes)
        self.bench.edit(with_change)
        self.plain = self.bench.plain()
        self._assert_one_of(self.cached("change"), "partial_hit", "miss", *["stage_hit"] * is_host_code)

    def _assert_one_of(self, counters: Counters, *outcomes: str) -> None:
        if self.plain.status:
            outcomes = ("failed",)
        elif self.bench.warm == "miss":
            outcomes += ("miss",)
        assert counters.outcome in outcomes, f"{_outcome(counters)}, {LISTED} {outcomes}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "line" in metafunc.fixturenames:
        metafunc.parametrize("line", LINES, ids=[line.name for line in LINES])


@pytest.mark.by_default(
    *BY_DEFAULT, smoke={"line_info": "compile", "same_base_name": "bypass", "device_error": "failure"}
)
def test_each_command_line_gives_the_result_of_nvcc(
    line: Line,
    request: pytest.FixtureRequest,
    workspace: Workspace,
    real_nvcc: str,
    record_property: Callable[[str, object], None],
) -> None:
    release = release_of(workspace.nvcc)
    missing = line.missing_in(release, Path(workspace.nvcc).parents[1])
    if missing:
        pytest.skip(missing)
    if line.needs_cuda_headers or line.name in WITH_CUDA_HEADERS:
        workspace = with_real_headers(workspace, real_nvcc)
    comparison = Comparison(Bench(line, workspace, release), record_property)
    is_edited = line.name in EDITED_BY_DEFAULT or request.config.getoption("--every-case")
    if comparison.unedited() and is_edited and line.edited_file:
        comparison.edited()
