"""The description of each tool is consistent; errors are found here, not in a user's build."""

from __future__ import annotations

import re

import pytest
from made_up_tool import TOOL

from hand_made_plans import LINK, PIPELINE, planned
from nvccache.plan import stages
from nvccache.plan.stages.tool import Grammar

ALL = (*stages.ALL, TOOL)
WORD = re.compile(r"[a-z][a-z0-9_]*")  # as written to the event log, where a tab or a dot would split it


def test_tools_have_distinct_kinds_and_programs():
    for named in ([tool.kind for tool in ALL], [tool.program for tool in ALL if tool.program]):
        assert len(named) == len(set(named))


@pytest.mark.parametrize("tool", ALL, ids=lambda tool: tool.kind)
def test_each_description_of_a_cuda_tool_is_consistent(tool):
    assert WORD.fullmatch(tool.kind) and tool.kind != stages.OPAQUE
    assert "/" not in tool.program
    assert tool.memory_factor >= 1 and tool.priority >= 0
    assert all(tool.variables)
    grammar = tool.grammar_of((tool.program or "c++",))
    assert isinstance(grammar, Grammar) if tool.program else grammar is None
    assert not grammar or grammar.kind == tool.kind
    assert tool.is_located_anywhere or not tool.may_run_elsewhere, "where it lies counts"
    assert not (tool.is_preprocessor and tool.is_found_by_meaning), "which is that of what it makes itself"
    assert not (tool.kind == "host_link" and tool.is_counted), "it runs each time, and would count as a miss"


def test_every_stage_of_a_full_compile_has_a_described_tool():
    plan = planned(*PIPELINE[:-1], PIPELINE[-1].replace('"a.o"', '"/s/a.o"'), LINK, argv="a.cu -o x")
    kinds = {stage.kind for stage in plan.stages}
    assert kinds == set(stages.TOOLS) - {"nvlink"}
    assert all(stage.tool.kind == stage.kind for stage in plan.stages)
