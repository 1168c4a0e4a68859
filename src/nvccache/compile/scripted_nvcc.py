"""Asking an nvcc that is a script for its dry run, where that says what the script does otherwise.

It has to become nvcc, by `exec`: a script that goes on after nvcc, or starts another program, does more than
the dry run shows. And it has to hand on the environment, the working directory and the like, since the stages
run with what we were given, and with what the dry run tells. That is seen, not read.

A script that only hands on its arguments may get those of the dry run beside them; any other could choose by
them, so that it gets those of the call and nvcc is asked through a variable. Whether a script looks for a
terminal, which the dry run has none of, is told by its text.

What is not so is left to nvcc, and so is a script for anything else than a shell.
"""

from __future__ import annotations

import itertools
import re

from nvccache.commandline.invocation import Bypass
from nvccache.files import elf, keys
from nvccache.observation import known_programs, process_checks
from nvccache.observation.known_programs import SHELL, UTILITY
from nvccache.toolkit import toolchain
from nvccache.toolkit.dryrun import APPENDED, Transcript

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nvccache.compile.request import Request
    from nvccache.observation.observed_process import Process
    from nvccache.observation.observer_log import Observation
    from nvccache.observation.watch import Log
    from nvccache.store.store import Store

    Asked = tuple[Transcript | Bypass, Log]

REASON = "scripted_nvcc"
MAY_CHOOSE = "nvcc is a script that may choose by its arguments"
_BY_ARGUMENTS, _BY_VARIABLES, _NEVER = "arguments", "variables", "never"
_TERMINAL = rb"(?:\[|\btest)\s[^\]\n]*(?:-t\s|/dev/(?:std|fd|tty)|/proc/)|\b(?:tty|stty|tput)\b"
# What keeps the variable that nvcc is asked by from it, or does something else for it.
_CHANGES_VARIABLES = rb"\benv[ \t]+-|\bunset\b|" + APPENDED.encode()


def asks_by_arguments(nvcc: str, cache: Store) -> bool:
    """Whether an nvcc is known to be no script, or one that hands on its arguments; raises OSError."""
    return not _is_script(nvcc) or cache.find_memo(_memo_key(nvcc, cache)) == _BY_ARGUMENTS


def ask(
    request: Request, cache: Store, is_blind: bool, run: Callable[[bool], Asked]
) -> tuple[Transcript | Bypass, Log | None]:
    """The dry run of a call, and its log; `run` asks for it, through variables or not. Raises OSError."""
    if not _is_script(request.nvcc):
        return run(False)
    if is_blind:
        return Bypass(REASON, "what it does cannot be seen"), None
    memo_key = _memo_key(request.nvcc, cache)
    way, remembered = "", cache.find_memo(memo_key)
    found = remembered or _first_way(request.nvcc)
    while found not in (way, _NEVER):
        way = found
        by_variables = way == _BY_VARIABLES
        if by_variables and request.invocation.dryrun_arguments != tuple(request.arguments):
            return Bypass(REASON, "it may choose by its arguments"), None
        transcript, log = run(by_variables)
        observation = log.read()
        if observation.incomplete:
            return Bypass(REASON, observation.incomplete), None
        found = _way_that_it_shows(observation, transcript, by_variables)
        if found == _NEVER and isinstance(transcript, Bypass):
            return Bypass(REASON, "it did not become nvcc"), None  # perhaps for these arguments only
    if found != remembered:
        cache.add_memo(memo_key, found)
    return (Bypass(REASON, request.nvcc), None) if found == _NEVER else (transcript, log)


def reason_against_record(observation: Observation) -> str:
    """Why a script that became nvcc may do something else in a call of the same meaning, or for a terminal.

    A clause, empty if it may not, or if nvcc is no script.
    """
    *scripts, nvcc = observation.images
    if "nvcc" not in nvcc.program.rpartition("/")[2]:
        return "nvcc is a script that does not become nvcc"
    before = itertools.takewhile(lambda process: process is not nvcc, observation.processes)
    shells = [process for process in (*before, *scripts) if known_programs.kind_of(process) == SHELL]
    if not {SHELL, UTILITY}.issuperset(map(known_programs.kind_of, scripts)):
        return "nvcc is a script for something else than a shell"
    if any(re.search(_TERMINAL, text) for shell in shells for text in process_checks.scripts_of(shell)):
        return "nvcc is a script that may look for a terminal"
    if any(map(process_checks.may_choose, scripts)):  # a record answers calls of one meaning
        return MAY_CHOOSE
    return ""


def _is_script(nvcc: str) -> bool:
    with open(nvcc, "rb") as stream:
        return stream.read(len(elf.MAGIC)) != elf.MAGIC


def _memo_key(nvcc: str, cache: Store) -> str:
    return keys.key_of("scripted nvcc", [("file", (nvcc, toolchain.digest_of_program(nvcc, cache)))])


def _first_way(nvcc: str) -> str:
    """How a script is to be asked, by its text: what it does beside starting nvcc a dry run does, too."""
    texts = process_checks.text_of_script(nvcc)
    if texts is None or b"exec" not in texts or re.search(_TERMINAL, texts):
        return _NEVER
    return _BY_ARGUMENTS if process_checks.only_hands_on(nvcc) else _way_through_variables([texts])


def _way_through_variables(texts: Iterable[bytes]) -> str:
    return _NEVER if any(re.search(_CHANGES_VARIABLES, text) for text in texts) else _BY_VARIABLES


def _way_that_it_shows(observation: Observation, transcript: Transcript | Bypass, by_variables: bool) -> str:
    """How nvcc is to be asked, by what the script was seen to do."""
    *scripts, nvcc = observation.images
    kinds = [known_programs.kind_of(process) for process in scripts]
    if "nvcc" not in nvcc.program.rpartition("/")[2] or not {SHELL, UTILITY}.issuperset(kinds):
        return _NEVER
    if isinstance(transcript, Transcript) and not _is_handed_on(scripts[0], nvcc, transcript):
        return _NEVER
    if by_variables and isinstance(transcript, Transcript) and not transcript.steps:
        return _NEVER  # nvcc has compiled
    # What nvcc starts, such as a host compiler that is a script, is none of its own.
    before = itertools.takewhile(lambda process: process is not nvcc, observation.processes)
    shells = [process for process in before if known_programs.kind_of(process) == SHELL]
    texts = [text for process in shells for text in process_checks.scripts_of(process)]
    if any(re.search(_TERMINAL, text) for text in texts):
        return _NEVER
    if not by_variables and not any(map(process_checks.may_choose, shells)):
        return _BY_ARGUMENTS
    return _way_through_variables(texts)


def _is_handed_on(script: Process, nvcc: Process, transcript: Transcript) -> bool:
    """Whether nvcc was given what its script was: the stages run with that, and what the dry run tells."""
    first, last = script.given, nvcc.given
    return (
        first is not None
        and last is not None
        and script.directory == nvcc.directory
        and first.state == last.state
        and last.unnamed in (first.unnamed, 0)
        and (first.path == last.path or "PATH" in transcript.variables)
        and (first.library_path == last.library_path or "LD_LIBRARY_PATH" in transcript.variables)
    )
