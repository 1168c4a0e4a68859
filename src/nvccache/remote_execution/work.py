"""One stage as another machine is to run it: values only, and whether a stage may be sent at all."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from nvccache import environment
from nvccache.execution.run_stage import Costs
from nvccache.plan.model import Stage
from nvccache.remote_execution import faults
from nvccache.remote_execution.faults import AwayError
from nvccache.remote_execution.shipped import ShippedTool
from nvccache.values import dataclass

# Stands for the scratch directory in what is sent. The digits keep it from meeting anything of a user's.
PLACE = "nvccache-51d0c2f3a86e4b79"


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be run, with PLACE for the scratch directory."""

    kind: str  # of the stage
    tool: ShippedTool
    arguments: Sequence[str]  # without the tool's own name
    environment: Sequence[tuple[str, str]]
    inputs: Mapping[str, str]  # names below PLACE -> the files that they stand for
    outputs: Sequence[str]  # names below PLACE


@dataclass(frozen=True, slots=True)
class CameBack:
    """What another machine has made."""

    stdout: bytes
    stderr: bytes
    outputs: Mapping[str, bytes]  # contents by name
    costs: Costs


def reason_to_stay(stage: Stage, environ: Mapping[str, str]) -> str:
    """Why a stage has to run here, a clause; empty if another machine makes the same of it."""
    grammar, tool = stage.grammar, stage.tool
    if not tool.may_run_elsewhere or not stage.is_located_anywhere or not grammar.is_cached:
        return "its tool reads more than can be sent"
    if grammar.sees_directory or tool.lines_matter(stage.argv):
        return "its result depends on directories or lines"
    if grammar.sees_names or grammar.dates_sources or grammar.dates_what_it_names:
        return "its result depends on names or dates"
    if grammar.stays_in_order or grammar.runs_programs:
        return "it does more than to read and write the files that it names"
    if any(output.begins_as for output in stage.outputs) or not stage.kept_outputs:
        return "it adds to what was there before"
    asked = [name for name in tool.variables if environ.get(name)]
    return f"`{asked[0]}` is set" if asked else ""


def passed_on(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """The variables that a tool is given: those of the C library, and no others."""
    names = (*environment.OF_LIBC, "GLIBC_TUNABLES")
    return sorted((name, environ[name]) for name in names if environ.get(name))


def of_stage(
    stage: Stage, argv: Sequence[str], read: Sequence[str], scratch: str, tool: ShippedTool,
    environ: Mapping[str, str],
) -> Work:  # fmt: skip
    """A stage as it is sent; raises AwayError where it reads what is not of this call."""
    inside = scratch + "/"
    inputs = {path.removeprefix(inside): path for path in read}
    if not all(path.startswith(inside) for path in read):
        raise AwayError(faults.FAILED, "it reads a file from outside the scratch directory")
    arguments = []
    for word in argv[1:]:
        named = word.partition("=")[2] or word
        if named in stage.possible_files and os.path.isfile(named):
            name = f"named/{len(inputs)}/{os.path.basename(named)}"
            inputs[name] = named
            arguments.append(word.removesuffix(named) + f"{PLACE}/{name}")
        else:
            arguments.append(word.replace(inside, PLACE + "/"))
    outputs = [output.path.removeprefix(inside) for output in stage.kept_outputs]
    return Work(stage.kind, tool, arguments, passed_on(environ), inputs, outputs)
