"""ptxas: PTX to machine code for one real architecture; on newer toolkits also a check without output."""

from __future__ import annotations

from nvccache.stages.grammar import Grammar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def grammar_of(words: Sequence[str]) -> Grammar:
    return Grammar(
        kind="ptxas",
        writes={"-o": "cubin", "--output-file": "cubin"},
        # From 13.0 a debug cubin records ptxas's own command line, base names included (.note.nv.tkinfo).
        sees_names="-g" in words or "--device-debug" in words,
    )
