"""Plans in which no stage waits for the module id: each that needs it makes it up itself.

nvcc lets one stage write the id (cudafe++, on 11.x a cicc, with `-cubin` the first cicc) and the others read
it, so that cicc waits for cudafe++. Every one of these tools takes the option that nvcc gives the first of
them, and makes up the same id from the same source: from the path and the first external definition, or
from the seed where there is none (CUDA 11.8 to 13.5, found by comparing ids, PTX and stubs). Where the
passes differ in their first external definition the ids do too, and so they do in units without external
definition on toolkits that take no seed. Therefore a stage that runs before nvcc's id is known guesses, and
one that runs later is told it (execution/seeding.py).
"""

from __future__ import annotations

from nvccache.module_id import ids
from nvccache.plan.model import OPAQUE, DependencyFile, Output, Plan, Stage
from nvccache.plan.stages import grammar_of
from nvccache.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

ROLE = "module_id"
_NAME_OPTION = "--module_id_file_name"


def independent(plan: Plan) -> Plan:
    """The plan with an id of its own for each stage that reads one.

    `Plan.own_ids` tells which file would have been read in the place of which. Ids that a command that is
    not understood may have written are read as nvcc has it.
    """
    if any(stage.kind == OPAQUE for stage in plan.stages):
        return plan
    steps: list[Stage | DependencyFile] = []
    own_ids: dict[str, str] = {}
    for number, step in enumerate(plan.steps):
        original = _id_read_by(step) if isinstance(step, Stage) else ""
        if isinstance(step, Stage) and original:
            own = f"{original}.{number}"
            own_ids[own] = original
            steps.append(_making_own(step, original, own))
        else:
            steps.append(step)
    return replace(plan, steps=tuple(steps), own_ids=own_ids)


def _id_read_by(stage: Stage) -> str:
    """The file that a stage reads the id from, or empty."""
    argv = stage.argv
    if _NAME_OPTION not in argv or ids.generates(stage):
        return ""
    path = argv[argv.index(_NAME_OPTION) + 1]
    return path if path in stage.inputs else ""


def _making_own(stage: Stage, original: str, own: str) -> Stage:
    argv = _generating(stage.argv, own)
    # Its words for the key do not tell where the source is: seeding.py adds that where the id is in a result.
    grammar = replace(grammar_of(argv) or stage.grammar, ignored=stage.grammar.ignored)
    return replace(
        stage,
        grammar=grammar,
        argv=argv,
        key_argv=_generating(stage.key_argv, f"<{ROLE}>"),
        inputs=tuple(path for path in stage.inputs if path != original),
        outputs=(*stage.outputs, Output(ROLE, own)),
    )


def _generating(argv: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The words of a command that writes the id to `name` instead of reading it."""
    at = argv.index(_NAME_OPTION)
    return (*argv[:at], ids.GENERATE_OPTION, _NAME_OPTION, name, *argv[at + 2 :])


def source_paths(stages: Sequence[Stage]) -> dict[str, str]:
    """For each file with a module id that is not made by the name of it alone, where the source is."""
    return {
        output.path: ids.source_path(stage.argv)
        for stage in stages
        for output in stage.outputs
        if output.role in (ROLE, "stub")
    }
