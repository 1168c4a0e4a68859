"""What an attempt at a call relies on to go faster, and what shows that the call has to begin again without.

What is relied on stands in a context (context.py):

    has_own_ids     each stage makes up the module id itself (module_id.py); refuted by a result that holds
                    another id than nvcc's
    ids_choice      which of two paths the module id is made of; refuted by the object
        SHARED      the relative path of the source, which all checkouts share, where the call is one for it
        OWN         nvcc's, since it had to be the last time
        SETTLED     nvcc's, whatever the object is like
    ignores_lines   results may come from text whose lines are elsewhere; refuted by a diagnostic, and where
                    the cache has lost one of them
    is_in_place     not set, so that the host compiler writes into the scratch directory (object_path.py);
                    refuted by what shows that the path of the object mattered
    plan            what wrappers of host compilers become (rehearsals.py); refuted by a run

Which path the object had to have is kept, so that the next compile of this source begins with it. What an
object gets in the end follows from the object alone.
"""

from __future__ import annotations

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
    """Something does not hold for this call: a sentence says what; `context` is that of the next attempt."""

    def __init__(self, sentence: str, context: Context) -> None:
        super().__init__(sentence)
        self.context = context


def first(context: Context) -> Context:
    """What a call begins with, as far as is known before a stage has run."""
    # Intermediates that are kept have to be nvcc's to the letter.
    is_free = not context.plan.keeps_intermediates
    return replace(
        context,
        has_own_ids=is_free,
        ids_choice=_first_choice(context),
        ignores_lines=is_free,
        is_in_place=object_path.is_in_place(context),
    )


def plan_of(context: Context) -> Plan:
    """The plan to carry out, which may differ from nvcc's own in ids and in where objects are written."""
    plan = ids.relative(context.plan, context.cwd) if context.ids_choice == SHARED else context.plan
    plan = object_path.plan_of(plan) if context.is_in_place else plan
    return ids.independent(plan) if context.has_own_ids else plan


def check(call: StagedCall, tasks: Tasks, task: Task) -> bool:
    """Raise BeginAgainError where what a stage has given refutes something that the attempt relies on.

    Whether that is all it can tell: the id that nvcc would have it read, if any, is known.
    """
    context, stage, made = call.context, task.stage, task.made
    original = call.module_ids.original_of(stage)
    # The stage that writes it has ended; on its thread it may be known before.
    is_id_settled = not original or tasks.is_done(original)
    if is_id_settled and call.module_ids.has_wrong_id(stage):
        context = replace(context, has_own_ids=False)
        raise BeginAgainError("the module ids differ: once more, in nvcc's way", context)
    if made and made.path_dependence:
        object_path.remember(stage, call.environ, call.store)
        if any(output.destination for output in stage.outputs):
            context = replace(context, is_in_place=True)
            raise BeginAgainError(f"{made.path_dependence}: once more, where nvcc has it write", context)
    elif made and not made.is_as_rehearsed:
        plan = rehearsals.without_rehearsal(context.plan, stage, context.environ, context.store)
        context = replace(context, plan=plan, is_in_place=True)
        raise BeginAgainError("a wrapper becomes another command: once more, not relying on it", context)
    if stage.tool.shows_lines and task.has_warned and any(other.is_moved for other in tasks.all):
        context = replace(context, ignores_lines=False)
        raise BeginAgainError("there are diagnostics: once more, with the lines as they are", context)
    if not task.has_failed and _is_of_other_path(call, stage, tasks.diagnostics()):
        context = replace(context, ids_choice=_other_choice(context))
        raise BeginAgainError("the module id does not suit the object: once more, with another", context)
    return is_id_settled


def instead_of(error: BaseException, call: StagedCall, tasks: Tasks) -> BaseException:
    """What to raise where an attempt has failed: a result that is lost may have been made from other lines.

    The run that is to make it again reads this call's, so it cannot give the same.
    """
    is_of_lines = isinstance(error, run_stage.LostResultError) and call.ignores_lines
    if not is_of_lines or not any(task.is_moved for task in tasks.all):
        return error
    context = replace(call.context, ignores_lines=False)
    return BeginAgainError(f"{error}: once more, with the lines as they are", context)


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
    """What a call goes on with when an object has shown that its choice was wrong."""
    was_shared = context.ids_choice == SHARED
    context.store.add_memo(_memo_key(context), OWN if was_shared else "")
    return SETTLED if was_shared else SHARED


def _is_of_other_path(call: StagedCall, stage: Stage, diagnostics: bytes) -> bool:
    """Whether what a stage has made is an object that ought to have the other id.

    `diagnostics` are those of all tools of the call: one names nvcc's id, or none.
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
