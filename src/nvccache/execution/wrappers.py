"""Wrappers of the host compiler: scripts or programs of the user's that start it, perhaps with more options.

A compiler's options say what its results may contain. Those that a wrapper adds are learned from its runs:
the observer's log has the compiler's argv. What a run showed is stored with its result.

    LINES       the result may depend on line numbers, as with `-g`
    DIRECTORY   it names the working directory
    UNKNOWN     it may be anything: the log shows no compiler, several, or one in another directory, or the
                wrapper itself read an intermediate

A pass comes first and shows what to expect; the run of the compile decides (attempts.py, publish_stage.py).
"""

from __future__ import annotations

from collections.abc import Sequence

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

LINES, DIRECTORY, UNKNOWN = "lines", "directory", "unknown"


def marked(plan: Plan, environ: Mapping[str, str]) -> Plan:
    """The plan, its stages with the kind of wrapper that they start; raises OSError."""
    kinds = {stage.argv[0]: "" for stage in plan.stages if stage.runs_host_compiler}
    kinds = {name: _kind(name, environ) for name in kinds}

    def mark(stage: Stage) -> Stage:
        return replace(stage, wrapper=kinds[stage.argv[0]]) if stage.runs_host_compiler else stage

    return plan.changed(mark) if any(kinds.values()) else plan


def _kind(name: str, environ: Mapping[str, str]) -> str:
    """A wrapper that only starts a compiler with further options does nothing else that could matter."""
    if toolchain.is_compiler(name, environ):
        return ""
    started = shell_text.program_started(toolchain.resolve(name, environ.get("PATH", "")))
    try:
        return PLAIN_WRAPPER if started and toolchain.is_compiler(started, environ) else ANY_WRAPPER
    except OSError:
        return ANY_WRAPPER


def shown_by(stage: Stage, argv: Sequence[str], log: Log, intermediates: Sequence[str]) -> tuple[str, ...]:
    """What a run of a stage with this argv showed of its wrapper; nothing if it has none."""
    if not stage.wrapper:
        return ()
    observation = log.read()
    processes = observation.processes
    started = [process for process in processes if toolchain.is_compiler_name(process.program)]
    compilers = [process for process in started if process.arguments[1:2] not in (["-cc1"], ["-cc1as"])]
    if observation.incomplete or len(compilers) != 1 or compilers[0].directory != processes[0].directory:
        return UNKNOWN, LINES, DIRECTORY
    for process in processes:
        if process.kind != HOST and not process.files.keys().isdisjoint(intermediates):
            return UNKNOWN, LINES, DIRECTORY
    found, command = [], compilers[0].arguments
    if matter_if_added([argument for argument in command[1:] if argument not in argv]):
        found.append(LINES)
    if has_debug_info(command):
        found.append(DIRECTORY)
    return tuple(found)
