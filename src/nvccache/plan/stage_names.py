"""What stages are called where people read of them: `ptxas for sm_80`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvccache.plan.model import Stage

_ARCHITECTURE = ("-arch", "--arch", "--gpu-name")


def names_of(stages: Iterable[Stage]) -> dict[int, str]:
    """What each stage is called, by its identity: `ptxas for sm_80`; a second one of a name has a number."""
    stages = list(stages)
    found: dict[int, str] = {}
    for stage in stages:
        architecture = architecture_of(stage, stages)
        if stage.is_preprocessor and not architecture:
            architecture = "the host"
        name = f"{tool_name(stage)} for {architecture}" if architecture else tool_name(stage)
        count = sum(known.partition(" (")[0] == name for known in found.values())
        found[id(stage)] = f"{name} ({count + 1})" if count else name
    return found


def tool_name(stage: Stage) -> str:
    """The name that an engineer knows: of a tool of NVIDIA's its own, of the host compiler what it does."""
    if stage.is_preprocessor:
        return "preprocessing"
    program = stage.argv[0].rpartition("/")[2]
    return program if program.startswith(stage.kind) else stage.kind.replace("_", " ")


def architecture_of(stage: Stage, stages: Iterable[Stage]) -> str:
    """The architecture that a stage works for, or empty for one of the host's."""
    architecture = named_by(stage)
    if architecture or not stage.is_preprocessor:
        return architecture
    # That of the only one which reads it. The macro does not tell compute_90 from compute_90a.
    written = {output.path for output in stage.outputs}
    readers = [other for other in stages if not written.isdisjoint(other.inputs)]
    return next(filter(None, map(named_by, readers)), "")


def named_by(stage: Stage) -> str:
    """The architecture that a command names for its tool, or empty."""
    for word, following in zip(stage.argv, (*stage.argv[1:], ""), strict=True):
        name, _, value = word.partition("=")
        if name in _ARCHITECTURE:
            return value or following
    return ""
