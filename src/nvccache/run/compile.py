"""One call that no record answers: scratch directory, dry run, plan, stages, records, upkeep."""

from __future__ import annotations

import time

from nvccache import log
from nvccache.commandline import redaction
from nvccache.commandline.invocation import Bypass
from nvccache.machine import scratch, slots, streams
from nvccache.observation import observer
from nvccache.observation.observer import Watch
from nvccache.plan import build
from nvccache.records import levels, tiered_store
from nvccache.records.tiered_store import TieredStore
from nvccache.run import attempt, query, record_call, wrappers
from nvccache.run.attempt import Progress, Resources
from nvccache.run.call import Compile
from nvccache.run.dry_runs import DryRun
from nvccache.run.report import Report
from nvccache.run.run_stage import LostResultError
from nvccache.store import directory, eviction, store
from nvccache.store.inflight import Claims
from nvccache.toolkit import dryrun, toolchain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Protocol

    from nvccache.config import Config
    from nvccache.machine.process import Completed
    from nvccache.records.request import Request
    from nvccache.run.stage_run import MakeExecutor
    from nvccache.toolkit.dryrun import Transcript

    class Explaining(Protocol):
        """Finds why no record answered a compile (explain/), and sets its report's `causes`."""

        def begin(self, request: Request, products: Iterable[str], cache: store.Store) -> None:
            """Called before the call is recorded."""

        def end(self, report: Report) -> None: ...


_NOT_OBSERVABLE = "a program that nvcc starts fails when it is observed"
_CLOCK_WAS_SET = "the clock was set while it was compiled"
_CLOCK_SLACK = 10**9  # nanoseconds by which the clocks may drift apart


def compile_call(request: Request, explaining: Explaining | None = None) -> Report:
    """Compile with the help of the store; raises OSError and LostResultError. Leaves nothing in scratch."""
    config = request.config
    cache = _store(request)
    problem = cache.directory.problem(store.BUCKETS)
    if problem:
        return _left_to_nvcc(Bypass(problem, config.dir), request)
    path = scratch.choose(request.environ, config.dir)
    if not scratch.is_quotable(path):
        return _left_to_nvcc(Bypass("shell_expansion", path), request)
    pool = slots.pool_of(slots.usable_cores(), slots.pool_directory(), config.jobs)
    call_slots = slots.Slots(pool, slots.open_jobserver(request.environ))
    with streams.silenced_stderr(bool(config.remote)):
        try:
            report = scratch.within(path, lambda: _compile(request, cache, path, call_slots, explaining))
        except LostResultError:
            cache.remove_read_records()  # one of them is bad, and the next call would fail too
            raise
    report.store_fault = cache.fault
    report.remote = cache.remote_use() if isinstance(cache, TieredStore) else None
    if report.leave_to_nvcc:
        log.write(config.log, f"left to nvcc: {report.leave_to_nvcc}")
    return report


def _compile(
    request: Request, cache: store.Store, path: str, call_slots: slots.Slots, explaining: Explaining | None
) -> Report:
    started, config = _now(), request.config
    progress = Progress(config.log)
    watch = Watch(path, observer.obstacle(path, cache))
    if isinstance(cache, TieredStore):
        levels.prefetch(request, cache)
    if request.invocation.is_query:
        return _run_query(request, cache, path, watch, started)
    dry_run = DryRun(request, path, cache)
    transcript = _transcribe(request, path, watch, dry_run)
    if dry_run.input_record:
        progress.note("the dry run is replayed: nvcc would print the same again")
    answered = _answer_from_remotes(request, cache)
    if answered:
        return answered
    if isinstance(transcript, Bypass):
        return _left_to_nvcc(transcript, request)
    environ = {**request.guarded_environ, **transcript.variables_of_commands}
    planned = build.plan_of(transcript, request.invocation, path)
    if isinstance(planned, Bypass):
        return _left_to_nvcc(planned, request)
    missing = toolchain.missing_program([stage.argv[0] for stage in planned.stages], environ)
    if missing:
        return _left_to_nvcc(Bypass("missing_program", missing), request)
    planned = wrappers.mark_wrappers(planned, environ)
    if wrappers.is_left_to_nvcc(planned):
        return _left_to_nvcc(Bypass("host_side_output", "of the host compiler"), request)
    if explaining:
        explaining.begin(request, planned.products, cache)
    product = next(iter(planned.products), "")
    if wrappers.is_in_place(planned):
        planned = wrappers.plan_in_place(planned)
    call = Compile(
        planned,
        environ,
        cache,
        watch,
        started[0],
        request.checkout,
        is_recaching=config.recache,
        files=request.now,
    )
    claims = None if config.readonly or config.recache else Claims(cache.directory)
    resources = Resources(
        request.invocation, transcript.messages, call_slots, claims, progress, _executor(config)
    )
    report = attempt.run_stages(call, resources)
    report.product = product
    if report.leave_to_nvcc or report.status != 0:
        report.reason_against_record = "the compile failed"
    elif _clock_was_set(started):
        report.reason_against_record = _CLOCK_WAS_SET
    else:
        record_call.of_compile(record_call.Recorder(request, call, report, dry_run), report)
    if explaining:
        explaining.end(report)
    _maintain(cache, config, report)
    return report


def _run_query(
    request: Request, cache: store.Store, path: str, watch: Watch, started: tuple[int, int]
) -> Report:
    """Answer a query from remotes or by running nvcc, and record the answer."""
    answered = _answer_from_remotes(request, cache)
    if answered:
        return answered
    reason = query.reason_to_leave(request, cache, watch)
    if reason:
        return _left_to_nvcc(Bypass(reason), request)
    report, run = query.run_query(request, cache, path, watch, started[0])
    if report.status != 0:
        return report
    if _clock_was_set(started):
        report.reason_against_record = _CLOCK_WAS_SET
    else:
        query.record(run, report)
    if report.reason_against_record:
        report.causes = [f"no record is kept: {report.reason_against_record}"]
    _maintain(cache, request.config, report)
    return report


def _executor(config: Config) -> MakeExecutor | None:
    """Remote execution, if set; it is above this package, and loaded only here."""
    if not config.executor:
        return None
    import importlib

    source = importlib.import_module("nvccache.remote_execution.source")
    make_executor: MakeExecutor = source.make_executor(config)
    return make_executor


def _store(request: Request) -> store.Store:
    """The cache directory, with its remotes if these may be queried."""
    config = request.config
    if config.remote and not config.recache:
        return tiered_store.configured(directory.configured(config), config, request.environ)
    return store.Store(directory.configured(config), config.readonly)


def _answer_from_remotes(request: Request, cache: store.Store) -> Report | None:
    if not isinstance(cache, TieredStore):
        return None
    report = Report()
    report.answer = levels.answer_from_remotes(request, cache)
    if not report.answer:
        return None
    _maintain(cache, request.config, report)
    return report


def _transcribe(request: Request, path: str, watch: Watch, dry_run: DryRun) -> Transcript | Bypass:
    """nvcc's transcript, from a stored dry run or a new one."""
    stored = None if watch.is_blind or request.config.recache else dry_run.find(request)

    def run(argv: Sequence[str], environ: Mapping[str, str]) -> Completed:
        if stored:
            return stored
        completed, dry_run.log = watch.run(argv, environ)
        if completed.status != 0 and not watch.is_blind:
            blind = Watch(path, _NOT_OBSERVABLE)
            completed, dry_run.log = blind.run(argv, environ)
            if completed.status == 0:
                watch.why_not = blind.why_not
        dry_run.stderr = completed.stderr
        return completed

    return dryrun.of_invocation(request.nvcc, request.invocation, request.guarded_environ, path, run)


def _now() -> tuple[int, int]:
    """The time by two clocks, in nanoseconds; only the first can be set."""
    return time.time_ns(), time.monotonic_ns()


def _clock_was_set(started: tuple[int, int]) -> bool:
    now = _now()
    return abs(now[0] - started[0] - (now[1] - started[1])) > _CLOCK_SLACK


def _maintain(cache: store.Store, config: Config, report: Report) -> None:
    """After a call: list new entries for remotes, mark used ones, log a fault, enforce the size limit."""
    if config.remote and not config.readonly:
        report.to_send = list(cache.published)
    if cache.is_stale:
        cache.mark_used(cache.used)
    if cache.fault_message:
        log.write(config.log, f"store: {cache.fault_message}")
    if cache.added:
        fault = eviction.count_and_limit(cache.directory, cache.added, config.max_size)
        cache.fault = cache.fault or fault


def _left_to_nvcc(bypass: Bypass, request: Request) -> Report:
    if request.config.log:
        detail = redaction.hide_detail(bypass.detail)
        log.write(request.config.log, f"bypass {bypass.reason} {detail}")
    return Report(leave_to_nvcc=bypass.reason)
