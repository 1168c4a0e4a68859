"""The assumptions that save time in an attempt at a call; one that is refuted makes the call begin again.

They are fields of the context (context.py):

    has_own_ids     each stage generates the module id itself (module_id.py); refuted by a result that
                    contains another id than nvcc's
    ids_choice      which path of the source the module id is made from; refuted by the object
        SHARED      the relative path, equal in all checkouts, if the call allows it
        OWN         the path as nvcc uses it, since this source needed it last time
        SETTLED     the path as nvcc uses it, whatever the object contains
    ignores_lines   results may come from text with other line numbers; refuted by a diagnostic, and if the
                    cache has lost one of these results
    is_in_place     if not set, the host compiler writes into the scratch directory (object_path.py); refuted
                    by signs that the path of the object mattered
    plan            the commands that wrappers of host compilers start (rehearsals.py); refuted by a run

The final choice of id is remembered, so that the next compile of the source begins with it. It affects only
the number of attempts: which id an object gets depends on the object alone.
"""

from __future__ import annotations

import os

from nvccache import module_id as ids
from nvccache.execution import object_path, rehearsals, run_stage, seeding
from nvccache.execution.context import OWN, SETTLED, SHARED
from nvccache.files import keys
from nvccache.module_id import ROLE
from nvccache.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.compile.tasks import Task, Tasks
    from nvccache.execution.context import Context
    from nvccache.execution.staged_call import StagedCall
    from nvccache.plan.model import Plan, Stage


class BeginAgainError(Exception):
    """An assumption is wrong, the message says which; `context` is for the next attempt."""

    def __init__(self, sentence: str, context: Context) -> None:
        super().__init__(sentence)
        self.context = context


def first(context: Context) -> Context:
    """The context of the first attempt."""
    # With -keep, intermediates have to equal nvcc's.
    is_free = not context.plan.keeps_intermediates
    return replace(
        context,
        has_own_ids=is_free,
        ids_choice=_first_choice(context),
        ignores_lines=is_free,
        is_in_place=object_path.is_in_place(context),
    )


def plan_of(context: Context) -> Plan:
    """The plan to carry out, which may differ from nvcc's own in module ids and paths of objects."""
    plan = ids.relative(context.plan, context.cwd) if context.ids_choice == SHARED else context.plan
    plan = object_path.plan_of(plan) if context.is_in_place else plan
    return ids.independent(plan) if context.has_own_ids else plan


def check(call: StagedCall, tasks: Tasks, task: Task) -> bool:
    """Raise BeginAgainError if the result of a stage refutes an assumption of the attempt.

    False if the stage has to be checked again, once the id that it would read under nvcc is known.
    """
    context, stage, made = call.context, task.stage, task.made
    original = call.module_ids.original_of(stage)
    # The workspace may know the id earlier, from the thread of the stage that writes it.
    is_id_settled = not original or tasks.is_done(original)
    if is_id_settled and call.module_ids.has_wrong_id(stage):
        context = replace(context, has_own_ids=False)
        raise BeginAgainError("the module ids differ: compiling again with nvcc's", context)
    if made and made.path_dependence:
        object_path.remember(stage, call.environ, call.store)
        is_discarded = os.devnull in [output.destination for output in stage.outputs]
        if any(output.destination for output in stage.outputs) and not (is_discarded or context.is_in_place):
            context = replace(context, is_in_place=True)
            raise BeginAgainError(f"{made.path_dependence}: compiling again with nvcc's path", context)
    elif made and not made.is_as_rehearsed:
        plan = rehearsals.without_rehearsal(context.plan, stage, context.environ, context.store)
        context = replace(context, plan=plan, is_in_place=True)
        raise BeginAgainError(
            "a wrapper starts another command: compiling again without its rehearsal", context
        )
    if stage.tool.shows_lines and task.has_warned and any(other.is_moved for other in tasks.all):
        context = replace(context, ignores_lines=False)
        raise BeginAgainError("there are diagnostics: compiling again with the right lines", context)
    if not task.has_failed and _needs_other_id(call, stage, tasks.diagnostics()):
        context = replace(context, ids_choice=_other_choice(context))
        raise BeginAgainError("the object needs the other module id: compiling again with it", context)
    return is_id_settled


def error_to_raise(error: BaseException, call: StagedCall, tasks: Tasks) -> BaseException:
    """What to raise when an attempt has failed: BeginAgainError if a lost result was made from other lines.

    A new run reads this call's lines, so it cannot reproduce that result.
    """
    is_of_lines = isinstance(error, run_stage.LostResultError) and call.ignores_lines
    if not is_of_lines or not any(task.is_moved for task in tasks.all):
        return error
    context = replace(call.context, ignores_lines=False)
    return BeginAgainError(f"{error}: compiling again with the right lines", context)


def _first_choice(context: Context) -> str:
    plan = context.plan
    pwd = context.environ.get("PWD", context.cwd)
    if plan.keeps_intermediates or not ids.may_be_relative(plan, context.base, context.cwd, pwd):
        return SETTLED
    passes = [stage for stage in plan.stages if stage.is_preprocessor]
    if not any(ids.takes_seed(ids.toolkit_version(stage.argv)) for stage in passes):
        return SETTLED  # toolkits whose objects show an id to other libraries
    return OWN if context.store.find_memo(_memo_key(context)) == OWN else SHARED


def _other_choice(context: Context) -> str:
    """The choice of the next attempt, when an object has shown that this one is wrong."""
    was_shared = context.ids_choice == SHARED
    context.store.add_memo(_memo_key(context), OWN if was_shared else "")
    return SETTLED if was_shared else SHARED


def _needs_other_id(call: StagedCall, stage: Stage, diagnostics: bytes) -> bool:
    """Whether a stage has made an object that should have the other id.

    `diagnostics` are those of all tools of the call; if they contain nvcc's id, it cannot be shared.
    """
    objects = [output for output in ids.objects_of(call.plan) if output in stage.outputs]
    generating = ids.generating_stage(call.context.plan)
    if call.context.ids_choice == SETTLED or not objects or generating is None:
        return False
    output = generating.output(ROLE)
    assert output is not None
    identifier = call.workspace.as_read(output.path) or b""
    image = run_stage.content_of(call, objects[0])
    is_seeded = ids.depends_on_seed(identifier, call.module_ids.seed_of(generating))
    is_shareable = ids.head_of(identifier) not in diagnostics and ids.may_share_id(
        image, identifier, is_seeded=is_seeded
    )
    return is_shareable != (call.context.ids_choice == SHARED)


def _memo_key(context: Context) -> str:
    generating = ids.generating_stage(context.plan)
    assert generating is not None
    own = replace(context, ids_choice=OWN)
    return keys.key_of("shared id", [("unit", (seeding.seed_of(own, generating).text,))])
