"""What is known of each tool fits together; a description that does not is found here, in no user's build."""

from __future__ import annotations

import itertools

import pytest
import tool_checks as check
from made_up_tool import TOOL

from hand_made_plans import LINK, PIPELINE, planned
from nvccache.plan import stage_key, stages
from nvccache.plan.stages.tool import TAGS, Grammar
from nvccache.store.store import Store
from nvccache.values import replace

# When this module is loaded: whoever adds a tool that is wrong sees no test pass.
assert not check.problems(stages.ALL), check.problems(stages.ALL)

WRONG = {
    "kind": ["", "two words", "we.ave", "We", stages.OPAQUE, None],
    "program": ["/usr/bin/weaver"],
    "variables": ["HOME", (b"HOME",), ("",)],
    "seconds_per_mib": [-1.0, 1, None, 2.0, float("nan")],
    "own_roles": ["cubin", (b"cubin",), ("",)],
    "memory_factor": [0, -64, 1.5, True, "64", None],
    "priority": [-1, "high", 1.5, True, None],
    "grammar_of": [None, lambda argv: None, lambda argv: Grammar("cicc"), lambda argv: "weave"],
    "key_components": [{tag: TOOL.grammar_of} for tag in sorted(TAGS)]
    + [{"": TOOL.grammar_of}, {"pattern": "text"}],
    "found_files": [None],
    "digest_of_named": ["blake3"],
    "lines_matter": [False],
    "names_directory": [True],
    "obstacle": [""],
    "added_options": [()],
    "is_heavy": ["no", None, 1],
    "complains": ["no"],
    "may_run_elsewhere": [True],
    "links_program": [True],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in WRONG.items() for value in values]
)
def test_a_wrong_description_is_found(field, value):
    assert check.problems((*stages.ALL, replace(TOOL, **{field: value})))


def test_a_right_one_is_not():
    assert check.problems((*stages.ALL, TOOL)) == []


@pytest.mark.parametrize("again", stages.ALL, ids=lambda tool: tool.kind)
def test_a_kind_twice_is_found(again):
    assert any("two" in problem for problem in check.problems((*stages.ALL, replace(TOOL, kind=again.kind))))
    assert any("two" in problem for problem in check.problems((*stages.ALL, again)))


def test_a_program_twice_is_found():
    assert check.problems((*stages.ALL, replace(TOOL, program="ptxas")))


def test_what_reads_a_host_compilers_line_knows_its_kinds():
    odd = replace(TOOL, program="", grammar_of=lambda argv: Grammar("unheard_of"))
    assert any("unheard_of" in problem for problem in check.problems((*stages.ALL, odd)))


def test_each_field_is_looked_at():
    """Flags by their first word: one that begins otherwise would not be."""
    looked_at = {*check._FUNCTIONS, "kind", "program", "memory_factor", "priority", "key_components"}
    looked_at |= {"own_roles", "variables", "seconds_per_mib"}
    looked_at |= {name for name in TOOL.__slots__ if name.startswith(check._FLAG) or name == "complains"}
    assert set(TOOL.__slots__) - looked_at == {"dated_sources"}


def test_every_kind_of_a_plan_is_known():
    plan = planned(*PIPELINE[:-1], PIPELINE[-1].replace('"a.o"', '"/s/a.o"'), LINK, argv="a.cu -o x")
    kinds = {stage.kind for stage in plan.stages}
    assert kinds == set(stages.TOOLS) - {"nvlink"}
    assert all(stage.tool.kind == stage.kind for stage in plan.stages)


def test_the_tags_that_are_taken_are_those_of_every_stage(tmp_path):
    """A component of a tool's own under one of them would be mistaken for another's."""
    found = set()
    for line, (sees_directory, sees_names) in itertools.product(
        PIPELINE, itertools.product((False, True), repeat=2)
    ):
        stage = next(one for one in planned(*PIPELINE).stages if one.argv[0] == line.split()[0])
        grammar = replace(stage.grammar, sees_directory=sees_directory, sees_names=sees_names)
        stage = replace(stage, grammar=grammar, argv=("/bin/true", *stage.argv[1:]), becomes=("/bin/cc",))
        components = stage_key.of_stage(
            stage, ["digest"], {}, "/", Store(str(tmp_path)), ["/bin/true"], ["/a.cu"]
        )
        found |= {tag for tag, _ in components}
    assert found == TAGS
