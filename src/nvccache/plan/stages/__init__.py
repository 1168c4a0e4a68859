"""The tools that nvcc starts: one module each, which says all that is to be known of it.

To add one, write a module like the others and name it in `ALL` (docs/development/adding-a-tool.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from nvccache.plan.stages import cicc, cudafe, fatbinary, host, nvlink, ptxas
from nvccache.plan.stages.tool import Grammar, Tool

# In the order of the pipeline, in which `nvccache stats` has them.
ALL = (
    host.PREPROCESS,
    cudafe.TOOL,
    host.DEVICE_PREPROCESS,
    cicc.TOOL,
    ptxas.TOOL,
    fatbinary.TOOL,
    host.COMPILE,
    nvlink.TOOL,
    host.LINK,
)
TOOLS = {tool.kind: tool for tool in ALL}
OPAQUE = "opaque"
_UNKNOWN = Tool(OPAQUE, lambda argv: None, is_counted=False)


def tool_of(kind: str) -> Tool:
    """What is known of the tools of a kind of stage; of an opaque one nothing."""
    return TOOLS.get(kind, _UNKNOWN)


def shown_name(kind: str, architecture: str = "") -> str:
    """What a reader is shown: `ptxas sm_80`, `preprocess host`, `cudafe++`."""
    tool = tool_of(kind)
    if tool.is_preprocessor:
        return f"preprocess {architecture or kind.partition('_')[0]}"
    return f"{tool.program or kind.replace('_', ' ')} {architecture}".strip()


def counted() -> tuple[str, ...]:
    """The kinds of stages that `nvccache stats` shows."""
    return tuple(kind for kind, tool in TOOLS.items() if tool.is_counted)


def grammar_of(argv: Sequence[str]) -> Grammar | None:
    """How to read a command, or None for a command that no module understands.

    Any name can be that of a host compiler, so those commands are known by their arguments.
    """
    name = argv[0].rpartition("/")[2]
    known = next((tool for tool in TOOLS.values() if tool.program == name), None)
    return (known or host.COMPILE).grammar_of(argv)
