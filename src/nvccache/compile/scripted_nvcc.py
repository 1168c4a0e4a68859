"""An nvcc that is a script: the call of the real nvcc that it starts is answered instead.

The script is rehearsed: run as it was called, and stopped where it starts nvcc (observer/rehearsal.c). From
then on the call is that of the real nvcc, with the arguments and environment from the script, and is looked
up, compiled and recorded as such. Since the script does not run to its end, it

    - has to pass on everything else that a process inherits (wrapper_command.of_nvcc), and to print nothing;
    - must not check for a terminal, which a rehearsal lacks;
    - must do nothing after nvcc, if it waits for it, but exit with its status.

If any of that is not so, or not certain, the script itself runs.
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
from nvccache.observation import observer, wrapper_command
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
    """The request for the nvcc that a script starts; a report if that is answered or the script has to run.

    Raises OSError.
    """
    config = script.config
    cache = Store(directory.of(config), config.readonly)
    problem = cache.directory.problem(store.BUCKETS)
    path = scratch.choose(script.environ, config.dir)
    if problem or not scratch.is_quotable(path):
        return Report(leave_to_nvcc=problem or "shell_expansion")
    request = within_scratch(path, None, lambda: _rehearse(script, path, cache))
    if isinstance(request, str):
        return _left_to_script(Bypass(REASON, request), script)
    answer = levels.answer_compiled(request, cache)
    if isinstance(answer, Bypass):
        return _left_to_script(answer, script)
    if not answer:
        return request
    report = Report()
    report.answer = answer
    return report


def _left_to_script(bypass: Bypass, script: Request) -> Report:
    if script.config.log:
        detail = redaction.hide_detail(bypass.detail)
        log.write(script.config.log, f"bypass {bypass.reason} {detail}")
    return Report(leave_to_nvcc=bypass.reason)


def _rehearse(script: Request, path: str, cache: Store) -> Request | str:
    """The request for the nvcc that a script starts, recorded; or why that is unknown, a clause."""
    watch = Watch(path, observer.obstacle(path, cache))
    if watch.is_blind:
        return watch.why_not
    memo_key = _memo_key(script, cache)
    if cache.find_memo(memo_key) == _NEVER:
        return "it did not start nvcc before"
    since_ns = time.time_ns()
    environ = script.guarded_environ
    argv = [script.nvcc, *script.arguments]
    completed, observer_log = watch.rehearse(argv, environ, of_nvcc=True)
    observation = observer_log.read()
    if observation.incomplete:
        cache.add_memo(memo_key, _NEVER)
        return observation.incomplete
    found = wrapper_command.of_nvcc(observation, environ)
    if isinstance(found, str):
        return found
    if completed.status or completed.stdout or completed.stderr:
        return "it prints something, or its status differs from nvcc's"
    script.is_waiting = not wrapper_command.ends_in_exec(observation)
    try:
        made = _input_record(script, observation, ObservedInputs(cache, os.getcwd(), path, since_ns), environ)
    except UnreadableError as error:
        if script.is_waiting:  # and may do something else after nvcc
            return str(error)
    else:
        rehearsed.add(scripted.front_key(script), Rehearsal(found, made, False), cache, since_ns)
        script.input_record = made
    return scripted.request_for(found, script) or "nvcc cannot be started the same way"


def _input_record(
    script: Request, observation: Observation, inputs: ObservedInputs, environ: Mapping[str, str]
) -> InputRecord:
    """A rehearsal's input record, with the caller's TMPDIR; raises UnreadableError or OSError."""
    made = inputs.input_record(observation, Subject(environ, script.nvcc))
    inputs.add_variables(made, {"TMPDIR", *(name for name, _ in made.variables)}, environ)
    made.cache_signatures = [signatures.of(path) or signatures.UNKNOWN for path in made.caches]
    inputs.files.remember()
    return made


def _memo_key(script: Request, cache: Store) -> str:
    program, argv = toolchain.digest_of_program(script.nvcc, cache), (script.nvcc, *script.arguments)
    return keys.key_of("left alone", [("file", (program,)), ("argv", argv), ("directory", (os.getcwd(),))])
