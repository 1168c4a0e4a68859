"""Wrappers of the host compiler: scripts or programs of the user's that start it, perhaps with more options.

A compiler's options say what its results may contain. Those that a wrapper adds are learned from its runs:
the observer's log has the compiler's argv. What a run showed is stored with its result.

    PLACES      an option may have the result name lines and the working directory, as `-g` does
    UNKNOWN     it may be anything: the log shows no compiler, several, or one in another directory, or the
                wrapper itself looked at an intermediate

A pass comes first and shows what to expect; the run of the compile decides (attempt.py, publish_stage.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from nvccache.files import signatures
from nvccache.observation import shell_text
from nvccache.observation.observed_process import HOST
from nvccache.plan.model import ANY_WRAPPER, PLAIN_WRAPPER, Plan, Stage
from nvccache.plan.stages.host import has_debug_info
from nvccache.plan.stages.line_options import matter_if_added
from nvccache.toolkit import toolchain
from nvccache.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvccache.observation.observer import Log

PLACES, UNKNOWN = "places", "unknown"


def mark_wrappers(plan: Plan, environ: Mapping[str, str]) -> Plan:
    """The plan, each stage with the kind of wrapper that it starts; raises OSError."""
    kinds = {stage.argv[0]: "" for stage in plan.stages if stage.runs_host_compiler}
    kinds = {name: _kind_of(name, environ) for name in kinds}

    def mark(stage: Stage) -> Stage:
        return replace(stage, wrapper=kinds[stage.argv[0]]) if stage.runs_host_compiler else stage

    return plan.changed(mark) if any(kinds.values()) else plan


def _kind_of(name: str, environ: Mapping[str, str]) -> str:
    """A wrapper that only starts a compiler with further options does nothing else that could matter."""
    if toolchain.is_compiler(name, environ):
        return ""
    started = shell_text.program_started(toolchain.resolve(name, environ.get("PATH", "")))
    try:
        return PLAIN_WRAPPER if started and toolchain.is_compiler(started, environ) else ANY_WRAPPER
    except OSError:
        return ANY_WRAPPER


def effects_of(stage: Stage, argv: Sequence[str], log: Log, intermediates: Sequence[str]) -> tuple[str, ...]:
    """What a wrapper may have done in this run of a stage; nothing if there is none."""
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
