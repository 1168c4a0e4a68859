"""A new tool is one file and one line: no other part of nvccache names tools."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from made_up_tool import TOOL

from hand_made_plans import DEVICE, HOST, planned
from nvccache.machine import slots
from nvccache.plan import stages
from nvccache.plan.model import Plan
from nvccache.run.schedule import Schedule
from nvccache.run.stage_run import StageRun
from nvccache.store import event_totals
from nvccache.values import replace
from scripted_toolkit import write_nvcc
from stages_of_nothing import FakeSlots
from workspaces import Result, Workspace

WEAVE = 'weaver --tight "/s/a.cpp1.ii" -o "a.cubin"'
LINES = (DEVICE, WEAVE)
ARGV = "-cubin a.cu -o a.cubin"
# A release that has it. The real one makes nothing: calls left to nvcc fail.
NVCC = """#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = -keep-dir ] && directory=$2; shift; done
[ "$directory" ] || exit 9
cat >&2 <<END
#$ gcc -D__CUDA_ARCH__=800 -D__CUDA_ARCH_LIST__=800 -E -x c++ "a.cu" -o "$directory/a.cpp1.ii"
#$ weaver "$directory/a.cpp1.ii" -o "a.cubin"
END
"""
WEAVER = '#!/bin/sh\n[ "$BROKEN" ] && { echo tangled >&2; exit 3; }\ncat "$WEAVER_PATTERN" "$1" >"$3"\n'
# The line by which it would be added, here from outside.
WITH_TOOL = f"""
import sys
sys.path.append({str(Path(__file__).parent)!r})
import made_up_tool
from nvccache import entry_point
from nvccache.plan import stages
stages.TOOLS["weave"] = made_up_tool.TOOL
sys.exit(entry_point.main())
"""


@pytest.fixture
def added(monkeypatch):
    monkeypatch.setitem(stages.TOOLS, TOOL.kind, TOOL)


@pytest.fixture
def place(workspace: Workspace) -> Workspace:
    workspace.write("bin/weaver", WEAVER).chmod(0o755)
    write_nvcc(workspace.directory / "bin" / "nvcc", NVCC)
    workspace.environ["PATH"] = f"{workspace.directory}/bin:{workspace.environ['PATH']}"
    workspace.environ["WEAVER_PATTERN"] = str(workspace.write("pattern", "plain\n"))
    workspace.write("a.cu", "int thread;\n")
    return workspace


def schedule_of(plan: Plan) -> Schedule:
    runs = [StageRun(at, stage) for at, stage in enumerate(plan.stages)]
    call = SimpleNamespace(plan=plan, runs=runs, read_by=lambda stage: (), input_bytes=lambda stage: 7)
    return Schedule(call, FakeSlots(1), None)


def woven(place: Workspace, **variables: str) -> tuple[Result, dict[str, int]]:
    """A call's result, by its stages unless recorded, and the result of the stage."""
    place.forget_calls()
    (place.directory / "a.cubin").unlink(missing_ok=True)
    time.sleep(0.1)
    event_totals.reset(str(place.cache))
    nvcc = place.directory / "bin" / "nvcc"
    done = place.run([sys.executable, "-c", WITH_TOOL, nvcc, *ARGV.split()], **variables)
    counted = event_totals.read(str(place.cache), stages.counted())["stages"][TOOL.kind]
    return done, {result: counted[result] for result in ("hit", "miss")}


def test_a_command_of_an_added_tool_becomes_a_stage(added):
    stage = planned(*LINES, argv=ARGV).stages[-1]
    assert stage.kind == "weave" and stage.tool is TOOL
    assert stage.key_argv == ("--tight", "<input>", "-o", "<woven>")
    assert [output.destination for output in stage.outputs] == ["a.cubin"]
    assert not stage.lines_matter and not stage.is_preprocessor


@pytest.mark.parametrize(("starts_in_reverse", "order"), [(True, [3, 2, 0, 1]), (False, [2, 3, 0, 1])])
def test_an_added_tool_declares_how_early_its_stages_start(monkeypatch, starts_in_reverse, order):
    monkeypatch.setitem(stages.TOOLS, TOOL.kind, replace(TOOL, starts_in_reverse=starts_in_reverse))
    plan = planned(HOST, *LINES, argv=ARGV)
    plan = replace(plan, steps=(*plan.steps, plan.steps[-1]))
    assert [run.number for run in schedule_of(plan).by_urgency] == order


def test_an_added_tool_declares_how_much_memory_its_stage_needs(added, monkeypatch):
    wanted = []
    monkeypatch.setattr(slots, "memory_of", lambda *amounts, **kinds: wanted.append((amounts, kinds)) or 0)
    schedule = schedule_of(planned(*LINES, argv=ARGV))
    schedule._take_slot(schedule._call.runs[-1])
    assert wanted == [((5000, 7), {"is_heavy": True})]


def test_results_of_an_added_tool_are_reused_until_a_file_that_it_read_changes(added, place):
    results = []
    for pattern in ("plain\n", "plain\n", "twill\n"):
        if (place.directory / "pattern").read_text() != pattern:
            place.write(
                "pattern", pattern
            )  # its status matters to `cat`, a program of which nothing is known
        done, counted = woven(place)
        assert (done.status, done.stderr) == (0, b"")
        product = (place.directory / "a.cubin").read_text()
        assert product.startswith(pattern) and "int thread;" in product
        results.append(counted)
    hit, miss = {"hit": 1, "miss": 0}, {"hit": 0, "miss": 1}
    assert results == [miss, hit, miss]
