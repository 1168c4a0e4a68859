"""Module ids that are the same in each checkout below the base directory, and where they tell objects apart.

An id begins with a checksum of the source's absolute path. Here it is one of the way to the source from the
working directory, as the base directory has it (base_dir.py), so that two checkouts' objects may be the same.
Then two objects with one id may come from different sources: the way is the same, and so is the name of
their first external definition, which is the rest of the id. Where that name is a symbol that each of the two
defines, no link takes both, with nvcc's ids as little as with these; what else holds the id is not seen
outside of the program or library that an object is linked into. Each object is looked at for that, and those
for which it does not hold keep nvcc's id: such as units that begin with a variable of device code, or with a
name given by `__asm__`. So does what is compiled for device links, whose symbols are seen everywhere.
"""

from __future__ import annotations

import os

from nvccache.files import elf
from nvccache.module_id import ids
from nvccache.plan.model import OPAQUE, DependencyFile, Plan, Stage
from nvccache.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.plan.model import Output

_FOR_DEVICE_LINKS = "--device-c"
_COMPILED_LATER = b".gnu.lto_"  # sections with code whose symbols no table lists


def objects_of(plan: Plan) -> list[Output]:
    """The objects that the host compiler makes of a source with device code, as products."""
    return [
        output
        for stage in plan.stages
        for output in stage.outputs
        if stage.tool.is_host_compiler and output.role == "object" and output.destination
    ]


def generating_stage(plan: Plan) -> Stage | None:
    """The stage that makes up the id, where the plan makes one object of one source."""
    generating = [stage for stage in plan.stages if ids.generates(stage)]
    return generating[0] if len(generating) == 1 and len(objects_of(plan)) == 1 else None


def applies(plan: Plan, base: str, cwd: str, pwd: str) -> bool:
    """Whether such ids can be tried: they are given to one object that does not name its directory."""
    generating = generating_stage(plan)
    if not base or generating is None or any(stage.kind == OPAQUE for stage in plan.stages):
        return False
    if any(stage.tool.names_directory(stage.argv, cwd, pwd) for stage in plan.stages):
        return False
    naming = [stage for stage in plan.stages if ids.PATH_OPTION in stage.argv]
    return generating in naming and all(
        ids.source_path(stage.argv).startswith(base + "/")
        and _FOR_DEVICE_LINKS not in stage.argv
        and not ids.user_chose_seed(stage)
        for stage in naming
    )


def relative(plan: Plan, cwd: str) -> Plan:
    """The plan with the way to the source in the place of its path.

    The name of the source is a part of messages alone, which say it as it was typed.
    """
    steps: list[Stage | DependencyFile] = []
    for step in plan.steps:
        if isinstance(step, Stage) and ids.PATH_OPTION in step.argv:
            argv = _with_value(step.argv, ids.PATH_OPTION, cwd)
            key_argv = _with_value(step.key_argv, ids.PATH_OPTION, cwd)
            key_argv = _with_value(key_argv, ids.NAME_OPTION, cwd)
            steps.append(replace(step, argv=argv, key_argv=key_argv))
        else:
            steps.append(step)
    return replace(plan, steps=tuple(steps))


def _with_value(words: tuple[str, ...], option: str, cwd: str) -> tuple[str, ...]:
    if option not in words:
        return words
    at = words.index(option) + 1
    if not os.path.isabs(words[at]):
        return words
    return (*words[:at], os.path.relpath(words[at], cwd), *words[at + 1 :])


def are_told_apart(image: bytes, identifier: bytes) -> bool:
    """Whether no link takes two objects like this one whose ids are equal, or none of them minds."""
    head = ids.head_of(identifier)
    if not head or not elf.is_understood(image):
        return False
    try:
        symbols, sections = elf.symbols(image), elf.sections(image)
    except ValueError:
        return False
    if not symbols or any(section[0].startswith(_COMPILED_LATER) for section in sections):
        return False
    holding = [flags for name, flags in symbols if head in name and flags & elf.GLOBAL]
    if not all(flags & elf.HIDDEN for flags in holding):
        return False
    return not holding or any(
        flags & elf.STRONG and ids.is_made_of(identifier, name) for name, flags in symbols
    )
