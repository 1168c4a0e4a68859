"""One call that no record answers: scratch directory, dry run, plan, stages, records, upkeep."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass

from nvccache import (
    dryrun,
    eviction,
    execution,
    explanation,
    jobserver,
    log,
    plan,
    process,
    recording,
    runner,
    slots,
    store,
    toolchain,
)
from nvccache.guardian import SCRATCH_VARIABLE, Guardian
from nvccache.inflight import Claims
from nvccache.invocation import Bypass
from nvccache.relocation import Relocation
from nvccache.variables import OF_ARGUMENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.config import Config
    from nvccache.invocation import Invocation

# nvcc and its tools write file names into commands and C text; these they do not quote as they should.
_UNQUOTABLE = frozenset('\\"$`\n')
_CLOCK_SLACK = 10**9  # nanoseconds by which the two clocks may part before one of them was set


@dataclass(frozen=True, slots=True)
class Request:
    """A call as it came: `environ` is the caller's, `nvcc` the program behind us."""

    nvcc: str
    arguments: tuple[str, ...]
    invocation: Invocation
    environ: dict[str, str]
    guarded_environ: dict[str, str]
    replay_key: str
    terminal: str  # see terminals.py


def carry_out(request: Request, config: Config) -> runner.Report:
    """Compile with what the store has. Raises OSError and LostResultError; leaves nothing in scratch."""
    # Named before it is made: a signal that comes in between must not leave it behind.
    parent = os.path.abspath(request.environ.get("TMPDIR") or "/tmp")
    scratch = os.path.join(parent, f"nvccache-{os.urandom(8).hex()}")
    if not _UNQUOTABLE.isdisjoint(scratch):
        return _left_to_nvcc(Bypass("shell_expansion", scratch), config)
    guardian = Guardian.start(scratch, jobserver.find(request.environ))
    if guardian:
        process.spare(guardian.pid)
    try:
        os.mkdir(scratch, 0o700)
        report = _compile(request, config, scratch, _slots(request, config, guardian))
    finally:
        _put_away(scratch, guardian)
    if report.leave_to_nvcc:
        log.write(config.log, f"left to nvcc: {report.leave_to_nvcc}")
    return report


def _put_away(scratch: str, guardian: Guardian | None) -> None:
    try:
        shutil.rmtree(scratch, ignore_errors=True)
    except process.Interrupted:  # which comes once
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    finally:
        if guardian:
            guardian.dismiss()


def _slots(request: Request, config: Config, guardian: Guardian | None) -> slots.Slots:
    """What the call may run at once. `-t` asks for as many as it names, unless make decides on that."""
    has_jobserver = guardian is not None and guardian.has_jobserver
    cores = slots.available_cores()
    wants_all = "threads" in request.invocation.options and request.invocation.threads == 0
    own = 1 if has_jobserver else max(1, cores if wants_all else request.invocation.threads)
    pool = slots.Pool(slots.pool_directory(), config.jobs or cores)
    return slots.Slots(own, pool, guardian)


def _compile(request: Request, config: Config, scratch: str, at_once: slots.Slots) -> runner.Report:
    started, started_steadily = time.time_ns(), time.monotonic_ns()
    progress = log.Progress(config.log)
    places = Relocation(config.base_dir, os.getcwd())
    arguments = request.invocation.dryrun_arguments
    environ = {**request.guarded_environ, SCRATCH_VARIABLE: scratch}
    if request.invocation.replaces_variables:
        environ = {name: value for name, value in environ.items() if name not in OF_ARGUMENTS}
    transcript = dryrun.transcribe(request.nvcc, arguments, scratch, environ)
    if isinstance(transcript, Bypass):
        return _left_to_nvcc(transcript, config)
    planned = plan.build(transcript, request.invocation, scratch, places)
    if isinstance(planned, Bypass):
        return _left_to_nvcc(planned, config)
    cache = store.Store(config.dir, config.readonly)
    variables = {name: value for name, value in transcript.variables.items() if not name.startswith("NVCC_")}
    context = execution.Context(
        planned,
        {**request.guarded_environ, **variables},
        os.getcwd(),
        cache,
        started,
        is_recaching=config.recache,
        base=places.base,
        terminal=request.terminal,
    )
    missing = toolchain.missing_program([stage.words[0] for stage in planned.stages], context.environ)
    if missing:
        return _left_to_nvcc(Bypass("missing_program", missing), config)
    case = explanation.Case(request, planned.products, config.recache)
    cause = explanation.find_cause(case, cache, places)
    claims = None if config.readonly or config.recache else Claims(config.dir)
    around = runner.Surroundings(request.invocation, transcript.messages, at_once, claims, progress)
    stages, report = runner.run(context, around)
    report.products = planned.products
    recorded = recording.Recorded(objection="the compile failed")
    if not report.leave_to_nvcc and report.status == 0:
        if abs(time.time_ns() - started - (time.monotonic_ns() - started_steadily)) > _CLOCK_SLACK:
            stages.objections.append("the clock was set while it was compiled")
        recorder = recording.Recorder(request, stages, report, variables, places)
        recorded = recording.record(recorder)
    explanation.note(case, cause, recorded, report, cache)
    if cache.trouble:
        log.write(config.log, f"store: {cache.trouble}")
    if cache.added_bytes:
        eviction.count_and_limit(config.dir, cache.added_bytes, config.max_size)
    return report


def _left_to_nvcc(bypass: Bypass, config: Config) -> runner.Report:
    log.write(config.log, f"bypass {bypass.reason} {bypass.detail}")
    return runner.Report(leave_to_nvcc=bypass.reason)
