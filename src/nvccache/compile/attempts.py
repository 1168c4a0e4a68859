"""The assumptions that save time in an attempt at a call; one that is refuted makes the call begin again.

They are fields of the context (context.py):

    ignores_lines   results may come from text with other line numbers; refuted by a diagnostic, by a wrapper
                    that asks for debug information, and if the cache has lost one of these results
    is_in_place     if not set, the host compiler writes into the scratch directory (object_path.py); refuted
                    by signs that the path of the object mattered
"""

from __future__ import annotations

import os

from nvccache.execution import object_path, run_stage
from nvccache.execution.wrappers import PLACES
from nvccache.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.compile.tasks import Task, Tasks
    from nvccache.execution.context import Context
    from nvccache.execution.staged_call import StagedCall
    from nvccache.plan.model import Plan


class BeginAgainError(Exception):
    """An assumption is wrong, the message says which; `context` is for the next attempt."""

    def __init__(self, sentence: str, context: Context) -> None:
        super().__init__(sentence)
        self.context = context


def first(context: Context) -> Context:
    """The context of the first attempt."""
    return replace(context, ignores_lines=True, is_in_place=object_path.is_in_place(context))


def plan_of(context: Context) -> Plan:
    """The plan to carry out, which may differ from nvcc's own in the paths of objects."""
    return object_path.plan_of(context.plan) if context.is_in_place else context.plan


def check(call: StagedCall, tasks: Tasks, task: Task) -> None:
    """Raise BeginAgainError if the result of a stage refutes an assumption of the attempt."""
    context, stage, made = call.context, task.stage, task.made
    if made and made.path_dependence:
        object_path.remember(stage, call.environ, call.store)
        is_discarded = os.devnull in [output.destination for output in stage.outputs]
        if any(output.destination for output in stage.outputs) and not (is_discarded or context.is_in_place):
            context = replace(context, is_in_place=True)
            raise BeginAgainError(f"{made.path_dependence}: compiling again with nvcc's path", context)
    shows_lines = task.has_warned or PLACES in task.effects_of_wrapper
    if stage.tool.shows_lines and shows_lines and any(other.is_moved for other in tasks.all):
        context = replace(context, ignores_lines=False)
        why = "there are diagnostics" if task.has_warned else "a wrapper may have lines shown"
        raise BeginAgainError(f"{why}: compiling again with the right lines", context)


def error_to_raise(error: BaseException, call: StagedCall, tasks: Tasks) -> BaseException:
    """What to raise when an attempt has failed: BeginAgainError if a lost result was made from other lines.

    A new run reads this call's lines, so it cannot reproduce that result.
    """
    is_of_lines = isinstance(error, run_stage.LostResultError) and call.context.ignores_lines
    if not is_of_lines or not any(task.is_moved for task in tasks.all):
        return error
    context = replace(call.context, ignores_lines=False)
    return BeginAgainError(f"{error}: compiling again with the right lines", context)
