"""Which nvcc command a script has started, as observed in a rehearsal of it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping

from nvccache.machine.watchdog import SCRATCH_VARIABLE
from nvccache.observation import judge
from nvccache.observation.observed_process import Process
from nvccache.observation.observer import LIBRARY, VARIABLE
from nvccache.observation.observer_log import Observation
from nvccache.records.rehearsed import CompilerCall

_OURS = frozenset((VARIABLE, SCRATCH_VARIABLE))
_DESCRIPTOR = re.compile(r"^-$|/dev/(?:fd|std)|/proc/")  # arguments that read an unknown open file
_OF_CALLER = re.compile(
    r"/dev/(?:fd|std|pts)|/proc/(?:\d+|(?:thread-)?self/(?:task/\d+/)?fd(?:info)?)(?:/|$)"
)
_LONGEST = 4095  # bytes of an argument; the observer cuts longer ones


def of_nvcc(observation: Observation, environ: Mapping[str, str]) -> CompilerCall | str:
    """The nvcc command that a script started, or why it is unknown, a clause.

    The script is not run again, so it may change only arguments and variables.
    """
    started = [process for process in observation.processes if _is_nvcc(process)]
    if observation.incomplete or not observation.images or len(started) != 1:
        return observation.incomplete or "it did not start nvcc"
    (nvcc,), root = started, observation.images[0]
    if not nvcc.inherited or nvcc.inherited != root.inherited:
        return "it changes nvcc's streams, limits or priority"
    streams = set(root.inherited.streams)
    if any(_sees_streams(process, streams) for process in observation.processes if process is not nvcc):
        return "it may check for a terminal"
    own, users = (_preloaded(variables) for variables in (nvcc.environ, environ))
    changes = _changes(nvcc, environ, _OURS.union("_"))
    found = _compiler_call(observation, nvcc, changes) if own == users else None
    return found or "the command that it starts is unknown"


def _compiler_call(
    observation: Observation, compiler: Process, changes: Mapping[str, str]
) -> CompilerCall | None:
    variables = tuple(sorted(changes.values()))
    is_whole = all(len(os.fsencode(argument)) < _LONGEST for argument in compiler.arguments)
    reads_descriptor = any(map(_DESCRIPTOR.search, (*compiler.arguments[1:], *variables)))
    is_known = is_whole and not compiler.has_long_variable and not reads_descriptor
    if not is_known or compiler.directory != observation.images[0].directory:
        return None
    return CompilerCall(compiler.program, tuple(compiler.arguments), variables)


def ends_in_exec(observation: Observation) -> bool:
    """Whether the script's own process became nvcc by `exec`, so that it does nothing afterwards."""
    return bool(observation.images) and _is_nvcc(observation.images[-1])


def _is_nvcc(process: Process) -> bool:
    return bool(process.environ) and "nvcc" in os.path.basename(process.program)


def _sees_streams(process: Process, streams: set[int]) -> bool:
    """Whether a process may have found out what the caller's streams are, or which process the caller is.

    An interpreter's queries before it opens its script do not count.
    """
    is_interpreter = judge.reads_script(process)
    if any(
        name == "isatty" and number in streams and (phase or not is_interpreter)
        for name, number, phase in process.questions
    ):
        return True
    looked = process.found.keys() | process.absent | process.denied.keys() | process.links | process.resolved
    return any(map(_OF_CALLER.match, looked | process.others.keys() | process.permissions))


def _preloaded(environ: Mapping[str, str]) -> list[str]:
    """The user's own preloaded libraries."""
    return [path for path in environ.get(VARIABLE, "").split(":") if path and path != LIBRARY]


def _changes(compiler: Process, environ: Mapping[str, str], left_out: Collection[str]) -> dict[str, str]:
    """By name, the variables that the compiler got with another value (`name=value`) or not at all."""
    now = compiler.environ
    names = {*now, *environ}.difference(left_out)
    return {
        name: f"{name}={now[name]}" if name in now else name
        for name in names
        if now.get(name) != environ.get(name)
    }
