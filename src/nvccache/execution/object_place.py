"""Where the host compiler writes an object: into the scratch directory, or where nvcc has it write.

The path shows what a compiler writes next to the object (coverage notes, split debug information), in what
the object names, and to a script that chooses options by it. Options on nvcc's command line that do so are
known (host.py); those that a wrapper, a specs file or a configuration file adds are not. So

    a compiler, and a wrapper of which it is known      into the scratch directory: the product appears whole,
    what it becomes for nvcc's path (rehearsals.py)     and nobody changes it before it is kept
    everything else                                     in place: with the path and in the order of nvcc, kept
                                                        for that path and directory alone

and a run of the former which shows that the path mattered is repeated in place. So is one in which the
wrapper became another command than for nvcc's path. That is remembered of the
compiler with these options. An object that nvcc links and removes is not written where the user wants it; a
call with one that names its path is left to nvcc.
"""

from __future__ import annotations

import os
import re
import stat

from nvccache.files import keys, signatures
from nvccache.observation import becoming, process_checks
from nvccache.plan import stage_key
from nvccache.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from nvccache.execution.context import Context
    from nvccache.execution.workspace import Workspace
    from nvccache.files.signatures import Signature
    from nvccache.observation.observer import Log
    from nvccache.observation.observer_log import Observation
    from nvccache.plan.model import Output, Plan, Stage
    from nvccache.store.store import Store

_SHOWS = "shows"
# What the object names of what is called after it; other names of intermediates are as random as nvcc's.
_CALLED_AFTER_IT = rb"[^\0/]*\.(?:gcda|gcno|dwo)\b"


def is_in_place(context: Context) -> bool:
    """Whether a call begins so: its host compiler is no plain one, or has shown that the path matters."""
    compiles = _compiles(context.plan)
    if not all(stage.command for stage in compiles):
        return True
    return any(_has_shown(stage, context.environ, context.store) for stage in compiles)


def is_left_to_nvcc(context: Context) -> bool:
    """Whether an object that nvcc would link has shown to name its path."""
    return any(
        _has_shown(stage, context.environ, context.store)
        for stage in _compiles(context.plan)
        if not any(output.destination for output in stage.outputs)
    )


def remember(stage: Stage, environ: Mapping[str, str], store: Store) -> None:
    """Keep that the path mattered to this compiler with these options."""
    store.add_memo(_memo_key(stage, environ, store), _SHOWS)


def plan_of(plan: Plan) -> Plan:
    """The plan with objects written where nvcc has them written."""
    return plan.changed(lambda stage: _in_place(stage) if stage.tool.is_host_compiler else stage)


def clue(stage: Stage, workspace: Workspace, log: Log, is_as_rehearsed: bool) -> str:
    """Why the path that an object was written to may have mattered, a clause; empty if it did not.

    Raises OSError.
    """
    for output in _objects(stage):
        content = workspace.content_of(output.path) or b""
        if output.is_in_place:
            continue
        if not output.destination:
            stem = os.fsencode(os.path.splitext(output.path)[0])
            if re.search(re.escape(stem) + _CALLED_AFTER_IT, content):
                return f"the object of {stage.kind} names files that are called after it"
            continue
        directory = os.path.dirname(output.path)
        beside = {*os.listdir(directory)} - {os.path.basename(output.path)}
        if beside:
            return f"{stage.kind} writes `{min(beside)}` beside the object"
        if not is_as_rehearsed:
            return f"{stage.kind} becomes another command by the path of the object"
        if os.fsencode(directory) in content:
            return f"the object of {stage.kind} names its path"
        mode = odd_mode(output.path, stage.kind, directory)
        if mode:
            return mode
        for process in becoming.behind_compiler(log.read()):
            if process_checks.may_heed(process, output.path):
                return f"`{os.path.basename(process.program)}` may choose options by the path of the object"
    return ""


def odd_mode(path: str, kind: str, directory: str) -> str:
    """What is odd about the mode of an object, a clause: a wrapper has set it. Empty if it is a new file's.

    Found out with a file that is made in this directory of ours; raises OSError.
    """
    new = os.path.join(directory, f"{os.path.basename(path)}.new")
    with open(new, "wb"):
        usual = _mode_of(new)
    os.unlink(new)
    mode = _mode_of(path)
    return f"the mode of the object of {kind} is {mode:03o}" if mode != usual else ""


def lying_in_place(stage: Stage) -> frozenset[str]:
    """Where a stage is going to write what is there already."""
    return frozenset(out.path for out in stage.outputs if out.is_in_place and os.path.lexists(out.path))


def who_looks(objects: Iterable[str], lay_there: Collection[str], observations: Iterable[Observation]) -> str:
    """Which process looked at an object's path before the object was made, as a clause; empty if none did."""
    processes = [process for observation in observations for process in observation.processes]
    for path in objects:
        for process in processes:
            if process_checks.looks_for_product(process, path, lay_there=path in lay_there):
                return f"`{os.path.basename(process.program)}` looks for `{path}`, which it makes"
    return ""


def _mode_of(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def signatures_in_place(stage: Stage) -> dict[str, Signature]:
    """What a stage has just written where the user wants it."""
    paths = [output.path for output in stage.outputs if output.is_in_place]
    return {path: signatures.of(path) or signatures.UNKNOWN for path in paths}


def is_its_own(shown: Mapping[str, Signature], observations: Iterable[Observation]) -> bool:
    """Whether what lies there is what the stage has made: others may write to the same path.

    It has to be a file that a tool was observed to make, and the same as when it was taken in.
    """
    made = {file for observation in observations for file in observation.made}
    return all(found[:2] in made and signatures.of(path) == found for path, found in shown.items())


def _compiles(plan: Plan) -> list[Stage]:
    return [stage for stage in plan.stages if stage.tool.is_host_compiler and _objects(stage)]


def _objects(stage: Stage) -> list[Output]:
    is_compile = stage.tool.is_host_compiler
    return [output for output in stage.outputs if is_compile and output.role == "object"]


def _in_place(stage: Stage) -> Stage:
    """The stage with the words that nvcc gives it, for an object that is a file, or becomes one."""
    argv, outputs = stage.argv, []
    for output in stage.outputs:
        if output in _objects(stage) and output.destination and _is_file_to_be(output.destination):
            argv = tuple(output.destination if word == output.path else word for word in argv)
            outputs.append(replace(output, path=output.destination))
        else:
            outputs.append(output)
    if argv == stage.argv:
        return stage
    # What options are added is not known: some have the object name the working directory.
    with_paths = replace(stage.grammar, sees_directory=True, sees_names=True, sees_output_names=True)
    grammar = replace(with_paths, stays_in_order=True)
    return replace(stage, grammar=grammar, argv=argv, outputs=tuple(outputs))


def _is_file_to_be(path: str) -> bool:
    """Whether a file can be written there, not a FIFO or a device, which are left to nvcc."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True


def _has_shown(stage: Stage, environ: Mapping[str, str], store: Store) -> bool:
    return store.find_memo(_memo_key(stage, environ, store)) == _SHOWS


def _memo_key(stage: Stage, environ: Mapping[str, str], store: Store) -> str:
    tool = tuple(stage_key.tool_parts(stage, environ, store))
    is_product = any(output.destination for output in stage.outputs)
    components = [("tool", tool), ("arguments", stage.key_argv), ("product", (str(is_product),))]
    components.append(("wrapper", stage.becomes))
    return keys.key_of("object place", components)
