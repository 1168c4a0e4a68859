"""Random command lines, not compiled: nvccache's plan of each, compared with plain nvcc's own dry run.

The lines come from tests/generator, as do the claims that are checked: nothing that nvcc rejects has a plan,
a plan is nvcc's commands in their order, its products are the files that they write, the parsed
call agrees with them, and lines that one record would answer have the same commands.

30 seeds of three lines each are checked by default, and 1500 with --every-case:

    pytest --every-case tests/scenarios/same_result/test_random_lines.py
    NVCCACHE_TEST_SEED=7        the lines of another seed
    NVCCACHE_TEST_SEED=7:123    one line of it, as a failure names it
    NVCCACHE_TEST_NVCC=/path/to/nvcc, NVCCACHE_TEST_CCBIN=/path/to/g++     with another toolkit
"""

from __future__ import annotations

import collections
import traceback

import pytest

from generator import values
from generator.claims import SCRATCH, Site, examine, violations
from generator.lines import RandomLine, make, seeds, variants
from generator.records import Records
from scenarios.same_result.bench import release_of
from scenarios.support.sources import SOURCES
from workspaces import Workspace

_SHOWN = 10


@pytest.fixture
def site(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A directory with everything that random lines name; only option files are read in a dry run."""
    directory, temporary = workspace.directory, workspace.directory.parent / "temporary"
    for name in SOURCES:
        workspace.write(name, SOURCES[name])
    for name in ("empty.txt", "one.o", "two.o", "libtwo.a", "x.cubin", "x.so", *values.COPIES):
        workspace.write(name, "")
    for path in (directory / "out", directory / "dir.cu", temporary / SCRATCH):
        path.mkdir(parents=True)
    monkeypatch.chdir(directory)
    return Site(workspace.nvcc, release_of(workspace.nvcc), directory, temporary, workspace.environ)


def test_plans_of_random_command_lines_match_nvccs_dry_run(
    site: Site, request: pytest.FixtureRequest
) -> None:
    count = 1500 if request.config.getoption("--every-case") else 30
    records = Records(site)
    ends: collections.Counter[str] = collections.Counter()
    wrong: list[str] = []
    chosen = seeds(count)
    for seed in chosen:
        line = make(seed)
        for each in (line, *variants(line)):
            end, found = _look_at(each, site, records)
            ends[end] += 1
            if found:
                wrong.append("\n".join([str(each), *found]))
    assert not wrong, f"{len(wrong)} lines, of them:\n" + "\n\n".join(wrong[:_SHOWN])
    if len(chosen) > 1:
        # A generator whose lines nvcc rejects, or that never share a key, would test nothing.
        assert ends["plan"] > sum(ends.values()) / 4, ends
        assert records.shared > len(chosen) / 20


def _look_at(line: RandomLine, site: Site, records: Records) -> tuple[str, list[str]]:
    """What becomes of a line, and what is wrong with that."""
    try:
        case = examine(line, site)
        return case.end, violations(case, site) + records.violations(case)
    except Exception:  # a fault of ours for one line; the others are still checked
        return "fault", [traceback.format_exc()]


def test_random_command_lines_write_no_files_outside_their_directory() -> None:
    """Lines are compiled, too: what they write must stay in their directory."""
    for number in range(1000):
        for word in make(f"6:{number}").arguments:
            assert not word.rpartition("=")[2].startswith("/")
