"""What the module ids of one call are made of."""

from __future__ import annotations

from types import SimpleNamespace

from nvccache import module_id as ids
from nvccache.execution.seeding import seed_of
from nvccache.plan.model import OPAQUE, Output, Plan, Stage
from nvccache.plan.stages.tool import Grammar


def stage(kind: str, writes: str, *options: str, stays_in_order: bool = False) -> Stage:
    grammar = Grammar(kind, stays_in_order=stays_in_order)
    return Stage(grammar, (kind, *options), (kind,), (), (Output(kind, writes),), (), (), ())


def test_a_seed_is_the_same_before_and_after_a_pass_that_runs_behind_what_stays_in_order():
    """No seed includes that text, whether or not it is known yet."""
    generating = stage("cudafe", "a.cudafe1.cpp", ids.GENERATE_OPTION)
    steps = (
        stage("host_preprocess", "a.cpp4.ii"),
        generating,
        stage(OPAQUE, "a.x", stays_in_order=True),
        stage("device_preprocess", "a.cpp1.ii"),
    )
    flows = {output.path: ("a.o",) for step in steps for output in step.outputs}
    meanings = {"a.cpp4.ii": "one"}
    workspace = SimpleNamespace(meaning_of=lambda path: meanings.get(path, ""))
    context = SimpleNamespace(plan=Plan(steps, {}, flows, "/s"), cwd="/p", environ={}, ids_choice="own")
    before = seed_of(context, generating, workspace)
    meanings["a.cpp1.ii"] = "two"
    assert seed_of(context, generating, workspace) == before
    meanings["a.cpp4.ii"] = "three"
    assert seed_of(context, generating, workspace) != before
