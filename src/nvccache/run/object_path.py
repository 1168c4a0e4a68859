"""Where the host compiler writes an object: into the scratch directory, or to nvcc's path ("in place").

The path can matter: to files written next to the object (coverage notes, split debug information), to paths
that the object contains, and to scripts that choose options by it. Options on nvcc's command line with such
effects are known (host.py); those that a wrapper, a specs file or a configuration file adds are not. Hence

    compilers, plain wrappers   into the scratch directory: the product appears whole, and no other process
    (wrappers.py)               can change it before it is stored
    any other wrapper           in place: with nvcc's path, in nvcc's order, and stored for that path and
                                directory only

If a run in the scratch directory shows that the path may have mattered, nvcc runs the call, and the next one
with this compiler and these options writes in place.
An object that nvcc links and removes is never written in place; if it names its path, nvcc runs the call.
"""

from __future__ import annotations

import os
import re
import stat

from nvccache.files import keys, signatures
from nvccache.observation import judge, written_files
from nvccache.plan import stage_key
from nvccache.plan.model import ANY_WRAPPER
from nvccache.run import wrappers
from nvccache.toolkit import toolchain
from nvccache.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from nvccache.files.signatures import Signature
    from nvccache.observation.observer import Log
    from nvccache.observation.observer_log import Observation
    from nvccache.plan.model import Output, Plan, Stage
    from nvccache.run.intermediates import Intermediates
    from nvccache.store.store import Store

_PATH_MATTERS = "shows"
# Names in an object that derive from its own; other names of intermediates are as random as nvcc's.
_DERIVED_NAME = rb"[^\0/]*\.(?:gcda|gcno|dwo)\b"


def is_in_place(plan: Plan, environ: Mapping[str, str], store: Store) -> bool:
    """Whether to write in place: behind any wrapper, or if the path is known to matter."""
    compiles = _host_compiles(plan)
    if any(stage.wrapper == ANY_WRAPPER or stage.grammar.writes_beside for stage in compiles):
        return True
    return any(_path_matters(stage, environ, store) for stage in compiles)


def is_left_to_nvcc(plan: Plan, environ: Mapping[str, str], store: Store) -> bool:
    """Whether the path matters of an object that nvcc would link, or that is to be discarded."""
    compiles = _host_compiles(plan)
    if os.devnull in plan.products and (
        is_in_place(plan, environ, store) or any(each.wrapper for each in compiles)
    ):
        return True
    return any(
        _path_matters(stage, environ, store)
        for stage in compiles
        if not any(output.destination for output in stage.outputs)
    )


def remember(stage: Stage, environ: Mapping[str, str], store: Store) -> None:
    """Note that the path matters to this compiler with these options."""
    store.add_memo(_memo_key(stage, environ, store), _PATH_MATTERS)


def plan_in_place(plan: Plan) -> Plan:
    """The plan with objects written in place."""
    return plan.changed(lambda stage: _in_place(stage) if stage.tool.is_host_compiler else stage)


def path_dependence(stage: Stage, intermediates: Intermediates, log: Log, effects: Collection[str]) -> str:
    """Why the path of an object may have mattered, a clause; empty if it did not. Raises OSError."""
    for output in stage.outputs:
        if stage.grammar.writes_beside and not (output.is_in_place and intermediates.has_digest(output.path)):
            return f"{stage.kind} writes no `{output.path}`"
    for output in _objects(stage):
        content = intermediates.content_of(output.path) or b""
        if output.is_in_place:
            continue
        if not output.destination:
            stem = os.fsencode(os.path.splitext(output.path)[0])
            if re.search(re.escape(stem) + _DERIVED_NAME, content):
                return f"the object of {stage.kind} names files named after it"
            continue
        directory = os.path.dirname(output.path)
        extra = {*os.listdir(directory)} - {os.path.basename(output.path)}
        if extra:
            return f"{stage.kind} writes `{min(extra)}` next to the object"
        if wrappers.UNKNOWN in effects:
            return f"the command that {stage.kind} starts is unknown"
        if os.fsencode(directory) in content:
            return f"the object of {stage.kind} names its path"
        mode = unusual_mode(output.path, stage.kind, directory)
        if mode:
            return mode
        for process in log.read().processes:
            if any(output.path in each for each in process.arguments) and judge.may_choose(process):
                return f"`{os.path.basename(process.program)}` may choose options by the path of the object"
    return ""


def unusual_mode(path: str, kind: str, directory: str) -> str:
    """A clause if an object's mode is not that of a new file, since a wrapper has set it; else empty.

    Creates a file in `directory`, which must be nvccache's own, to compare with; raises OSError.
    """
    new = os.path.join(directory, f"{os.path.basename(path)}.new")
    with open(new, "wb"):
        usual = _mode_of(new)
    os.unlink(new)
    mode = _mode_of(path)
    return f"the mode of the object of {kind} is {mode:03o}" if mode != usual else ""


def existing_outputs(stage: Stage) -> frozenset[str]:
    """The outputs in place that exist before the stage runs."""
    return frozenset(out.path for out in stage.outputs if out.is_in_place and os.path.lexists(out.path))


def early_lookup(
    objects: Iterable[str], existed: Collection[str], observations: Iterable[Observation]
) -> str:
    """A clause that names a process that looked up an object's path before writing it; empty if none did."""
    processes = [process for observation in observations for process in observation.processes]
    for path in objects:
        for process in processes:
            if written_files.looks_for_product(process, path, existed=path in existed):
                return f"`{os.path.basename(process.program)}` looks for `{path}`, which it makes"
    return ""


def _mode_of(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def signatures_in_place(stage: Stage) -> dict[str, Signature]:
    """The signatures of what a stage has just written in place."""
    paths = [output.path for output in stage.outputs if output.is_in_place]
    return {path: signatures.signature_of(path) or signatures.UNKNOWN for path in paths}


def was_written_by(signatures_then: Mapping[str, Signature], observations: Iterable[Observation]) -> bool:
    """Whether these files are the stage's own: other processes may write to the same path.

    Each must be a file that a tool was observed to create, unchanged since its signature was taken.
    """
    created = {file for observation in observations for file in observation.made}
    return all(
        signature[:2] in created and signatures.signature_of(path) == signature
        for path, signature in signatures_then.items()
    )


def _host_compiles(plan: Plan) -> list[Stage]:
    return [stage for stage in plan.stages if stage.tool.is_host_compiler and _objects(stage)]


def _objects(stage: Stage) -> list[Output]:
    is_compile = stage.tool.is_host_compiler
    return [output for output in stage.outputs if is_compile and output.role == "object"]


def _in_place(stage: Stage) -> Stage:
    """The stage with nvcc's own argv, if its object is or becomes a regular file."""
    argv, outputs = stage.argv, []
    for output in stage.outputs:
        is_written = output in _objects(stage) or stage.grammar.writes_beside
        if is_written and output.destination and _may_become_file(output.destination):
            argv = tuple(output.destination if arg == output.path else arg for arg in argv)
            outputs.append(replace(output, path=output.destination))
        else:
            outputs.append(output)
    if argv == stage.argv:
        return stage
    # Options may have been added that make the object name the working directory.
    with_paths = replace(stage.grammar, sees_directory=True, sees_names=True, sees_output_names=True)
    grammar = replace(with_paths, stays_in_order=True)
    return replace(stage, grammar=grammar, argv=argv, outputs=tuple(outputs))


def _may_become_file(path: str) -> bool:
    """Whether this is a regular file or nothing yet; FIFOs and devices are left to nvcc."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True


def _path_matters(stage: Stage, environ: Mapping[str, str], store: Store) -> bool:
    return store.find_memo(_memo_key(stage, environ, store)) == _PATH_MATTERS


def _memo_key(stage: Stage, environ: Mapping[str, str], store: Store) -> str:
    tool = tuple(stage_key.tool_parts(stage, toolchain.program_of(stage.argv[0], environ), store))
    is_product = any(output.destination for output in stage.outputs)
    components = [("tool", tool), ("arguments", stage.key_argv), ("product", (str(is_product),))]
    return keys.key_of("object place", components)
