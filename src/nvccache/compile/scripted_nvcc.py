"""What an nvcc becomes that is a script: the call of a compiled nvcc, which is answered in its place.

It is rehearsed: run as it was called, up to where it starts nvcc (observer/rehearsal.c). From then on the
call is that of this nvcc, with the arguments and the environment that it would have been given, and is looked
for, compiled and recorded as such. The script is not run again, and so

    - has to hand on whatever else a program inherits (becoming.of_nvcc), and to say nothing by itself;
    - may not look for a terminal, which a rehearsal has not;
    - may do nothing behind nvcc, where it waits for it, but end as that did.

Where that is not so, or not certain, the script runs as it is.
"""

from __future__ import annotations

import os
import time

from nvccache import log
from nvccache.commandline import redaction
from nvccache.commandline.invocation import Bypass
from nvccache.compile.call import Report
from nvccache.files import keys, signatures
from nvccache.machine import scratch
from nvccache.machine.watchdog import within_scratch
from nvccache.observation import becoming, observer
from nvccache.observation.observer import Watch
from nvccache.observation.stage_inputs import ObservedInputs, Subject
from nvccache.records import levels, rehearsed, scripted
from nvccache.records.input_records import UnreadableError
from nvccache.records.rehearsed import Rehearsal
from nvccache.records.request import Request
from nvccache.store import directory, store
from nvccache.store.store import Store
from nvccache.toolkit import toolchain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvccache.observation.observer_log import Observation
    from nvccache.records.input_records import InputRecord

REASON = "scripted_nvcc"
_NEVER = "never"


def carry_out(script: Request) -> Request | Report:
    """The call that a script becomes; or a report, where that is answered or the script has to run.

    Raises OSError.
    """
    config = script.config
    cache = Store(directory.of(config), config.readonly)
    problem = cache.directory.problem(store.BUCKETS)
    path = scratch.choose(script.environ)
    if problem or not scratch.is_quotable(path):
        return Report(leave_to_nvcc=problem or "shell_expansion")
    behind = within_scratch(path, None, lambda: _rehearse(script, path, cache))
    if isinstance(behind, str):
        return _left_to_script(Bypass(REASON, behind), script)
    answer = levels.answer_compiled(behind, cache)
    if isinstance(answer, Bypass):
        return _left_to_script(answer, script)
    if not answer:
        return behind
    report = Report()
    report.answer = answer
    return report


def _left_to_script(bypass: Bypass, script: Request) -> Report:
    if script.config.log:
        detail = redaction.hide(bypass.detail, script.arguments, script.environ)
        log.write(script.config.log, f"bypass {bypass.reason} {detail}")
    return Report(leave_to_nvcc=bypass.reason)


def _rehearse(script: Request, path: str, cache: Store) -> Request | str:
    """What a script becomes, which is kept; or why that is not known, a clause."""
    obstacle = observer.obstacle(path, cache) if script.config.observe else "NVCCACHE_OBSERVE=0 is set"
    watch = Watch(path, obstacle)
    if watch.is_blind:
        return watch.why_not
    memo_key = _memo_key(script, cache)
    if cache.find_memo(memo_key) == _NEVER:
        return "it did not become nvcc before"
    since_ns = time.time_ns()
    environ = script.guarded_environ
    argv = [script.nvcc, *script.arguments]
    completed, observer_log = watch.rehearse(argv, environ, bool(script.terminal), of_nvcc=True)
    observation = observer_log.read()
    if observation.incomplete:
        cache.add_memo(memo_key, _NEVER)
        return observation.incomplete
    found = becoming.of_nvcc(observation, environ)
    if isinstance(found, str):
        return found
    if completed.status or completed.stdout or completed.stderr:
        return "it says something, or ends otherwise than nvcc"
    script.is_waiting = not becoming.is_last(observation)
    try:
        made = _input_record(script, observation, ObservedInputs(cache, os.getcwd(), path, since_ns), environ)
    except UnreadableError as error:
        if script.is_waiting:  # and may do something else behind nvcc, after a while
            return str(error)
    else:
        rehearsed.add(scripted.front(script), Rehearsal(found, made, False), cache, since_ns)
        script.input_record = made
    return scripted.request_for(found, script) or "nvcc cannot be given what it was given"


def _input_record(
    script: Request, observation: Observation, inputs: ObservedInputs, environ: Mapping[str, str]
) -> InputRecord:
    """What a rehearsal depended on, with our caller's TMPDIR; raises UnreadableError or OSError."""
    made = inputs.input_record(observation, Subject(environ, script.nvcc))
    inputs.add_variables(made, {"TMPDIR", *(name for name, _ in made.variables)}, environ)
    made.cache_signatures = [signatures.of(path) or signatures.UNKNOWN for path in made.caches]
    inputs.files.remember()
    return made


def _memo_key(script: Request, cache: Store) -> str:
    program, argv = toolchain.digest_of_program(script.nvcc, cache), (script.nvcc, *script.arguments)
    return keys.key_of("left alone", [("file", (program,)), ("argv", argv), ("directory", (os.getcwd(),))])
