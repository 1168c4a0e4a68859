"""What `-keep` and `-save-temps` change: intermediates are outputs that the user wants, too."""

from __future__ import annotations

import os

from nvccache.commandline.invocation import Bypass
from nvccache.plan.model import ADDED, OPAQUE, Stage
from nvccache.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def keeping(stage: Stage, prefix: str) -> Stage:
    """The stage, with all that it writes kept for the user. The text of a pass is not in the cache."""
    grammar = stage.grammar
    is_cached = grammar.is_cached and not stage.is_preprocessor
    outputs = [
        replace(output, kept_as=prefix + os.path.basename(output.path).removesuffix(ADDED))
        if not output.destination and output.role not in grammar.unwritten
        else output
        for output in stage.outputs
    ]
    grammar = replace(grammar, unread=grammar.unwritten, is_cached=is_cached)
    return replace(stage, grammar=grammar, outputs=tuple(outputs))


def problem(stages: Sequence[Stage], prefix: str | None) -> Bypass | None:
    """Why intermediate files cannot be left where `prefix` says, if it says so."""
    if prefix is None:
        return None
    if not os.path.isdir(prefix or "."):
        return Bypass("unwritable_output", prefix)
    if any(stage.tool.is_host_compiler and stage.grammar.sees_directory for stage in stages):
        return Bypass("keeps_intermediates", "debug information names them")
    if any(stage.kind == OPAQUE for stage in stages):
        return Bypass("keeps_intermediates", "a command that is not understood may write some")
    return None
