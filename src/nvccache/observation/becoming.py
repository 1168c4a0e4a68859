"""Which compiler command a wrapper has become, read off what was observed of a run or a rehearsal of it."""

from __future__ import annotations

import os
import re

from nvccache.observation import known_programs
from nvccache.observation.observer import VARIABLE
from nvccache.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvccache.observation.observed_process import Process
    from nvccache.observation.observer_log import Observation

_OF_SHELLS = frozenset(("_", "SHLVL", "OLDPWD", VARIABLE))  # set by each, and heeded by no compiler
_DESCRIPTOR = re.compile(r"^-$|/dev/(?:fd|std)|/proc/")  # in a word: what is open there is not known
_LONGEST = 4095  # bytes of an argument, where the observer cuts
_DIGEST_START, _DIGEST_FACTOR, _DIGEST_MODULUS = 14695981039346656037, 1099511628211, 1 << 64


@dataclass(frozen=True, slots=True)
class Becoming:
    """A compiler's program, its arguments, and the variables that it was given otherwise than its wrapper.

    A variable is written `name=value`, or `name` where it was taken away.
    """

    program: str
    argv: tuple[str, ...]
    variables: tuple[str, ...]


def of_run(observation: Observation, environ: Mapping[str, str]) -> Becoming | None:
    """What a wrapper became that was given this environment; None where that is not known, or more than one.

    It has to hand on its directory, limits and umask, and not have the compiler read what it has opened. If
    it goes on behind the compiler it may start no other program.
    """
    compiler = compiler_of(observation)
    if observation.incomplete or not observation.images or compiler is None:
        return None
    given, root = compiler.given, observation.images[0]
    if not given or not root.given or given.limits != root.given.limits:
        return None
    variables = tuple(sorted(_changes(compiler, environ)))
    is_whole = all(len(os.fsencode(word)) < _LONGEST for word in compiler.arguments)
    reads_descriptor = any(map(_DESCRIPTOR.search, (*compiler.arguments[1:], *variables)))
    if not is_whole or reads_descriptor or compiler.directory != root.directory:
        return None
    if not is_last(observation) and not all(map(_is_of_compiler, behind_compiler(observation))):
        return None
    return Becoming(compiler.program, tuple(compiler.arguments), variables)


def is_last(observation: Observation) -> bool:
    """Whether the wrapper has become the compiler itself, as by `exec`, and does nothing afterwards."""
    return observation.images[-1:] == [compiler_of(observation)]


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


def _is_of_compiler(process: Process) -> bool:
    return known_programs.kind_of(process) == known_programs.HOST


def _changes(compiler: Process, environ: Mapping[str, str]) -> list[str]:
    now, found = compiler.environ, []
    for name in {*now, *environ} - _OF_SHELLS:
        if name == "PWD" and now.get(name, compiler.directory) == compiler.directory:
            continue  # compilers take it for the directory where it is, and else ask
        value = environ.get(name)
        if name not in now:
            found.append(name)
        elif value is None or now[name] not in (value, _digest(name, value)):
            found.append(f"{name}={now[name]}")
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
