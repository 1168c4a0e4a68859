"""Detects wrappers of the host compiler, and decides where objects are written.

A wrapper is a script or program of the user that starts the compiler, perhaps with more options. What an
object may contain depends on the compiler's options. Which options a wrapper adds is known only after a run,
from the compiler's argv in the observer's log. Effects seen in a run are stored with its result:

    PLACES      an option, such as `-g`, may put line numbers and the working directory into the result
    UNKNOWN     any option may have been added, because the log shows no compiler, several compilers, or one
                that ran in another directory, or because the wrapper itself looked at an intermediate

A pass runs before the compile and shows what to expect from the wrapper. But only the run of the compile
shows how its result may be used (deliver.py, publish_stage.py).

The path of an object can affect the result: files such as coverage notes are written next to the object, the
object may contain paths, and a script may choose options by the path. Therefore

    compilers, plain wrappers   write into the scratch directory, so that the product appears whole, and no
                                other process can change it before it is stored
    any other wrapper           writes in place: to nvcc's path and in nvcc's order; the result is stored for
                                this path and directory only

Effects of options on nvcc's own command line are known before the run (host.py). If a run in the scratch
directory shows further effects, for example because of a configuration file, nvcc runs the call.
"""

from __future__ import annotations

import os
import re
import stat

from nvccache.commandline import host_options
from nvccache.files import signatures
from nvccache.observation import dependencies, shell_text, uncacheable
from nvccache.observation.observed_process import HOST
from nvccache.plan.model import ANY_WRAPPER, PLAIN_WRAPPER
from nvccache.plan.stages.host import has_debug_info
from nvccache.plan.stages.line_options import matter_if_added
from nvccache.toolkit import toolchain
from nvccache.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from nvccache.files.signatures import Signature
    from nvccache.observation.observer import Log
    from nvccache.observation.observer_log import Observation
    from nvccache.plan.model import Output, Plan, Stage
    from nvccache.run.call import Intermediates

PLACES, UNKNOWN = "places", "unknown"
# File names in an object that are made from its own name; other intermediates have random names in nvcc, too.
_DERIVED_NAME = rb"[^\0/]*\.(?:gcda|gcno|dwo)\b"


def mark_wrappers(plan: Plan, environ: Mapping[str, str]) -> Plan:
    """The plan, with the kind of wrapper set in each stage that starts one; raises OSError."""
    kinds = {stage.argv[0]: "" for stage in plan.stages if stage.runs_host_compiler}
    kinds = {name: _kind_of(name, environ) for name in kinds}

    def mark(stage: Stage) -> Stage:
        return replace(stage, wrapper=kinds[stage.argv[0]]) if stage.runs_host_compiler else stage

    return plan.changed(mark) if any(kinds.values()) else plan


def _kind_of(name: str, environ: Mapping[str, str]) -> str:
    """The kind of a wrapper: plain if it only starts a compiler with more options; empty for a compiler."""
    if toolchain.is_compiler(name, environ):
        return ""
    started, *options = shell_text.command_started(toolchain.resolve(name, environ.get("PATH", ""))) or [""]
    # No other reason counts, since the observer shows what a script reads, such as programs below -B.
    reasons = [(host_options.uncacheable_host_option([option]) or ("",))[0] for option in options]
    if host_options.writes_beside_object(options) or "host_side_output" in reasons:
        return ANY_WRAPPER
    try:
        return PLAIN_WRAPPER if started and toolchain.is_compiler(started, environ) else ANY_WRAPPER
    except OSError:
        return ANY_WRAPPER


def effects_of(stage: Stage, argv: Sequence[str], log: Log, intermediates: Sequence[str]) -> tuple[str, ...]:
    """The effects that a wrapper may have had in this run of a stage; empty without a wrapper."""
    if not stage.wrapper:
        return ()
    observation = log.read()
    processes = observation.processes
    started = [process for process in processes if toolchain.is_compiler_name(process.program)]
    compilers = [process for process in started if process.arguments[1:2] not in (["-cc1"], ["-cc1as"])]
    if observation.incomplete or len(compilers) != 1 or compilers[0].directory != processes[0].directory:
        return UNKNOWN, PLACES
    paths = set(intermediates)
    files = {each[:2] for each in map(signatures.signature_of, intermediates) if each}  # under any name
    for process in processes:
        opened = {signature[:2] for signature in process.files.values()}
        if process.kind != HOST and (files & opened or paths & process.found.keys()):
            return UNKNOWN, PLACES
    command = compilers[0].arguments
    added = [argument for argument in command[1:] if argument not in argv]
    return (PLACES,) if matter_if_added(added) or has_debug_info(command) else ()


def is_in_place(plan: Plan) -> bool:
    """Whether objects are written directly to the paths that nvcc uses."""
    compiles = [stage for stage in plan.stages if _objects(stage)]
    return any(stage.wrapper == ANY_WRAPPER or stage.grammar.writes_beside for stage in compiles)


def is_left_to_nvcc(plan: Plan) -> bool:
    """Whether nvcc has to run the call because its object goes to /dev/null and its path may matter."""
    wrapped = any(stage.wrapper for stage in plan.stages if _objects(stage))
    return os.devnull in plan.products and (wrapped or is_in_place(plan))


def plan_in_place(plan: Plan) -> Plan:
    """The plan, changed so that objects are written directly to the paths that nvcc uses."""
    return plan.changed(lambda stage: _in_place(stage) if stage.tool.is_host_compiler else stage)


def path_dependence(stage: Stage, intermediates: Intermediates, log: Log, effects: Collection[str]) -> str:
    """The reason why the path of an object may have mattered; empty if it did not. Raises OSError."""
    for output in stage.outputs:
        is_written = output.is_in_place and intermediates.has_digest(output.path)
        if stage.grammar.writes_beside and not is_written:
            return f"{stage.kind} writes no `{output.path}`"
    for output in _objects(stage):
        content = intermediates.content_of(output.path) or b""
        if output.is_in_place:
            continue
        if not output.destination:
            stem = os.fsencode(os.path.splitext(output.path)[0])
            if re.search(re.escape(stem) + _DERIVED_NAME, content):
                return f"the object of {stage.kind} refers to files named after it"
            continue
        directory = os.path.dirname(output.path)
        extra = {*os.listdir(directory)} - {os.path.basename(output.path)}
        if extra:
            return f"{stage.kind} writes `{min(extra)}` next to the object"
        if UNKNOWN in effects:
            return f"the command that {stage.kind} starts is unknown"
        if os.fsencode(directory) in content:
            return f"the object of {stage.kind} contains its own path"
        for process in log.read().processes:
            if any(output.path in each for each in process.arguments) and dependencies.may_choose(process):
                return f"`{process.name}` may choose options by the path of the object"
    return ""


def misled_by_directory(stage: Stage, log: Log) -> str:
    """Why paths that were made relative may have led elsewhere; empty if they did not."""
    processes = log.read().processes
    directories = {each.directory for each in processes if toolchain.is_compiler_name(each.program)}
    has_moved = any(directory != processes[0].directory for directory in directories)
    return f"the compiler of {stage.kind} runs in another directory" if has_moved else ""


def unusual_mode(path: str, kind: str, directory: str) -> str:
    """A message if the mode of an object is not that of new files, since a wrapper has set it; else empty.

    For comparison, creates a file in `directory`, which must be nvccache's own; raises OSError.
    """
    new = os.path.join(directory, f"{os.path.basename(path)}.new")
    with open(new, "wb"):
        usual = _mode_of(new)
    os.unlink(new)
    mode = _mode_of(path)
    return f"the object of {kind} has the unusual mode {mode:03o}" if mode != usual else ""


def early_lookup(objects: Iterable[str], existed: Collection[str], observation: Observation) -> str:
    """A message if a process looked up an object's path before the object was written; else empty."""
    for path in objects:
        for process in observation.processes:
            if uncacheable.looks_for_product(process, path, existed=path in existed):
                return f"`{process.name}` looks for `{path}` before creating it"
    return ""


def was_written_by(signatures_then: Mapping[str, Signature], observation: Observation) -> bool:
    """Whether the stage itself wrote these files, and not another process that uses the same paths.

    A tool must have been observed to create each file, and the file must still have its signature.
    """
    return all(
        signature[:2] in observation.made and signatures.signature_of(path) == signature
        for path, signature in signatures_then.items()
    )


def _mode_of(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def _objects(stage: Stage) -> list[Output]:
    is_compile = stage.tool.is_host_compiler
    return [output for output in stage.outputs if is_compile and output.role == "object"]


def _in_place(stage: Stage) -> Stage:
    """The stage with nvcc's own argv, if its object is a regular file or does not exist yet."""
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
    # The wrapper may have added options that put the working directory into the object.
    with_paths = replace(stage.grammar, sees_directory=True, sees_names=True, sees_output_names=True)
    grammar = replace(with_paths, stays_in_order=True)
    return replace(stage, grammar=grammar, argv=argv, outputs=tuple(outputs))


def _may_become_file(path: str) -> bool:
    """Whether a path is a regular file or does not exist yet; FIFOs and devices are left to nvcc."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True
