"""Runs one call that no record answers: scratch directory, dry run, plan, stages, record, maintenance."""

from __future__ import annotations

import time

from nvccache import log
from nvccache.commandline.invocation import Bypass
from nvccache.machine import scratch, slots, streams
from nvccache.observation import observer
from nvccache.observation.observer import Watch
from nvccache.records import direct_hit, tiered_store
from nvccache.records.tiered_store import TieredStore
from nvccache.run.dry_runs import DryRun
from nvccache.run.report import LostResultError, Report
from nvccache.store import eviction, store
from nvccache.store.directory import Directory
from nvccache.toolkit import toolchain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    from nvccache.config import Config
    from nvccache.records.direct_hit import Request

    class Explaining(Protocol):
        """Finds out why no record answered a compile, and sets the `causes` of its report; see explain/."""

        def begin(self, request: Request, products: Iterable[str], cache: store.Store) -> None:
            """Called before the call is recorded."""

        def end(self, report: Report) -> None: ...


def compile_call(request: Request, explaining: Explaining | None = None) -> Report:
    """Compile with the help of the cache; raises OSError or LostResultError. Leaves no scratch directory."""
    config = request.config
    cache = _store(request)
    problem = cache.directory.problem()
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
            cache.remove_read_records()  # with them, the next call would look for the lost result, too
            raise
    report.store_fault = cache.fault
    report.remote = cache.remote_use() if isinstance(cache, TieredStore) else None
    if report.leave_to_nvcc:
        log.write(config.log, f"left to nvcc: {report.leave_to_nvcc}")
    return report


def _compile(
    request: Request, cache: store.Store, path: str, call_slots: slots.Slots, explaining: Explaining | None
) -> Report:
    since_ns, config = time.time_ns(), request.config
    obstacle = observer.obstacle(path, cache)
    if obstacle:
        return _left_to_nvcc(Bypass("not_observable", obstacle), request)
    watch = Watch(path)
    dry_run = DryRun(request, path, cache, watch)
    if not request.invocation.is_query:
        dry_run.begin()
    if isinstance(cache, TieredStore):
        direct_hit.prefetch(request, cache)
        if not request.invocation.is_query:
            dry_run.transcript()  # runs while the remotes answer
        answer = direct_hit.answer_from_remotes(request, cache)
        if answer:
            report = Report()
            report.answer = answer
            _maintain(cache, config, report)
            return report
    if request.invocation.is_query:
        from nvccache.run import query

        report = query.run_query(request, cache, path, watch, since_ns)
        _maintain(cache, config, report)
        return report
    # Loaded while nvcc prints the dry run, which takes as long.
    from nvccache.plan import build
    from nvccache.run import deliver, record_call, wrappers
    from nvccache.run.call import Compile

    transcript = dry_run.transcript()
    if isinstance(transcript, Bypass):
        return _left_to_nvcc(transcript, request)
    environ = {**request.guarded_environ, **transcript.variables_of_commands}
    planned = build.plan_of(transcript, request.invocation, path)
    if isinstance(planned, Bypass):
        return _left_to_nvcc(planned, request)
    missing = toolchain.missing_program([stage.argv[0] for stage in planned.stages], environ)
    if missing:
        return _left_to_nvcc(Bypass("missing_program", missing), request)
    products = planned.products
    planned = wrappers.mark_wrappers(planned, environ)
    if wrappers.is_left_to_nvcc(planned):
        return _left_to_nvcc(Bypass("host_side_output", "-o /dev/null"), request)
    if wrappers.is_in_place(planned):
        planned = wrappers.plan_in_place(planned)
    call = Compile(request, planned, environ, cache, watch, since_ns, transcript.messages)
    if dry_run.input_record:
        call.note("the dry run is replayed, because its inputs have not changed")

    def meanwhile() -> None:
        if explaining:
            explaining.begin(request, products, cache)

    report = deliver.run_stages(call, call_slots, meanwhile)
    report.product = next(iter(products), "")
    if not report.leave_to_nvcc and report.status == 0:
        record_call.record_compile(call, dry_run, report)
    if explaining:
        explaining.end(report)
    _maintain(cache, config, report)
    return report


def _store(request: Request) -> store.Store:
    """The cache directory, with its remotes if these may be queried."""
    config = request.config
    if config.remote and not config.recache:
        return tiered_store.configured(Directory(config.dir), config, request.environ)
    return store.Store(config.dir, config.readonly)


def _maintain(cache: store.Store, config: Config, report: Report) -> None:
    """After a call: list entries for remotes, mark used entries, log a fault, enforce the size limit."""
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
        detail = log.hide_detail(bypass.detail)
        log.write(request.config.log, f"bypass {bypass.reason} {detail}")
    return Report(leave_to_nvcc=bypass.reason)
