"""Which compiler command a wrapper has become, read off what was observed of a run or a rehearsal of it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping

from nvccache.observation.observed_process import HOST, INTERPRETER, SHELL, UTILITY, Process
from nvccache.observation.observer import VARIABLE
from nvccache.observation.observer_log import LINK, Observation
from nvccache.records.rehearsed import CompilerCall

_OF_SHELLS = frozenset(("_", "SHLVL", "OLDPWD", VARIABLE))  # set by each, and heeded by no compiler
_DESCRIPTOR = re.compile(r"^-$|/dev/(?:fd|std)|/proc/")  # in a word: what is open there is not known
_OF_CALLER = re.compile(
    r"/dev/(?:fd|std|pts)|/proc/(?:\d+|(?:thread-)?self/(?:task/\d+/)?fd(?:info)?)(?:/|$)"
)
_LONGEST = 4095  # bytes of an argument, where the observer cuts
_DIGEST_START, _DIGEST_FACTOR, _DIGEST_MODULUS = 14695981039346656037, 1099511628211, 1 << 64


def of_run(observation: Observation, environ: Mapping[str, str]) -> CompilerCall | None:
    """What a wrapper became that was given this environment; None where that is not known, or more than one.

    It has to hand on its directory, limits and umask, and not have the compiler read what it has opened. If
    it goes on behind the compiler it may start no other program.
    """
    compiler = compiler_of(observation)
    if observation.incomplete or not observation.images or compiler is None:
        return None
    given, root = compiler.given, observation.images[0].given
    if not given or not root or given.limits != root.limits:
        return None
    if not is_last(observation) and not all(process.kind == HOST for process in behind_compiler(observation)):
        return None
    changes = _changes(compiler, environ, _OF_SHELLS)
    if compiler.environ.get("PWD", compiler.directory) == compiler.directory:
        changes.pop("PWD", None)  # compilers take it for the directory where it is, and else ask
    return _known(observation, compiler, changes)


def of_nvcc(observation: Observation, environ: Mapping[str, str]) -> CompilerCall | str:
    """What a script became that is called as nvcc, or why that is not known, a clause.

    It is not run again, and so has to hand on all but arguments and variables.
    """
    started = [process for process in observation.processes if _is_nvcc(process)]
    if observation.incomplete or not observation.images or len(started) != 1:
        return observation.incomplete or "it did not become nvcc"
    (nvcc,), root = started, observation.images[0]
    if not nvcc.given or nvcc.given != root.given:
        return "it gives nvcc other streams, limits or surroundings"
    if any(
        _sees_streams(process, root.given.streams) for process in observation.processes if process is not nvcc
    ):
        return "it may look for a terminal"
    own, users = (_preloaded(variables) for variables in (nvcc.environ, environ))
    found = None if own != users else _known(observation, nvcc, _changes(nvcc, environ, ("_", VARIABLE)))
    return found or "what it gives nvcc is unknown"


def _known(observation: Observation, compiler: Process, changes: Mapping[str, str]) -> CompilerCall | None:
    variables = tuple(sorted(changes.values()))
    is_whole = all(len(os.fsencode(word)) < _LONGEST for word in compiler.arguments)
    reads_descriptor = any(map(_DESCRIPTOR.search, (*compiler.arguments[1:], *variables)))
    if not is_whole or reads_descriptor or compiler.directory != observation.images[0].directory:
        return None
    return CompilerCall(compiler.program, tuple(compiler.arguments), variables)


def is_last(observation: Observation) -> bool:
    """Whether the wrapper has become the compiler itself, as by `exec`, and does nothing afterwards."""
    last = observation.images[-1:]
    return bool(last) and (last == [compiler_of(observation)] or _is_nvcc(last[0]))


def compiler_of(observation: Observation) -> Process | None:
    """The compiler that was started, if there was one only; clang starts itself as its front end."""
    started = [process for process in observation.processes if process.environ]
    alone = all(process.arguments[1:2] in (["-cc1"], ["-cc1as"]) for process in started[1:])
    return started[0] if started and alone else None


def behind_compiler(observation: Observation) -> list[Process]:
    """The programs that began after the compiler, such as those that it starts; all of them without one."""
    compiler, processes = compiler_of(observation), observation.processes
    begun = next((at for at, process in enumerate(processes) if process is compiler), -1)
    return [process for process in processes[begun + 1 :] if not process.environ]


def before_compiler(observation: Observation) -> list[Process]:
    """The other programs."""
    behind = {id(process) for process in behind_compiler(observation)}
    return [process for process in observation.processes if id(process) not in behind and not process.environ]


def _is_nvcc(process: Process) -> bool:
    return bool(process.environ) and "nvcc" in os.path.basename(process.program)


def _sees_streams(process: Process, streams: Collection[int]) -> bool:
    """Whether a process may have observed what the caller's streams are, or who the caller is.

    Beside the shells only those programs ask for terminals that do something else for it.
    """
    heeds_terminals = process.kind != UTILITY or os.path.basename(process.program) in ("[", "test")
    asked = {
        number
        for name, number, phase in process.questions
        if name == "isatty" and heeds_terminals and (phase or process.kind not in (SHELL, INTERPRETER))
    }  # which ask before they open their script
    if not asked.isdisjoint(streams):
        return True
    observed = (
        process.found,
        process.absent,
        process.denied,
        process.links,
        process.resolved,
        process.others,
    )
    return any(_OF_CALLER.match(path) for paths in (*observed, process.permissions) for path in paths)


def _preloaded(environ: Mapping[str, str]) -> list[str]:
    """The libraries of the user's that are loaded into each program."""
    return [path for path in environ.get(VARIABLE, "").split(":") if path and os.path.basename(path) != LINK]


def _changes(compiler: Process, environ: Mapping[str, str], left_out: Collection[str]) -> dict[str, str]:
    """By its name, what became of each variable that the compiler was given otherwise."""
    now, found = compiler.environ, {}
    for name in {*now, *environ}.difference(left_out):
        value = environ.get(name)
        if name not in now:
            found[name] = name
        elif value is None or now[name] not in (value, _digest(name, value)):
            found[name] = f"{name}={now[name]}"
    return found


def _digest(name: str, value: str) -> str:
    """What the observer writes down of a long variable, or empty."""
    text = os.fsencode(f"{name}={value}")
    if len(text) <= _LONGEST:
        return ""
    digest = _DIGEST_START
    for character in text:
        digest = (digest ^ character) * _DIGEST_FACTOR % _DIGEST_MODULUS
    return f"digest {digest - _DIGEST_MODULUS if digest >= _DIGEST_MODULUS // 2 else digest}"
