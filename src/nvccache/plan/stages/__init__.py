"""What each CUDA tool's command line says: one module a tool, found by the tool's name."""

from __future__ import annotations

from nvccache.plan.stages import cicc, cudafe, fatbinary, host, nvlink, ptxas
from nvccache.plan.stages.grammar import Grammar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_GRAMMARS: dict[str, Callable[[Sequence[str]], Grammar | None]] = {
    "cudafe++": cudafe.grammar_of,
    "cicc": cicc.grammar_of,
    "ptxas": ptxas.grammar_of,
    "fatbinary": fatbinary.grammar_of,
    "nvlink": nvlink.grammar_of,
}


def grammar_of(argv: Sequence[str]) -> Grammar | None:
    """How to read a command, or None for a command that no module understands.

    Any name can be that of a host compiler, so those commands are known by their arguments.
    """
    tool = argv[0].rpartition("/")[2]
    return _GRAMMARS.get(tool, host.grammar_of)(argv)
