"""Why stages are no plan: every intermediate that is read needs a producer, and every product, too.

A plan with anything unexplained is not a plan but a Bypass.
"""

from __future__ import annotations

import os
import re
from itertools import pairwise

from nvccache.commandline.invocation import Bypass, Invocation
from nvccache.plan import keep
from nvccache.plan.model import OPAQUE, DependencyFile, Stage
from nvccache.toolkit.dryrun import Transcript

_IDENTIFIER = "-D__NV_MODULE_ID="


def problem(
    steps: list[Stage | DependencyFile],
    included: dict[str, tuple[str, ...]],
    transcript: Transcript,
    invocation: Invocation,
    scratch: str,
) -> Bypass | None:
    """The first reason why these steps are not a plan."""
    stages = [step for step in steps if isinstance(step, Stage)]
    return (
        _problem(steps, stages, included, invocation)
        or _problem_of_names(stages, scratch)
        or _problem_of_removal(transcript, scratch)
        or keep.problem(stages, invocation.keeps_in)
    )


def _problem(
    steps: list[Stage | DependencyFile],
    stages: list[Stage],
    included: dict[str, tuple[str, ...]],
    invocation: Invocation,
) -> Bypass | None:
    """Why these stages are not a plan: every intermediate read needs a producer, every product too."""
    if invocation.mode == "cuda":
        return Bypass("preprocessed_product", "--cuda")
    problem = _problem_of_flow(stages, included)
    if problem:
        return problem
    if not any(stage.grammar.is_cached and not stage.is_preprocessor for stage in stages):
        return Bypass("nothing_to_cache")
    writes_dependencies = any(isinstance(step, DependencyFile) for step in steps)
    # Where nothing is preprocessed nvcc writes none, though it is asked for one.
    may_write_them = writes_dependencies or any(stage.is_preprocessor for stage in stages)
    if may_write_them and writes_dependencies != (invocation.dependencies is not None):
        return Bypass("unexplained", "dependency file")
    wanted = [output.destination for stage in stages for output in stage.outputs if output.destination]
    wanted += [word for stage in stages if stage.grammar.stays_in_order for word in stage.argv]
    if not wanted or (invocation.output and invocation.output not in wanted):
        return Bypass("unexplained", "no command writes the product")
    return None


def _problem_of_names(stages: list[Stage], scratch: str) -> Bypass | None:
    """Why a product would name the scratch directory: nvcc makes an identifier of an object's path."""
    made_of_it = (re.sub(r"\W", "_", scratch), "tmpxft_")
    for stage in stages:
        for word in stage.argv:
            if word.startswith(_IDENTIFIER) and any(name in word for name in made_of_it):
                return Bypass("names_temporary_file", word)
    return None


def _problem_of_removal(transcript: Transcript, scratch: str) -> Bypass | None:
    """Why something would be left behind: our scratch directory goes as a whole, and nothing else."""
    left = [path for path in transcript.removed if not path.startswith(scratch + "/")]
    return Bypass("unexplained", f"nvcc removes {left[0]}") if left else None


def _problem_of_flow(stages: list[Stage], included: dict[str, tuple[str, ...]]) -> Bypass | None:
    written: set[str] = set()
    readable: set[str] = set()
    for stage in stages:
        needed = set(stage.inputs)
        if stage.tool.is_host_compiler:
            needed.update(*(included.get(path, ()) for path in stage.inputs))
        if stage.kind == OPAQUE:
            if needed & (written - readable):
                return Bypass("unexplained", f"nothing keeps {min(needed & (written - readable))}")
            readable |= needed  # it may read or write any file it names
            objects = {path for option, path in pairwise(stage.argv) if option == "-o" and path in needed}
            if objects & written:
                return Bypass("same_base_name", os.path.basename(min(objects & written)))
            written |= objects
        elif needed - readable:
            return Bypass("unexplained", f"no command writes {min(needed - readable)}")
        for output in stage.outputs:
            if output.path in written:
                return Bypass("same_base_name", os.path.basename(output.path))
            if output.destination and stage.is_preprocessor:
                return Bypass("unexplained", f"a preprocessor writes {output.destination}")
            written.add(output.path)
            if output.role not in stage.grammar.unread:
                readable.add(output.path)
    return None
