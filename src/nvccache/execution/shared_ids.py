"""Which of two paths the module id of a call is made of: nvcc's, or one that all checkouts share.

    SHARED    the way to the source, where the call is one for it (module_id.py)
    OWN       nvcc's, since it had to be the last time
    SETTLED   nvcc's, whatever the object is like

The object shows whether it has the right one of the first two; if not, the call begins again with the other,
and that is kept, so that the next compile of this source begins with it. What an object gets in the end
follows from the object alone.
"""

from __future__ import annotations

from nvccache import module_id as ids
from nvccache.execution import run_stage, seeding
from nvccache.files import keys
from nvccache.module_id import ROLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.execution.staged_call import Context, StagedCall
    from nvccache.plan.model import Plan, Stage

SHARED, OWN, SETTLED = "shared", "own", "settled"


def first_choice(context: Context) -> str:
    """What a call begins with, as far as is known before a stage has run."""
    plan = context.plan
    pwd = context.environ.get("PWD", context.cwd)
    if plan.keeps_intermediates or not ids.may_be_relative(plan, context.base, context.cwd, pwd):
        return SETTLED
    passes = [stage for stage in plan.stages if stage.is_preprocessor]
    if not any(ids.takes_seed(ids.toolkit_version(stage.argv)) for stage in passes):
        return SETTLED  # toolkits whose objects show an id to other libraries
    return OWN if context.store.find_memo(_memo_key(context)) == OWN else SHARED


def other_choice(context: Context, refuted: str) -> str:
    """What a call goes on with when an object has shown that the first choice was wrong."""
    context.store.add_memo(_memo_key(context), OWN if refuted == SHARED else "")
    return SETTLED if refuted == SHARED else SHARED


def plan_of(context: Context, choice: str) -> Plan:
    return ids.relative(context.plan, context.cwd) if choice == SHARED else context.plan


def is_refuted(call: StagedCall, stage: Stage, said: bytes) -> bool:
    """Whether what a stage has made is an object that ought to have the other id.

    `said` is what the tools of the call have said: a message names nvcc's id, or none.
    """
    objects = [output for output in ids.objects_of(call.plan) if output in stage.outputs]
    generating = ids.generating_stage(call.context.plan)
    if call.ids_choice == SETTLED or not objects or generating is None:
        return False
    output = generating.output(ROLE)
    assert output is not None
    identifier = call.workspace.as_read(output.path) or b""
    if ids.depends_on_seed(identifier, call.module_ids.seed_of(generating)):
        return False  # the seed tells where the source is, and no checkout shares what holds that
    image = run_stage.content_of(call, objects[0])
    is_shareable = ids.head_of(identifier) not in said and ids.are_told_apart(image, identifier)
    return is_shareable != (call.ids_choice == SHARED)


def _memo_key(context: Context) -> str:
    generating = ids.generating_stage(context.plan)
    assert generating is not None
    seed = seeding.seed_of(context, generating)
    return keys.key_of("shared id", [("unit", (seed.text,))])
