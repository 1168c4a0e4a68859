"""The description of each tool is consistent; errors are found here, not in a user's build."""

from __future__ import annotations

import itertools
import re

import pytest
from made_up_tool import TOOL

from hand_made_plans import LINK, PIPELINE, planned
from nvccache.plan import stage_key, stages
from nvccache.plan.stages.tool import Grammar
from nvccache.store.store import Store
from nvccache.values import replace

ALL = (*stages.ALL, TOOL)
# The tags of key components that do not depend on the tool, see stage_key.py.
TAGS = {"stage", "tool", "arguments", "inputs", "files", "module ids", "directory", "names", "dates"}
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
    assert all(WORD.fullmatch(tag) and tag not in TAGS for tag in tool.key_components)
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


def test_names_of_key_components_are_reserved_against_added_tools(tmp_path):
    """A tool's own component under one of them would be mistaken for another."""
    found = set()
    for line, (sees_directory, sees_names) in itertools.product(
        PIPELINE, itertools.product((False, True), repeat=2)
    ):
        stage = next(one for one in planned(*PIPELINE).stages if one.argv[0] == line.split()[0])
        grammar = replace(stage.grammar, sees_directory=sees_directory, sees_names=sees_names)
        stage = replace(stage, grammar=grammar, argv=("/bin/true", *stage.argv[1:]))
        components = stage_key.of_stage(
            stage, ["digest"], {}, "/", Store(str(tmp_path)), ["/bin/true"], ["/a.cu"]
        )
        found |= {tag for tag, _ in components}
    assert found == TAGS
