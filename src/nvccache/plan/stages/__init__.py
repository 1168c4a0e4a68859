"""The tools that nvcc starts. Each has a module with everything that nvccache knows about the tool.

To add one, write a module like the others and add it to `ALL` (docs/development/extending.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from nvccache.plan.stages import cicc, cudafe, fatbinary, host, nvlink, ptxas
from nvccache.plan.stages.tool import Grammar, Tool

# In the order of the pipeline, in which `nvccache stats` lists them, too.
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
    """The tool of a kind of stage."""
    return TOOLS.get(kind, _UNKNOWN)


def shown_name(kind: str, architecture: str = "") -> str:
    """The display name: `ptxas sm_80`, `preprocess host`, `cudafe++`."""
    tool = tool_of(kind)
    if tool.is_preprocessor:
        return f"preprocess {architecture or kind.partition('_')[0]}"
    return f"{tool.program or kind.replace('_', ' ')} {architecture}".strip()


def counted() -> tuple[str, ...]:
    """The kinds of stages that `nvccache stats` shows."""
    return tuple(kind for kind, tool in TOOLS.items() if tool.is_counted)


def grammar_of(argv: Sequence[str]) -> Grammar | None:
    """The grammar of a command; None if no module knows it.

    A host compiler can have any name, so its commands are recognized by their arguments.
    """
    name = argv[0].rpartition("/")[2]
    tool = next((tool for tool in TOOLS.values() if tool.program == name), None)
    return (tool or host.COMPILE).grammar_of(argv)
